"""The commands. Each parses its arguments, calls the library and prints; results on stdout, the rest on stderr."""

from __future__ import annotations

import io
import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import manyglot
from manyglot.errors import ManyglotError, SettingsError, Stopped
from manyglot.probe_command import probe
from manyglot.progress import is_silent, say
from manyglot.translate_command import translate

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
RESUMED = ("demo", "prepare", "train")
"""Commands that go on where they were stopped."""

ConfigFile = Annotated[Path, typer.Argument(help="The experiment's YAML file.", show_default=False)]
ModelFolder = Annotated[Path, typer.Argument(help="A model folder, such as runs/mine/model.", show_default=False)]
Overrides = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, e.g. training.max_steps=500.")
]
JudgingOverrides = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a decoding or evaluation setting.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


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
    output: Annotated[Path, typer.Option(help="Where to put everything.")] = Path("demo-run"),
    overrides: Overrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Train and score a small model of 14 languages.

    Prepares the built-in phrasebook, trains on two CPU cores for some minutes, translates supervised and zero-shot
    directions, and ends with scores, a few translations and a report.
    """
    from manyglot import workflow
    from manyglot.reports.tables import print_averages, print_examples

    evaluation, report = workflow.demo(output, overrides)
    if as_json:
        return _print_json({"averages": evaluation.averages(), "report": str(report)})
    print_averages(evaluation)
    print_examples(evaluation.sample(6))
    print(f"Report: {report}\nTry: echo 'Tuesday, March 5, 2024' | {_command()} translate {output}/run/model --to sw")


corpus_app = typer.Typer(help="Look at a corpus before it is prepared.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(corpus_app, name="corpus")


@corpus_app.command("inspect")
def corpus_inspect(
    config: ConfigFile,
    overrides: Overrides = [],  # noqa: B006
    samples: Annotated[int, typer.Option(help="Sentences to show of each language.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Show what a corpus has and what may be wrong with it.

    Languages, sentences, pairs and samples; misaligned files, text that is not UTF-8, wrong scripts, repetitions.
    """
    from manyglot import workflow
    from manyglot.config import read_experiment
    from manyglot.reports.corpora import print_inspection

    inspection = workflow.inspect(read_experiment(config, overrides), samples)
    if as_json:
        _print_json(inspection.as_json())
    else:
        print_inspection(inspection)
    if inspection.errors:
        raise ManyglotError(f"The corpus cannot be read as it is: {inspection.errors[0]}")


