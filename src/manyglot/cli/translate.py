"""The command `manyglot translate`, which has more options than all others together."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from manyglot.errors import SettingsError

if TYPE_CHECKING:
    from manyglot.decoding.loading import EngineName
    from manyglot.decoding.requests import Form


def translate(
    model: Annotated[Path, typer.Argument(help="A model folder, or an export for CTranslate2.", show_default=False)],
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="What to translate; also .gz, .xz, .zst. Stdin if none is given, or for -."),
    ] = None,
    to: Annotated[
        str, typer.Option(help="Target languages, such as de or de,fr; the default where lines name their own.")
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A file, also .gz; text in several languages: out.de.txt, out.fr.txt …"),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="Of input and output: text, tsv or jsonl.")] = "text",
    output_form: Annotated[
        str | None, typer.Option("--output-format", help="Of the output, if it is another one.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Of tsv: text and target, by number or name. 3 alone has no target.")
    ] = None,
    n_best: Annotated[int, typer.Option(help="Translations of each sentence, in tsv or jsonl.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Write scores, in tsv or jsonl.")] = False,
    beam: Annotated[int | None, typer.Option(help="Hypotheses per sentence; 1 is greedy and fast.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Above 1 prefers longer outputs, below shorter.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Subwords that an output has at most.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Draw words at random; above 1 more boldly.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="float32 or bfloat16; if not given, what is faster here.")
    ] = None,
    via: Annotated[
        str | None, typer.Option(help="Translate into this language first, and from it; for text in others.")
    ] = None,
    max_chars: Annotated[
        int | None, typer.Option(help="A longer text is cut, or split; 10,000 if not given.", show_default=False)
    ] = None,
    split_long: Annotated[bool, typer.Option("--split-long", help="Split longer texts into sentences.")] = False,
    check_language: Annotated[
        bool,
        typer.Option("--check-language", help="Replace outputs in a wrong language by alternatives, or mark them."),
    ] = False,
    data: Annotated[
        Path | None, typer.Option(help="Prepared data by whose text the check tells languages, not by py3langid.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 …")] = "auto",
    engine: Annotated[str, typer.Option(help="auto, native or ctranslate2.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="The same as --output-format jsonl.")] = False,
) -> None:
    """Translate text, a sentence a line.

    The text may be in any of the model's languages, mixed too; an empty line stays empty. A line that cannot be
    translated is empty in the output and named, and then the exit code is 1.
    """
    from manyglot.decoding.requests import LIMIT, read_columns
    from manyglot.decoding.translation_job import TranslationJob
    from manyglot.workflows import translate as workflow
    from manyglot.workflows.translate import TranslatorOptions

    if as_json and output_form not in (None, "jsonl"):
        raise SettingsError(f"--json is --output-format jsonl, and {output_form} is asked for too. Give one of them.")
    job = TranslationJob(
        files=files or (),
        output=output,
        to=[name.strip() for name in to.split(",") if name.strip()],
        form=cast("Form", form),
        output_form=cast("Form", "jsonl" if as_json else output_form),
        columns=None if columns is None else read_columns(columns),
        n_best=n_best,
        scores=scores,
        max_chars=LIMIT if max_chars is None else max_chars,
        split_long=split_long,
    )
    asked = {
        "beam": beam,
        "length_penalty": length_penalty,
        "max_length": max_length,
        "temperature": temperature,
        "precision": precision,
        "via": via,
    }
    decoding = {key: value for key, value in asked.items() if value is not None}
    options = TranslatorOptions(device, cast("EngineName", engine), decoding, check_language, data)
    with _until_the_reader_has_enough():
        outcome = workflow.translate(model, job, options)
    if outcome.num_problems:
        raise typer.Exit(1)


@contextmanager
def _until_the_reader_has_enough() -> Iterator[None]:
    """End well when nobody reads our output any more, as after `| head`; left to typer, the exit code would be 1."""
    try:
        yield
    except BrokenPipeError:
        sys.stdout = None
        raise typer.Exit from None
