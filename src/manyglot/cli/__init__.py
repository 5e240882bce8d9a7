"""The commands. Each parses its arguments, calls the library and prints; results on stdout, the rest on stderr."""

from __future__ import annotations

import io
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import manyglot
from manyglot.cli import corpus
from manyglot.cli.evaluate import compare, evaluate, report
from manyglot.cli.options import AsJson, ConfigFile, ModelFolder, Overrides, print_json
from manyglot.cli.probe import probe
from manyglot.cli.translate import translate
from manyglot.errors import ManyglotError, SettingsError, Stopped
from manyglot.progress import is_silent, say

if TYPE_CHECKING:
    from manyglot.training.forecast import Forecast

# The library is imported inside the commands: `manyglot --help` answers at once, without loading torch.

app = typer.Typer(
    help="Massively multilingual machine translation that goes into the right language.\n\n"
    "Start with `manyglot demo`. With your own text: write a YAML file (see examples/), then prepare, train, "
    "translate and evaluate.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

INTERRUPTED = 130
"""The exit code of a program that was stopped by Ctrl-C."""
TRAINING = "A training goes on from its last checkpoint, if it has one, when the command is run again."
RESUMED = {
    **dict.fromkeys(("demo", "prepare", "train"), TRAINING),
    "evaluate": "With --output, what is translated is kept and used when the command is run again.",
}
"""Commands that go on where they were stopped, and how."""


def _version(wanted: bool) -> None:
    if wanted:
        print(f"manyglot {manyglot.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to put everything.")] = Path("demo-run"),
    overrides: Overrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Train and score a small model of 14 languages.

    Prepares the built-in phrasebook, trains on two CPU cores for some minutes, translates supervised and zero-shot
    directions, and ends with scores, a few translations and a report.
    """
    from manyglot.reports.tables import print_averages, print_examples
    from manyglot.workflows import corpus as workflow

    evaluation, report = workflow.demo(output, overrides)
    if as_json:
        return print_json({"averages": evaluation.averages(), "report": str(report)})
    print_averages(evaluation)
    print_examples(evaluation.sample(6))
    print(f"Report: {report}\nTry: echo 'Tuesday, March 5, 2024' | {_command()} translate {output}/run/model --to sw")


app.add_typer(corpus.app, name="corpus")


@app.command()
def prepare(
    config: ConfigFile,
    overrides: Overrides = [],  # noqa: B006
    show_dropped: Annotated[
        int, typer.Option(min=0, help="Examples to print of what is left out, for each reason.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Turn a corpus into prepared data.

    Reads the text that the YAML file names, learns subwords and writes the `data` folder.
    """
    from manyglot.config.experiment import read_experiment
    from manyglot.reports.corpora import print_dropped, print_subwords
    from manyglot.workflows import corpus as workflow

    if as_json and show_dropped:
        raise SettingsError("--show-dropped is for the text; --json has the examples anyway. Leave one of them out.")
    dataset = workflow.prepare(read_experiment(config, overrides))
    if as_json:
        return print_json({"data": str(dataset.folder), **dataset.card})
    rows = ", ".join(f"{count:,} {split}" for split, count in dataset.card["rows"].items())
    print(f"{dataset.folder}: {rows} rows in {len(dataset.languages)} languages")
    print_subwords(dataset.card["subwords"])
    print_dropped(dataset.card["dropped"], dataset.card["dropped_examples"], show_dropped)
    say(f"Next: {_command()} train {config}{_again(overrides)}")


