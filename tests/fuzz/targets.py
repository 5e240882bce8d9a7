"""All targets of the fuzzer and their share of the cases."""

from __future__ import annotations

from pathlib import Path

from manyglot.config.experiment import Experiment
from tests.fuzz.cases import Target
from tests.fuzz.hypotheses_target import HypothesesTarget
from tests.fuzz.import_target import ImportTarget
from tests.fuzz.originals import SPLIT_ROWS
from tests.fuzz.pack_target import PackTarget
from tests.fuzz.resumed_targets import resumed_targets
from tests.fuzz.run_targets import ResultsTarget, RunTarget
from tests.fuzz.sealed_targets import DatasetTarget, ExportTarget, ModelTarget
from tests.fuzz.settings_target import SettingsTarget
from tests.fuzz.text_targets import CorpusTarget, RequestsTarget

SHARES = {
    "dataset": 8,
    "forged-dataset": 7,
    "model": 8,
    "forged-model": 8,
    "bfloat16": 3,
    "export": 6,
    "forged-export": 6,
    "run": 4,
    "results": 5,
    "resumed-prepare": 3,
    "resumed-evaluate": 1,
    "settings": 6,
    "corpus-text": 2,
    "corpus-compressed": 3,
    "corpus-tsv": 2,
    "corpus-ted": 1,
    "corpus-jsonl": 3,
    "corpus-parquet": 3,
    "corpus-tmx": 2,
    "corpus-zip": 2,
    "requests": 3,
    "hypotheses": 3,
    "pack": 3,
    "forged-pack": 4,
    "import-nllb": 2,
    "import-marian_multilingual": 2,
}
"""Percentage of the cases that each target gets."""


def make_targets(experiment: Experiment) -> dict[str, Target]:
    """Return the targets by name; the experiment is that of the run."""
    targets: list[Target] = [
        DatasetTarget(),
        DatasetTarget("forged-dataset", forged=True),
        ModelTarget(),
        ModelTarget("forged-model", forged=True),
        ModelTarget("bfloat16"),
        ExportTarget(),
        ExportTarget("forged-export", forged=True),
        RunTarget(experiment),
        ResultsTarget(),
        SettingsTarget(),
        *(CorpusTarget(kind) for kind in ("text", "compressed", "tsv", "ted", "jsonl", "parquet", "tmx", "zip")),
        RequestsTarget(),
        HypothesesTarget(SPLIT_ROWS["test"]),
        PackTarget(),
        PackTarget("forged-pack", forged=True),
        ImportTarget("nllb"),
        ImportTarget("marian_multilingual"),
        *resumed_targets(experiment),
    ]
    return {target.name: target for target in targets}


def original_folder(originals: Path, name: str) -> Path:
    """Return the folder with the undamaged input of a target."""
    return originals / name.removeprefix("forged-")
