"""Massively multilingual neural machine translation into the right language.

>>> import manyglot
>>> model = manyglot.load("demo-run/run/model")            # doctest: +SKIP
>>> model.translate("Tuesday, March 5", to="de")           # doctest: +SKIP
'Dienstag, 5. März'

The main commands have a function of the same name:

    prepare(experiment)         read, clean and tokenize a corpus
    train(experiment)           train a model, or resume a run; takes callbacks
    load(model)                 open a model as a Translator
    evaluate(model, data)       translate and score every direction; also with a `CommandEngine`
    score(hypotheses, test)     score translations of any system
    compare(runs)               compare evaluated systems, with significance
    report(runs)                write an HTML report
    plot(runs)                  plot learning curves
    probe(models)               test what a model has learned about its languages
    describe(model)             show the architecture and size of a model
    average(run, last=5)        average the weights of checkpoints
    trim(model, output, codes)  drop other languages and their subwords
    export(model, output)       write a model in another format
    import_model(model, output) convert a model of transformers to a model folder
    add_language(model, text, output) train a language pack, which adds languages to a model
    translate(model, job)       translate files: a manyglot.decoding.translation_job.TranslationJob
    demo()                      train and evaluate a small model

An experiment is an `Experiment`, the path of its YAML file, or a dictionary of settings; `read_experiment` reads a
file. Paths are text or `Path`. Results print as tables, and notebooks show their tables and pictures. A mistake raises
a `ManyglotError` with a one-line message. The logger `manyglot` receives status messages. The functions of
`manyglot corpus` are in `manyglot.workflows.corpus`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manyglot.config.experiment import Experiment, read_experiment
    from manyglot.decoding.loading import load
    from manyglot.errors import ManyglotError
    from manyglot.evaluation.command_engine import CommandEngine
    from manyglot.workflows.add_language import add_language
    from manyglot.workflows.average import average
    from manyglot.workflows.compare import compare
    from manyglot.workflows.demo import demo
    from manyglot.workflows.describe import describe
    from manyglot.workflows.evaluate import evaluate
    from manyglot.workflows.export import export
    from manyglot.workflows.import_model import import_model
    from manyglot.workflows.plot import plot
    from manyglot.workflows.prepare import prepare
    from manyglot.workflows.probe import probe
    from manyglot.workflows.report import report
    from manyglot.workflows.score import score
    from manyglot.workflows.train import train
    from manyglot.workflows.translate import translate
    from manyglot.workflows.trim import trim

__version__ = "0.1.0"
__all__ = [
    "CommandEngine",
    "Experiment",
    "ManyglotError",
    "__version__",
    "add_language",
    "average",
    "compare",
    "demo",
    "describe",
    "evaluate",
    "export",
    "import_model",
    "load",
    "plot",
    "prepare",
    "probe",
    "read_experiment",
    "report",
    "score",
    "train",
    "translate",
    "trim",
]
_MODULES = {
    "CommandEngine": "manyglot.evaluation.command_engine",
    "Experiment": "manyglot.config.experiment",
    "ManyglotError": "manyglot.errors",
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
