"""The command line: one file per command, which parses, calls the workflow of the same name and prints.

Results go to stdout, everything else to stderr. Commands import their workflow when they run, so that `manyglot --help`
answers at once, without loading torch.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import manyglot
from manyglot.cli import (
    compare,
    corpus,
    demo,
    describe,
    evaluate,
    export,
    plot,
    prepare,
    probe,
    report,
    train,
    translate,
)
from manyglot.errors import ManyglotError, Stopped
from manyglot.progress import say

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


app.command()(demo.demo)
app.add_typer(corpus.app, name="corpus")
app.command()(prepare.prepare)
app.command()(train.train)
app.command()(plot.plot)
app.command()(translate.translate)
app.command()(evaluate.evaluate)
app.command()(compare.compare)
app.command()(report.report)
app.command()(probe.probe)
app.command()(describe.describe)
app.command()(export.export)


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
