"""The command line. Each command has one file, which parses the options, calls the workflow of the same name and
prints the result.

Results go to stdout, everything else to stderr. Commands import their workflow when they run, so that `manyglot --help`
does not load torch and answers at once.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import manyglot
from manyglot.cli import (
    add_language,
    average,
    compare,
    corpus,
    demo,
    describe,
    evaluate,
    exit_codes,
    export,
    import_model,
    plot,
    prepare,
    probe,
    report,
    score,
    train,
    translate,
    trim,
)
from manyglot.cli.exit_codes import exit_on_sigterm
from manyglot.errors import ManyglotError, StoppedByUser
from manyglot.files import os_error_reason
from manyglot.progress import QUIET_VARIABLE, print_error

app = typer.Typer(
    help="Massively multilingual machine translation into the right language.\n\n"
    "Start with `manyglot demo`. For your own text, write a YAML file (see examples/), then run prepare, train, "
    "translate and evaluate.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

TRAINING_RESUME_HINT = "Run the same command again to resume from the last checkpoint, if there is one."
RESUME_HINTS = {
    **dict.fromkeys(("demo", "train", "add-language"), TRAINING_RESUME_HINT),
    "prepare": "Finished parts are saved; run the same command again to resume.",
    "evaluate": "With --output, finished translations are saved; run the same command again to resume.",
}
"""Printed after Ctrl-C and SIGTERM: how to resume each command that can resume."""


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(f"manyglot {manyglot.__version__}")
        raise typer.Exit


@app.callback()
def _root_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only.")] = False,
) -> None:
    if quiet:
        os.environ[QUIET_VARIABLE] = "1"


app.command()(demo.demo)
app.add_typer(corpus.app, name="corpus")
app.command()(prepare.prepare)
app.command()(train.train)
app.command()(add_language.add_language)
app.command()(average.average)
app.command()(plot.plot)
app.command()(translate.translate)
app.command()(evaluate.evaluate)
app.command()(score.score)
app.command()(compare.compare)
app.command()(report.report)
app.command()(probe.probe)
app.command()(describe.describe)
app.command()(trim.trim)
app.command()(export.export)
app.command("import")(import_model.import_model)


def _flush_stdout() -> None:
    """Write the rest of the output, so that a full disk is reported; Python would print a traceback at exit."""
    stdout, sys.stdout = sys.stdout, None
    if stdout is not None:
        stdout.flush()
        sys.stdout = stdout


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command. A user's mistake prints one line to stderr and exits with code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # The results contain scripts that the default of the terminal may lack, and a path may hold any bytes.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    with exit_on_sigterm():
        try:
            code: object = _run_command(arguments)
        except SystemExit as stop:
            code = stop.code
    hint = "" if "--dry-run" in arguments else RESUME_HINTS.get(arguments[0] if arguments else "", "")
    if code == exit_codes.INTERRUPTED and (hint or "--dry-run" in arguments):
        print_error(f"manyglot: interrupted. {hint}".rstrip())
    if code == exit_codes.TERMINATED:
        print_error(f"manyglot: terminated. {hint}".rstrip())
    if code:
        raise SystemExit(code)


def _run_command(arguments: Sequence[str]) -> int:
    """Run a command, print the error of one that failed, and return the exit code."""
    try:
        try:
            code = app(args=list(arguments) or ["--help"], prog_name="manyglot", standalone_mode=False)
        finally:
            _flush_stdout()
        return code if isinstance(code, int) else 0  # typer catches Ctrl-C itself
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except StoppedByUser as stop:
        print_error(f"manyglot: {stop}")
        return exit_codes.STOPPED
    except ManyglotError as error:
        print_error(f"manyglot: {error}")
        return exit_codes.USER_ERROR
    except BrokenPipeError:  # the reader of the output, such as `head`, has closed the pipe
        sys.stdout = None
        return 0
    except OSError as error:  # such as a full disk, which the user can correct
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        where = error.filename or ("Cannot write standard output" if is_full else "system error")
        print_error(f"manyglot: {where}: {os_error_reason(error)}.")
    except Exception as error:
        # Typer's usage errors, such as an unknown option, are recognized by their method, because their class moved
        # between versions of Typer.
        if not hasattr(error, "format_message"):
            raise
        message, context = " ".join(error.format_message().split()).rstrip("."), getattr(error, "ctx", None)
        end = "" if message.endswith("?") else "."
        print_error(f"manyglot: {message}{end} Try '{context.command_path if context else 'manyglot'} --help'.")
    return exit_codes.USER_ERROR
