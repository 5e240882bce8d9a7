"""`manyglot translate`: translate files or stdin with a model folder or an export."""

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
from manyglot.decoding.loading import EngineName, load
from manyglot.errors import ManyglotError, SettingsError
from manyglot.files import StrPath
from manyglot.langid.identifier import Identify, identify_with
from manyglot.langid.loading import load_identifier
from manyglot.progress import say


def translate(
    model: StrPath,
    job: Job,
    *,
    decoding: Mapping[str, Any] | None = None,
    device: str = "auto",
    engine: EngineName = "auto",
    check_language: bool = False,
    data: StrPath | None = None,
) -> Outcome:
    """Run a translation job with a model folder or an export; `decoding` overrides decoding settings.

    With `check_language`, the outputs are identified by py3langid, or by profiles of the training text in `data`.
    """
    if data is not None and not check_language:
        raise SettingsError("--data is what --check-language tells languages by. Give both.")
    translator = load(model, device, engine).with_settings(**decoding or {})
    if check_language:
        translator = translator.with_check(_identify(translator.engine.languages, data))
    outcome = job.run(translator, sys.stdin.buffer, sys.stdout.buffer)
    for message in translator.check.summary() if translator.check else ():
        say(message)
    return outcome


def _identify(languages: Languages, data: StrPath | None) -> Identify:
    """The identifier of the outputs."""
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