@corpus_app.command("preview")
def corpus_preview(
    config: ConfigFile,
    overrides: Overrides = [],  # noqa: B006
    temperature: Annotated[
        list[str],
        typer.Option("--temperature", "-T", help="Temperatures to compare, or none; the setting's if not given."),
    ] = [],  # noqa: B006
    output: Annotated[Path | None, typer.Option(help="Draw the shares into this SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what temperature sampling makes of a corpus.

    For each target language and direction its share of an epoch and how often its sentences are seen in one, and what
    is seen too often.
    """
    from manyglot import workflow
    from manyglot.config import read_experiment
    from manyglot.reports.corpora import preview_svg, print_preview

    preview = workflow.preview(read_experiment(config, overrides), temperature)
    if output is not None:
        output.write_text(preview_svg(preview), encoding="utf-8")
    if as_json:
        return _print_json(preview.as_json())
    print_preview(preview)


@corpus_app.command("zero-shot")
def corpus_zero_shot(
    config: ConfigFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A new folder; best `zero-shot` in a corpus of pairs.")
    ],
    overrides: Overrides = [],  # noqa: B006
    drop_leaked: Annotated[bool, typer.Option("--drop-leaked", help="Leave out what training has seen.")] = False,
    distinct: Annotated[bool, typer.Option("--distinct", help="Take a translation that is repeated once.")] = False,
    max_sentences: Annotated[int | None, typer.Option(min=1, help="Of each pair of languages, at most.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make zero-shot test sets from an English-centric corpus.

    Pairs test sentences of any two languages whose English side is the same, and counts those that training has seen.
    """
    from manyglot.config import read_experiment
    from manyglot.corpus.sources import make_zero_shot_tests
    from manyglot.reports.corpora import print_zero_shot

    settings = read_experiment(config, overrides).corpus
    facts = make_zero_shot_tests(settings, output, drop_leaked, distinct, max_sentences)
    if as_json:
        return _print_json({"folder": str(output), "sets": [each.as_json() for each in facts]})
    print_zero_shot(facts)


@corpus_app.command("translations")
def corpus_translations(
    configs: Annotated[list[Path], typer.Argument(help="Experiments' YAML files.", show_default=False)],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Draw histograms into this SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Count the translations of each English sentence.

    How many unique English sentences of the training text have how many translations in other languages, and the mean.
    """
    from manyglot.config import read_experiment
    from manyglot.corpus.sources import translations_of
    from manyglot.reports.translations import translations_line, translations_svg

    found = {str(path): translations_of(read_experiment(path).corpus) for path in configs}
    if output is not None:
        output.write_text(translations_svg(found), encoding="utf-8")
    if as_json:
        return _print_json({name: each.as_json() for name, each in found.items()})
    for name, each in found.items():
        print(translations_line(name, each))


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
    from manyglot import workflow
    from manyglot.config import read_experiment
    from manyglot.reports.corpora import print_dropped, print_subwords

    if as_json and show_dropped:
        raise SettingsError("--show-dropped is for the text; --json has the examples anyway. Leave one of them out.")
    dataset = workflow.prepare(read_experiment(config, overrides))
    if as_json:
        return _print_json({"data": str(dataset.folder), **dataset.card})
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
    from manyglot import workflow
    from manyglot.config import read_experiment
    from manyglot.model.folder import read_training

    experiment = read_experiment(config, overrides)
    if dry_run:
        return _show_forecast(workflow.forecast(experiment), as_json)
    model = workflow.train(experiment)
    if is_silent():  # one of several processes
        return
    summary = workflow.summarize(experiment.run)
    if as_json:
        values = asdict(summary) if summary else {}
        return _print_json({"model": str(model), **values, **read_training(model)})
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
    from manyglot import workflow

    workflow.plot(runs, output, tokens)
    print(output)


app.command()(translate)


@app.command()
def evaluate(
    model: ModelFolder,
    data: Annotated[Path, typer.Option(help="The prepared data to translate.", show_default=False)],
    zero_shot: Annotated[bool, typer.Option("--zero-shot", help="Also the directions never trained on.")] = False,
    output: Annotated[Path | None, typer.Option(help="Folder for the results and the report.")] = None,
    overrides: JudgingOverrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Score a model in every direction.

    Translates the test split and prints BLEU, chrF++ and language accuracy, supervised and zero-shot.
    """
    from manyglot import workflow
    from manyglot.reports.tables import print_averages

    evaluation = workflow.evaluate(model, data, zero_shot, output, overrides)
    if as_json:
        return _print_json(evaluation.scores())
    print_averages(evaluation)
    if output:
        print(f"Report: {output / 'report.html'}")


@app.command()
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Folders of `evaluate --output`; NAME=A,B names a system of several seeds.", metavar="RUN…"
        ),
    ],
    reference: Annotated[str | None, typer.Option(help="The run, or its name, that win rates are against.")] = None,
    form: Annotated[str, typer.Option("--format", help="markdown, latex, csv or json.")] = "markdown",
    common: Annotated[bool, typer.Option("--common", help="Compare what all runs were tested on.")] = False,
    significance: Annotated[
        int, typer.Option(min=0, help="Paired bootstrap with this many samples, such as 1000; 0 without.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap.")] = 1,
) -> None:
    """Show systems beside one another.

    BLEU, win rate and language accuracy from and into English, over all supervised directions and zero-shot, as in the
    paper's tables; the best in bold.
    """
    from manyglot.evaluation.comparison import compare as compare_systems
    from manyglot.evaluation.comparison import read_systems
    from manyglot.reports.comparison import comparison_text, table_format

    chosen = table_format(form)
    systems, name = read_systems(runs, reference)
    print(comparison_text(compare_systems(systems, name, common, significance, seed), chosen), end="")


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
    from manyglot import workflow
    from manyglot.reports.tables import print_description

    description = workflow.describe(what, overrides)
    if as_json:
        return _print_json(description)
    print_description(description)


@app.command()
def export(
    model: ModelFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.", show_default=False)],
    target: Annotated[
        list[str],
        typer.Option(help="Target languages, such as de,fr; again for more. A model with tags alone needs none."),
    ] = [],  # noqa: B006
    to: Annotated[str, typer.Option(help="The format: ctranslate2.")] = "ctranslate2",
    quantization: Annotated[str | None, typer.Option(help="int8, int16, float16 …; float32 if not given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model for another engine.

    Guidance is folded into plain weights: a folder for each target language, or one for all where guidance is in tags.
    """
    from manyglot import workflow

    targets = [code.strip() for codes in target for code in codes.split(",") if code.strip()]
    folders = workflow.export(model, output, targets, to, quantization)
    if as_json:
        return _print_json({"folders": [str(folder) for folder in folders]})
    print(*folders, sep="\n")


def _show_forecast(forecast: Forecast, as_json: bool) -> None:
    """Print it; what training would refuse has the exit code of a refusal here too."""
    from manyglot.reports.forecast import print_forecast

    if as_json:
        _print_json(forecast.as_json())
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


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's mistake is one line on stderr and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")  # our results are in many scripts, whatever the terminal's default
    try:
        code = app(args=list(arguments) or ["--help"], prog_name="manyglot", standalone_mode=False)
        if code == INTERRUPTED and arguments[0] in RESUMED:  # typer catches Ctrl-C itself
            say("manyglot: interrupted. A training goes on from its last checkpoint when the command is run again.")
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
        say(f"manyglot: {' '.join(error.format_message().split())} Try 'manyglot --help'.")
        sys.exit(2)