@app.command()
def train(
    config: ConfigFile,
    overrides: Overrides = [],  # noqa: B006
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan, the time and the space it needs; write nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model, or go on with a stopped run.

    Reads the `data` folder and writes the `run` folder: checkpoints, a log and, in the end, the model folder.
    """
    from manyglot.config.experiment import read_experiment
    from manyglot.model.folder import read_training
    from manyglot.workflows import corpus as workflow

    experiment = read_experiment(config, overrides)
    if dry_run:
        return _show_forecast(workflow.forecast(experiment), as_json)
    model = workflow.train(experiment)
    if is_silent():  # one of several processes
        return
    summary = workflow.summarize(experiment.run)
    if as_json:
        values = asdict(summary) if summary else {}
        return print_json({"model": str(model), **values, **read_training(model)})
    if summary:
        say(str(summary))
    print(model)
    say(f"Curves: {_command()} plot {experiment.run}")
    say(f"Next: {_command()} evaluate {model} --data {experiment.data} --zero-shot")


@app.command()
def plot(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, such as runs/mine.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The picture: a file that ends in .png, .svg or .pdf.")
    ] = Path("curves.png"),
    tokens: Annotated[bool, typer.Option("--tokens", help="Over the target tokens seen instead of the steps.")] = False,
) -> None:
    """Draw the curves of one or more runs.

    Loss, dev scores, learning rate, speed and the loss into each language, from the log; also while a run is training.
    """
    from manyglot.workflows import corpus as workflow

    workflow.plot(runs, output, tokens)
    print(output)


app.command()(translate)


app.command()(evaluate)
app.command()(compare)
app.command()(report)


app.command()(probe)


@app.command()
def describe(
    what: Annotated[Path, typer.Argument(help="An experiment's YAML file or a model folder.", show_default=False)],
    overrides: Overrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Show a model's shape and parameters.

    Layers, guidance, languages and the number of parameters by part.
    """
    from manyglot.reports.tables import print_description
    from manyglot.workflows import corpus as workflow

    description = workflow.describe(what, overrides)
    if as_json:
        return print_json(description)
    print_description(description)


@app.command()
def export(
    model: ModelFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.", show_default=False)],
    target: Annotated[
        list[str],
        typer.Option(help="Target languages, such as de,fr; again for more. A model with tags alone needs none."),
    ] = [],  # noqa: B006
    to: Annotated[str, typer.Option(help="ctranslate2, or manyglot: the model in half the size.")] = "ctranslate2",
    quantization: Annotated[str | None, typer.Option(help="int8, int16, float16 …; float32 if not given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model for another engine, or in half the size.

    For CTranslate2, guidance is folded into plain weights: a folder for each target language, or one for all where
    guidance is in tags.
    """
    from manyglot.workflows import corpus as workflow

    targets = [code.strip() for codes in target for code in codes.split(",") if code.strip()]
    folders = workflow.export(model, output, targets, to, quantization)
    if as_json:
        return print_json({"folders": [str(folder) for folder in folders]})
    print(*folders, sep="\n")


def _show_forecast(forecast: Forecast, as_json: bool) -> None:
    """Print it; what training would refuse has the exit code of a refusal here too."""
    from manyglot.reports.forecast import print_forecast

    if as_json:
        print_json(forecast.as_json())
    else:
        print_forecast(forecast.as_json())
    if forecast.beginning.state == "refused":
        raise ManyglotError(forecast.beginning.reason)


def _again(overrides: Sequence[str]) -> str:
    """The overrides as they were given, for the next command."""
    return "".join(f" --set {shlex.quote(override)}" for override in overrides)


def _command() -> str:
    """How the user can call us again: by name, if that is on the PATH, else as it was called now."""
    if shutil.which("manyglot"):
        return "manyglot"
    return sys.argv[0] if Path(sys.argv[0]).name == "manyglot" else f"{sys.executable} -m manyglot"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's mistake is one line on stderr and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")  # our results are in many scripts, whatever the terminal's default
    try:
        code = app(args=list(arguments) or ["--help"], prog_name="manyglot", standalone_mode=False)
        if code == INTERRUPTED and arguments[0] in RESUMED:  # typer catches Ctrl-C itself
            say(f"manyglot: interrupted. {RESUMED[arguments[0]]}")
        if isinstance(code, int) and code:
            sys.exit(code)
    except Stopped as stop:
        say(f"manyglot: {stop}")
    except ManyglotError as error:
        say(f"manyglot: {error}")
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output, `head` say, has enough
        sys.stdout = None
    except OSError as error:  # no space, no permission: the machine's, and the user's to mend
        say(f"manyglot: {error.filename or 'The system says'}: {error.strerror or error}.")
        sys.exit(2)
    except Exception as error:
        # Typer's own mistakes (an unknown option, say) are recognised by their method: their class moved between
        # versions of typer.
        if not hasattr(error, "format_message"):
            raise
        said, context = " ".join(error.format_message().split()).rstrip("."), getattr(error, "ctx", None)
        say(f"manyglot: {said}. Try '{context.command_path if context else 'manyglot'} --help'.")
        sys.exit(2)
