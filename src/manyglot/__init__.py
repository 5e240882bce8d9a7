"""Massively multilingual neural machine translation into the right language.

>>> import manyglot
>>> model = manyglot.load("demo-run/run/model")            # doctest: +SKIP
>>> model.translate("Tuesday, March 5", to="de")           # doctest: +SKIP
'Dienstag, 5. März'

Every command has a function of the same name here. `prepare`, `train` and `describe` take an experiment: an
`Experiment`, the path of its YAML file, or a dictionary of settings.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manyglot.config.experiment import Experiment, read_experiment
    from manyglot.decoding.loading import load
    from manyglot.workflows.average import average
    from manyglot.workflows.compare import compare
    from manyglot.workflows.demo import demo
    from manyglot.workflows.describe import describe
    from manyglot.workflows.evaluate import evaluate
    from manyglot.workflows.export import export
    from manyglot.workflows.plot import plot
    from manyglot.workflows.prepare import prepare
    from manyglot.workflows.probe import probe
    from manyglot.workflows.report import report
    from manyglot.workflows.train import train
    from manyglot.workflows.translate import translate

__version__ = "0.1.0"
__all__ = [
    "Experiment",
    "__version__",
    "average",
    "compare",
    "demo",
    "describe",
    "evaluate",
    "export",
    "load",
    "plot",
    "prepare",
    "probe",
    "read_experiment",
    "report",
    "train",
    "translate",
]
_MODULES = {
    "Experiment": "manyglot.config.experiment",
    "load": "manyglot.decoding.loading",
    "read_experiment": "manyglot.config.experiment",
}
"""The modules of the functions that are not workflows."""


def __getattr__(name: str) -> Any:
    """Import a function on first use, which keeps `import manyglot` fast."""
    if name not in __all__:
        raise AttributeError(f"module 'manyglot' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES.get(name, f"manyglot.workflows.{name}")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
