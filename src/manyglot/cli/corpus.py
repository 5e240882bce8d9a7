"""The commands `manyglot corpus …`, which inspect and split a corpus before preparation and verify prepared data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyglot.cli.options import AsJson, ConfigFile, Overrides, print_json
from manyglot.errors import ManyglotError
from manyglot.files import report_unwritable, write_file
from manyglot.progress import format_bytes, print_status

app = typer.Typer(
    help="Inspect or split a corpus before preparation, or verify prepared data.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


@app.callback()
def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("inspect")
def inspect_corpus(
    config: ConfigFile,
    overrides: Overrides = [],  # noqa: B006
    samples: Annotated[int, typer.Option(help="Number of sample sentences per language.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Show the content and possible defects of a corpus, also that of a language pack.

    Prints languages, sentences, pairs and samples, and warns about misaligned files, text that is not UTF-8, files in
    another language or script than their names say, and repetitions.
    """
    from manyglot.config.experiment import read_corpus_settings
    from manyglot.corpus.base import Split
    from manyglot.reports.corpus_tables import print_corpus_inspection
    from manyglot.workflows import corpus as workflow

    inspection = workflow.inspect_corpus(read_corpus_settings(config, overrides), samples)
    if as_json:
        print_json(inspection.to_dict())
    else:
        print_corpus_inspection(inspection)
    if inspection.read_errors:
        raise ManyglotError("A part of the corpus cannot be read. Correct the problems listed above.")
    if not sum(inspection.num_pairs[Split.TRAIN].values()):
        raise ManyglotError("The corpus has no training text. Correct the problems listed above.")


@app.command("preview")
def preview_sampling(
    config: ConfigFile,
    overrides: Overrides = [],  # noqa: B006
    temperatures: Annotated[
        list[str],
        typer.Option(
            "--temperature", "-T", help="Temperature to preview, or none; repeatable. Default: the batch settings."
        ),
    ] = [],  # noqa: B006
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Plot the shares into this SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the effect of temperature sampling on a corpus.

    Prints the share of each target language and direction in an epoch and how often their sentences repeat, and warns
    about too many repetitions.
    """
    from manyglot.config.experiment import read_experiment
    from manyglot.reports.corpus_tables import print_sampling_preview, sampling_preview_svg
    from manyglot.workflows import corpus as workflow

    preview = workflow.preview_sampling(read_experiment(config, overrides), temperatures)
    if output is not None:
        with report_unwritable(output):
            write_file(output, sampling_preview_svg(preview))
    if as_json:
        return print_json(preview.to_dict())
    print_sampling_preview(preview)


@app.command("zero-shot")
def build_zero_shot_sets(
    config: ConfigFile,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Folder to create; ideally `zero-shot` in the folder of a bilingual corpus."
        ),
    ],
    overrides: Overrides = [],  # noqa: B006
    drop_leaked: Annotated[bool, typer.Option("--drop-leaked", help="Drop sentences that occur in training.")] = False,
    deduplicate_translations: Annotated[
        bool, typer.Option("--deduplicate-translations", help="Keep one copy of each repeated translation.")
    ] = False,
    max_sentences_per_pair: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of sentences per language pair.")
    ] = None,
    include_supervised: Annotated[
        bool,
        typer.Option(
            "--include-supervised", help="Add the pairs with English, so that `evaluate --test` can score them."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Build zero-shot test sets from an English-centric corpus.

    Pairs the test sentences of any two languages that have the same English side, and counts the sentences that also
    occur in training.
    """
    from manyglot.config.experiment import read_experiment
    from manyglot.reports.corpus_tables import print_zero_shot_leakage
    from manyglot.workflows import corpus as workflow

    statistics = workflow.build_zero_shot_sets(
        read_experiment(config, overrides),
        output,
        drop_leaked=drop_leaked,
        deduplicate_translations=deduplicate_translations,
        max_sentences_per_pair=max_sentences_per_pair,
        include_supervised=include_supervised,
    )
    if as_json:
        return print_json({"folder": str(output), "sets": [each.to_dict() for each in statistics]})
    print_zero_shot_leakage(statistics)


@app.command("split")
def split_corpus(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            help="Line-aligned files named by their languages (news.en news.de …), one table (TSV, JSONL or Parquet), "
            "or the YAML file of an experiment, whose training text is split.",
            metavar="IN…",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to create.")],
    num_dev: Annotated[int, typer.Option("--dev", min=0, help="Number of dev rows.")] = 1000,
    num_test: Annotated[int, typer.Option("--test", min=0, help="Number of test rows.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random choice.")] = 1,
    columns: Annotated[
        str, typer.Option(help="Columns of a TSV file without a header, such as de,en.", show_default=False)
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Split a corpus into train, dev and test text.

    Writes train.en, dev.en, test.en, train.de … Dev and test rows are chosen at random. Training rows that share a
    sentence with them, ignoring case, punctuation and white space, are left out. If there are several groups of aligned
    files (news.en news.de talks.en talks.fr), --dev and --test count for each group.
    """
    from manyglot.reports.corpus_tables import print_split_statistics
    from manyglot.workflows import corpus as workflow

    names = tuple(name.strip() for name in columns.split(",")) if columns else ()
    statistics = workflow.split_corpus(inputs, output, num_dev=num_dev, num_test=num_test, seed=seed, columns=names)
    if as_json:
        return print_json({"folder": str(output), **statistics.to_dict()})
    print_split_statistics(statistics)
    print_status(f"Use it as `corpus: {{kind: multiway, path: {output}}}`.")


@app.command("translations")
def count_translations(
    configs: Annotated[list[Path], typer.Argument(help="YAML files of experiments.", show_default=False)],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Plot histograms into this SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Count the translations of each English sentence.

    Counts the languages into which each unique English training sentence is translated. Prints a histogram of these
    counts and their mean.
    """
    from manyglot.config.experiment import read_experiment
    from manyglot.reports.translation_counts import translation_counts_line, translation_counts_svg
    from manyglot.workflows import corpus as workflow

    counts_by_config = {str(path): workflow.count_translations(read_experiment(path)) for path in configs}
    if output is not None:
        with report_unwritable(output):
            write_file(output, translation_counts_svg(counts_by_config))
    if as_json:
        return print_json({name: counts.to_dict() for name, counts in counts_by_config.items()})
    for name, counts in counts_by_config.items():
        print(translation_counts_line(name, counts))


@app.command("verify")
def verify_dataset(
    data: Annotated[Path, typer.Argument(help="Folder of prepared data.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Verify that prepared data is undamaged.

    Reads all files that `manyglot prepare` wrote and compares them with their sizes and checksums. A damaged file is
    named, and the exit code is 2.
    """
    from manyglot.workflows import corpus as workflow

    dataset = workflow.verify_dataset(data)
    num_files = len(dataset.seals) + 1  # dataset.json has the seals
    if as_json:
        return print_json(
            {"data": str(data), "files": num_files, "bytes": dataset.num_bytes, "sha256": dataset.digest()}
        )
    print(f"{data} is undamaged: {num_files} files, {format_bytes(dataset.num_bytes)}.")
