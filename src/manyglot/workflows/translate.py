"""Translating from end to end: a model folder or an export is opened, and does a job of the command line."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyglot.batches.dataset import Dataset
from manyglot.corpus.languages import Languages
from manyglot.decoding.check import Identify
from manyglot.decoding.job import Job, Outcome
from manyglot.decoding.loading import open_translator
from manyglot.errors import ManyglotError, SettingsError
from manyglot.langid.identifier import Py3Langid, identify_with, make_identifier
from manyglot.progress import say


def translate(
    model: Path,
    job: Job,
    *,
    decoding: Mapping[str, Any] | None = None,
    device: str = "auto",
    engine: str = "auto",
    check_language: bool = False,
    data: Path | None = None,
) -> Outcome:
    """Do a job of translating with a model folder or an export; `decoding` changes settings of the search.

    With `check_language`, the language of outputs is told by py3langid, or by the training text of prepared `data`.
    """
    if data is not None and not check_language:
        raise SettingsError("--data is what --check-language tells languages by. Give both.")
    translator = open_translator(model, device, engine).with_settings(**decoding or {})
    if check_language:
        translator = translator.with_check(_identify(translator.engine.languages, data))
    outcome = job.run(translator, sys.stdin.buffer, sys.stdout.buffer)
    for message in translator.check.summary() if translator.check else ():
        say(message)
    return outcome


def _identify(languages: Languages, data: Path | None) -> Identify:
    """What tells the languages of outputs."""
    if data is not None:
        return identify_with(make_identifier("profile", Dataset(data)))
    try:
        return identify_with(Py3Langid(languages))
    except ManyglotError:
        raise ManyglotError(
            "--check-language: py3langid knows none of the model's languages. With --data DATA they are told by the "
            "training text of prepared data."
        ) from None
