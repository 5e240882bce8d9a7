"""Translating from end to end: open a model folder or an export, and run a translation job with it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manyglot.batches.dataset import Dataset
from manyglot.corpus.languages import Languages
from manyglot.decoding.off_target import Identify
from manyglot.decoding.translation_job import Outcome, TranslationJob
from manyglot.decoding.translator import Translator
from manyglot.errors import ManyglotError, SettingsError
from manyglot.evaluation.identify import Py3Langid, identify_with, make_identifier
from manyglot.export.opening import open_translator
from manyglot.progress import say


@dataclass(frozen=True)
class TranslatorOptions:
    """How to open a model for translation."""

    device: str = "auto"
    engine: str = "auto"
    decoding: Mapping[str, Any] = field(default_factory=dict)
    """Decoding settings that differ from the model's own."""
    check_language: bool = False
    """Whether to replace or mark outputs that are not in their target language."""
    data: Path | None = None
    """Prepared data whose training text identifies languages; py3langid does where it is None."""

    def __post_init__(self) -> None:
        if self.data is not None and not self.check_language:
            raise SettingsError("--data is what --check-language tells languages by. Give both.")

    def open(self, model: Path) -> Translator:
        """Open a model folder or an export."""
        translator = open_translator(model, self.device, self.engine).with_settings(**self.decoding)
        if not self.check_language:
            return translator
        return translator.with_off_target_filter(_identify(translator.engine.languages, self.data))


def translate(model: Path, job: TranslationJob, options: TranslatorOptions = TranslatorOptions()) -> Outcome:
    """Run a translation job, from standard input and to standard output unless it names files."""
    translator = options.open(model)
    outcome = job.run(translator, sys.stdin.buffer, sys.stdout.buffer)
    for message in translator.off_target_filter.summary() if translator.off_target_filter else ():
        say(message)
    return outcome


def _identify(languages: Languages, data: Path | None) -> Identify:
    """Return the language identifier of the off-target filter."""
    if data is not None:
        return identify_with(make_identifier("profile", Dataset(data)))
    try:
        return identify_with(Py3Langid(languages))
    except ManyglotError:
        raise ManyglotError(
            "--check-language: py3langid knows none of the model's languages. With --data DATA they are told by the "
            "training text of prepared data."
        ) from None
