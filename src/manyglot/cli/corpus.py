"""The commands `manyglot corpus …`, which look at a corpus before it is prepared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyglot.cli.options import AsJson, ConfigFile, Overrides, print_json
from manyglot.errors import ManyglotError

app = typer.Typer(help="Look at a corpus before it is prepared.", no_args_is_help=True, rich_markup_mode=None)


@app.command("inspect")
def inspect(
    config: ConfigFile,
    overrides: Overrides = [],  # noqa: B006
    samples: Annotated[int, typer.Option(help="Sentences to show of each language.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Show what a corpus has and what may be wrong with it.

    Languages, sentences, pairs and samples; misaligned files, text that is not UTF-8, wrong scripts, repetitions.
    """
    from manyglot.config.experiment import read_experiment
    from manyglot.reports.corpora import print_inspection
    from manyglot.workflows import corpus as workflow

    inspection = workflow.inspect(read_experiment(config, overrides), samples)
    if as_json:
        print_json(inspection.as_json())
    else:
        print_inspection(inspection)
    if inspection.errors:
        raise ManyglotError(f"The corpus cannot be read as it is: {inspection.errors[0]}")


@app.command("preview")
def preview(
    config: ConfigFile,
    overrides: Overrides = [],  # noqa: B006
    temperature: Annotated[
        list[str],
        typer.Option("--temperature", "-T", help="Temperatures to compare, or none; the setting's if not given."),
    ] = [],  # noqa: B006
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Draw the shares into this SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what temperature sampling makes of a corpus.

    For each target language and direction its share of an epoch and how often its sentences are seen in one, and what
    is seen too often.
    """
    from manyglot.config.experiment import read_experiment
    from manyglot.reports.corpora import preview_svg, print_preview
    from manyglot.workflows import corpus as workflow

    preview = workflow.preview(read_experiment(config, overrides), temperature)
    if output is not None:
        output.write_text(preview_svg(preview), encoding="utf-8")
    if as_json:
        return print_json(preview.as_json())
    print_preview(preview)


@app.command("zero-shot")
def zero_shot(
    config: ConfigFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A new folder; best `zero-shot` in a corpus of pairs.")
    ],
    overrides: Overrides = [],  # noqa: B006
    drop_leaked: Annotated[bool, typer.Option("--drop-leaked", help="Leave out what training has seen.")] = False,
    distinct: Annotated[bool, typer.Option("--distinct", help="Take a translation that is repeated once.")] = False,
    max_sentences: Annotated[int | None, typer.Option(min=1, help="Of each pair of languages, at most.")] = None,
    supervised: Annotated[
        bool, typer.Option("--supervised", help="Also pairs with English: all that `evaluate --test` needs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make zero-shot test sets from an English-centric corpus.

    Pairs test sentences of any two languages whose English side is the same, and counts those that training has seen.
    """
    from manyglot.config.experiment import read_experiment
    from manyglot.reports.corpora import print_zero_shot
    from manyglot.workflows import corpus as workflow

    facts = workflow.zero_shot(
        read_experiment(config, overrides),
        output,
        drop_leaked=drop_leaked,
        distinct=distinct,
        max_sentences=max_sentences,
        supervised=supervised,
    )
    if as_json:
        return print_json({"folder": str(output), "sets": [each.as_json() for each in facts]})
    print_zero_shot(facts)


@app.command("translations")
def translations(
    configs: Annotated[list[Path], typer.Argument(help="Experiments' YAML files.", show_default=False)],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Draw histograms into this SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Count the translations of each English sentence.

    How many unique English sentences of the training text have how many translations in other languages, and the mean.
    """
    from manyglot.config.experiment import read_experiment
    from manyglot.reports.translations import translations_line, translations_svg
    from manyglot.workflows import corpus as workflow

    found = {str(path): workflow.translations(read_experiment(path)) for path in configs}
    if output is not None:
        output.write_text(translations_svg(found), encoding="utf-8")
    if as_json:
        return print_json({name: each.as_json() for name, each in found.items()})
    for name, each in found.items():
        print(translations_line(name, each))
