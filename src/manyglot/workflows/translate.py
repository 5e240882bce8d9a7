"""`manyglot translate`: translate files or stdin with a model folder, a run or an export."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manyglot.argument_types import checks_argument_types
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.corpus.base import Split
from manyglot.corpus.language_selection import match_languages
from manyglot.corpus.languages import Languages
from manyglot.decoding.loading import EngineName, load
from manyglot.decoding.translation_job import JobOutcome, TranslationJob
from manyglot.decoding.translator import Translator
from manyglot.errors import ManyglotError, SettingsError
from manyglot.files import StrPath
from manyglot.langid.identifier import OffTargetDetector, make_off_target_detector
from manyglot.langid.loading import load_identifier
from manyglot.progress import print_status


@dataclass(frozen=True)
class TranslatorOptions:
    """How to open a model for translation."""

    device: str = "auto"
    engine: EngineName = "auto"
    decoding: Mapping[str, Any] = field(default_factory=dict)
    """Decoding settings that differ from the model's own."""
    correct_off_target: bool = False
    """Whether to replace or mark outputs that are not in their target language."""
    langid_data: StrPath | None = None
    """Prepared data whose training text is used to identify languages. By default, py3langid identifies them."""
    packs: Sequence[StrPath] = ()
    """Language packs of the model."""

    def __post_init__(self) -> None:
        if self.langid_data is not None and not self.correct_off_target:
            raise SettingsError("--langid-data has no effect without --correct-off-target. Give both, or neither.")

    def open_translator(self, model: StrPath) -> Translator:
        """Open a model folder, a run folder, a checkpoint or an export."""
        translator = load(model, self.device, self.engine, packs=self.packs).with_settings(**self.decoding)
        if not self.correct_off_target:
            return translator
        detector = _load_off_target_detector(translator.engine.languages, self.langid_data)
        return translator.with_off_target_filter(detector)


@checks_argument_types
def translate(model: StrPath, job: TranslationJob, options: TranslatorOptions = TranslatorOptions()) -> JobOutcome:
    """Run a translation job, which may also score given translations.

    Without files, the job reads standard input and writes to standard output.
    """
    if job.score_translations and options.correct_off_target:
        raise SettingsError("--correct-off-target has no effect with --score-translations. Remove one of them.")
    translator = options.open_translator(model)
    outcome = job.run(translator, sys.stdin.buffer, sys.stdout.buffer)
    for message in translator.off_target_filter.summary_lines() if translator.off_target_filter else ():
        print_status(message)
    return outcome


def _load_off_target_detector(languages: Languages, langid_data: StrPath | None) -> OffTargetDetector:
    """Load the language identifier of the off-target filter."""
    if langid_data is not None:
        dataset = PreparedDataset(Path(langid_data))
        codes = match_languages(
            languages, dataset.languages, f"the languages of {langid_data}"
        )  # the model may name languages in another style
        codes |= {code: code for code in dataset.languages if code not in codes.values()}
        return make_off_target_detector(
            load_identifier("profile", Languages(codes), lambda code: dataset.sentences(Split.TRAIN, codes[code]))
        )
    try:
        return make_off_target_detector(load_identifier("py3langid", languages, merge_language_variants=False))
    except ManyglotError:
        raise ManyglotError(
            "--correct-off-target: py3langid knows none of the model's languages. Give --langid-data to identify "
            "them by the training text of prepared data."
        ) from None
