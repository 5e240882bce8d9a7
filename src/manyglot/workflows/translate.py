"""`manyglot translate`: translate files or stdin with a model folder or an export."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from manyglot.batches.dataset import Dataset
from manyglot.corpus.languages import Languages
from manyglot.corpus.rows import Split
from manyglot.decoding.loading import EngineName, load
from manyglot.decoding.translation_job import Outcome, TranslationJob
from manyglot.decoding.translator import Translator
from manyglot.errors import ManyglotError, SettingsError
from manyglot.files import StrPath
from manyglot.langid.identifier import Identify, identify_with
from manyglot.langid.loading import load_identifier
from manyglot.progress import say


@dataclass(frozen=True)
class TranslatorOptions:
    """How to open a model for translation."""

    device: str = "auto"
    engine: EngineName = "auto"
    decoding: Mapping[str, Any] = field(default_factory=dict)
    """Decoding settings that differ from the model's own."""
    check_language: bool = False
    """Whether to replace or mark outputs that are not in their target language."""
    data: StrPath | None = None
    """Prepared data whose training text identifies languages; by default py3langid does."""

    def __post_init__(self) -> None:
        if self.data is not None and not self.check_language:
            raise SettingsError("--data is what --check-language tells languages by. Give both.")

    def open(self, model: StrPath) -> Translator:
        """Open a model folder or an export."""
        translator = load(model, self.device, self.engine).with_settings(**self.decoding)
        if not self.check_language:
            return translator
        return translator.with_off_target_filter(_identify(translator.engine.languages, self.data))


def translate(model: StrPath, job: TranslationJob, options: TranslatorOptions = TranslatorOptions()) -> Outcome:
    """Run a translation job, from standard input and to standard output unless it names files."""
    translator = options.open(model)
    outcome = job.run(translator, sys.stdin.buffer, sys.stdout.buffer)
    for message in translator.off_target_filter.summary() if translator.off_target_filter else ():
        say(message)
    return outcome


def _identify(languages: Languages, data: StrPath | None) -> Identify:
    """Return the language identifier of the off-target filter."""
    if data is not None:
        dataset = Dataset(Path(data))
        return identify_with(load_identifier("profile", dataset.languages, partial(dataset.sentences, Split.TRAIN)))
    try:
        return identify_with(load_identifier("py3langid", languages, merge_variants=False))
    except ManyglotError:
        raise ManyglotError(
            "--check-language: py3langid knows none of the model's languages. With --data DATA they are told by the "
            "training text of prepared data."
        ) from None
