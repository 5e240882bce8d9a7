"""The command `manyglot translate`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from manyglot.cli.options import LanguagePacks
from manyglot.errors import SettingsError

if TYPE_CHECKING:
    from manyglot.decoding.loading import EngineName
    from manyglot.decoding.text_splitter import SplitMode
    from manyglot.decoding.translation_requests import TextFormat


def translate(
    model: Annotated[
        Path,
        typer.Argument(
            help="A model folder, a run folder, a checkpoint, or an export for CTranslate2.", show_default=False
        ),
    ],
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Files to translate, plain or compressed (.gz, .xz, .zst); - or no file reads stdin."),
    ] = None,
    to: Annotated[
        str,
        typer.Option(help="Target languages, such as de or de,fr, or all; each line of tsv or jsonl may name its own."),
    ] = "",
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Language of the text. It improves the splitting into sentences, and text in the pivot language is "
            "translated directly. Text in a language of a --pack needs it, and so do models with source tags. Default: "
            "unknown, or several.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Output file, plain or .gz, replaced if it exists; one per language if text has several: out.de.txt, "
            "out.fr.txt …",
        ),
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Format of input and output: text, tsv or jsonl. Default: by the suffix .tsv or .jsonl, otherwise "
            "text.",
            show_default=False,
        ),
    ] = None,
    output_format: Annotated[
        str | None,
        typer.Option(
            "--output-format",
            help="Format of the output. Default: the format that its suffix names, or else the input format.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="tsv columns of text, target and source language, by number or name: 1,2 or text,to,from. One column "
            "alone is the text. Names need a header. Default: 1,2, without a header. With --score-translations, the "
            "fourth is the translation.",
            show_default=False,
        ),
    ] = None,
    n_best: Annotated[int, typer.Option(help="Number of translations per line, for tsv or jsonl.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Write scores, for tsv or jsonl.")] = False,
    score_translations: Annotated[
        bool,
        typer.Option(
            "--score-translations",
            help="Do not translate, but write how probable the given translations are: tsv with text, target, "
            'translation; jsonl with an "output".',
        ),
    ] = False,
    beam_size: Annotated[int | None, typer.Option(help="Hypotheses per sentence; 1 is greedy and fastest.")] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Above 1 prefers longer outputs, below 1 shorter.")
    ] = None,
    max_length: Annotated[int | None, typer.Option(help="Cut outputs after this many subwords.")] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Sample instead of searching; above 1 flattens the distribution.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="float32 or bfloat16; default: the faster one on this device.")
    ] = None,
    pivot: Annotated[str | None, typer.Option(help="Translate through this language, in two steps.")] = None,
    split: Annotated[
        str,
        typer.Option(
            help="Translate sentence by sentence: auto (lines longer than the training text), always or never."
        ),
    ] = "auto",
    max_chars: Annotated[
        int | None,
        typer.Option(
            help="Split longer sentences at spaces, or cut longer lines with --split never; default 10,000.",
            show_default=False,
        ),
    ] = None,
    copy_unknown: Annotated[
        bool, typer.Option("--copy-unknown", help="Copy symbols and words with characters unknown to the model.")
    ] = False,
    correct_off_target: Annotated[
        bool,
        typer.Option(
            "--correct-off-target", help="Replace outputs in the wrong language with alternatives, or mark them."
        ),
    ] = False,
    langid_data: Annotated[
        Path | None, typer.Option(help="Identify languages by the text of this prepared data, not with py3langid.")
    ] = None,
    packs: LanguagePacks = [],  # noqa: B006
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 …")] = "auto",
    engine: Annotated[str, typer.Option(help="auto, native or ctranslate2.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Same as --output-format jsonl.")] = False,
) -> None:
    """Translate text, one sentence per line.

    The text may mix the model's languages. An empty line stays empty. A line that cannot be translated becomes empty in
    the output and is reported, and the exit code is 1.
    """
    from manyglot.decoding.text_splitter import MAX_TEXT_CHARS, TextOptions
    from manyglot.decoding.translation_job import TranslationJob
    from manyglot.decoding.translation_requests import parse_tsv_columns
    from manyglot.workflows import translate as workflow
    from manyglot.workflows.translate import TranslatorOptions

    if as_json and output_format not in (None, "jsonl"):
        raise SettingsError(f"--json means --output-format jsonl and contradicts {output_format}. Give one of them.")
    job = TranslationJob(
        files=files or (),
        output=output,
        targets=[name.strip() for name in to.split(",") if name.strip()],
        input_format=cast("TextFormat", file_format),
        output_format=cast("TextFormat", "jsonl" if as_json else output_format),
        columns=None if columns is None else parse_tsv_columns(columns),
        n_best=n_best,
        include_scores=scores,
        score_translations=score_translations,
        source=source,
        text_options=TextOptions(
            split=cast("SplitMode", split),
            max_chars=MAX_TEXT_CHARS if max_chars is None else max_chars,
            copy_unknown=copy_unknown,
        ),
    )
    given = {
        "beam_size": beam_size,
        "length_penalty": length_penalty,
        "max_length": max_length,
        "temperature": temperature,
        "precision": precision,
        "pivot": pivot,
    }
    decoding = {key: value for key, value in given.items() if value is not None}
    options = TranslatorOptions(device, cast("EngineName", engine), decoding, correct_off_target, langid_data, packs)
    with _exit_on_broken_pipe():
        outcome = workflow.translate(model, job, options)
    if outcome.num_failed_lines:
        raise typer.Exit(1)


@contextmanager
def _exit_on_broken_pipe() -> Iterator[None]:
    """Exit with 0 when the reader of stdout closes the pipe, as `head` does; Typer would exit with 1."""
    try:
        yield
    except BrokenPipeError:
        sys.stdout = None
        raise typer.Exit from None
