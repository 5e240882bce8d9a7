"""Translating from end to end: a model folder or an export is opened, and does a job of the command line."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from manyglot.batches.dataset import Dataset
from manyglot.corpus.languages import Languages
from manyglot.corpus.rows import Split
from manyglot.decoding.job import Job, Outcome
from manyglot.decoding.loading import open_translator
from manyglot.errors import ManyglotError, SettingsError
from manyglot.langid.identifier import Identify, identify_with
from manyglot.langid.loading import load_identifier
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
        dataset = Dataset(data)
        return identify_with(load_identifier("profile", dataset.languages, partial(dataset.sentences, Split.TRAIN)))
    try:
        return identify_with(load_identifier("py3langid", languages, merge_variants=False))
    except ManyglotError:
        raise ManyglotError(
            "--check-language: py3langid knows none of the model's languages. With --data DATA they are told by the "
            "training text of prepared data."
        ) from None
