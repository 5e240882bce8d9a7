"""The command `manyglot evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from manyglot.cli.options import AsJson, EvaluationOverrides, LanguagePacks, print_json
from manyglot.errors import SettingsError
from manyglot.progress import is_secondary_process

if TYPE_CHECKING:
    from manyglot.corpus.language_codes import CodeStyle


def evaluate(
    model: Annotated[
        Path | None,
        typer.Argument(
            help="A model folder, a run folder, a checkpoint, or an export for CTranslate2.", show_default=False
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Prepared data whose test split is translated, unless --test is given.", show_default=False),
    ] = None,
    zero_shot: Annotated[bool, typer.Option("--zero-shot", help="Also evaluate zero-shot directions.")] = False,
    test: Annotated[
        Path | None,
        typer.Option(
            help="Other test text: a folder, file or zip archive in a published layout (FLORES-200, NTREX-128, TMX …), "
            "or a YAML file that describes it."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the results and the report.")
    ] = None,
    engine_command: Annotated[
        str | None,
        typer.Option(
            help="Evaluate a program instead of a model: 'mytool --from {source} --to {target}' reads a sentence per "
            "line and writes a translation per line."
        ),
    ] = None,
    engine_languages: Annotated[
        list[str],
        typer.Option("--engine-language", metavar="CODE=NAME", help="What the program calls a language: zh=zh-CN."),
    ] = [],  # noqa: B006
    engine_code_style: Annotated[
        str | None, typer.Option(help="Codes that the program uses for other languages: bcp47, iso639-3 or flores.")
    ] = None,
    engine_timeout: Annotated[
        float | None, typer.Option(help="Maximum seconds of the program per direction; default 3600.")
    ] = None,
    engine_jobs: Annotated[
        int | None, typer.Option(help="Directions that the program translates at the same time; default 1.")
    ] = None,
    directions: Annotated[
        str | None, typer.Option(help="Directions in which to evaluate a program or export: de>en,en>de; default all.")
    ] = None,
    trained_directions: Annotated[
        str | None,
        typer.Option(help="Directions that a program or export was trained on: de>en,en>de; all; or a model."),
    ] = None,
    central_language: Annotated[
        str | None, typer.Option(help="Language whose directions a program or export was trained on.")
    ] = None,
    packs: LanguagePacks = [],  # noqa: B006
    overrides: EvaluationOverrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Evaluate a model, or any program that translates, in every direction.

    Translates the test split and prints BLEU, chrF++ and language accuracy, supervised and zero-shot. With --output, an
    interrupted evaluation resumes where it stopped. Under torchrun, all processes translate.
    """
    from manyglot.evaluation.command_engine import DEFAULT_TIMEOUT, CommandEngine, parse_engine_languages
    from manyglot.reports.displayable import print_parts
    from manyglot.workflows import evaluate as workflow

    if engine_command is None and (engine_languages or engine_code_style or engine_timeout or engine_jobs):
        raise SettingsError("The options --engine-… need --engine-command. Add it.")
    if (model is None) == (engine_command is None):
        raise SettingsError("Give either a model or --engine-command.")
    system: Path | CommandEngine | None = model
    if engine_command is not None:
        system = CommandEngine(
            engine_command,
            parse_engine_languages(engine_languages),
            cast("CodeStyle", engine_code_style or "as_given"),
            DEFAULT_TIMEOUT if engine_timeout is None else engine_timeout,
            1 if engine_jobs is None else engine_jobs,
        )
    assert system is not None
    evaluation = workflow.evaluate(
        system,
        data,
        zero_shot,
        output,
        overrides,
        test,
        trained_directions=trained_directions,
        central_language=central_language,
        directions=None if directions is None else directions.split(","),
        packs=packs,
    )
    if is_secondary_process():
        return
    if as_json:
        return print_json(evaluation.to_dict())
    print_parts(evaluation.display_parts())
    if output:
        print(f"Report: {output / 'report.html'}")
