"""A translation job reads requests from files or a stream and writes their results, in constant memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, get_args

from manyglot.corpus.decompression import uncompressed_name
from manyglot.corpus.languages import english_language_name
from manyglot.decoding.block_scorer import BlockScorer
from manyglot.decoding.block_translator import BlockTranslator, TranslatedBlock
from manyglot.decoding.deferred_interrupt import defer_keyboard_interrupt
from manyglot.decoding.engine import SourceLanguageMissing
from manyglot.decoding.input_line_warnings import RequestWarningPrinter
from manyglot.decoding.text_splitter import DEFAULT_TEXT_OPTIONS, TextOptions
from manyglot.decoding.translation_requests import (
    ALL_LANGUAGES,
    TextFormat,
    TranslationRequest,
    TsvColumns,
    count_lines,
    expand_all,
    group_into_blocks,
    read_requests,
)
from manyglot.decoding.translation_results import (
    RESULT_TSV_HEADER,
    SCORE_TSV_HEADER,
    ResultWriter,
    TranslationResult,
    open_result_writer,
    result_paths,
    unfinished_result_path,
)
from manyglot.decoding.translator import Translator
from manyglot.errors import CorpusError, ManyglotError, SettingsError, did_you_mean, shorten
from manyglot.progress import ProgressReporter, print_status, progress_counter

STDIO_PATH = Path("-")
"""The path that stands for standard input or output."""
MAX_LANGUAGES_IN_PROMPT = 10
MAX_BYTES_TO_COUNT = 2**30
"""Maximum size of input files whose lines are counted beforehand to show progress."""


@dataclass(frozen=True)
class JobOutcome:
    """The line counts of a finished job."""

    num_lines: int = 0
    num_failed_lines: int = 0
    """Lines that could not be translated into all of their target languages."""


class _JobLog:
    """Counts the requests whose results are written, and reports their problems."""

    def __init__(self) -> None:
        self.outcome, self.warnings = JobOutcome(), RequestWarningPrinter()

    def add(self, block: TranslatedBlock) -> None:
        """Count a block of requests and print their warnings."""
        requests = block.requests
        for request, source in zip(requests, block.sources, strict=True):
            self.warnings.warn(request, source)
        num_failed = sum(bool(request.problem or request.unknown_languages) for request in requests)
        self.outcome = JobOutcome(self.outcome.num_lines + len(requests), self.outcome.num_failed_lines + num_failed)


@dataclass(frozen=True)
class TranslationJob:
    """Reads requests, translates them and writes their results."""

    files: Sequence[Path] = ()
    """Input files, read one after the other. `-`, or no files, means standard input."""
    output: Path | None = None
    """Output file. None or `-` means standard output."""
    targets: Sequence[str] = ()
    """Names of the target languages for requests that name none. `all` stands for all of the model."""
    source: str | None = None
    """Name of the language of requests that name none. None means that it is unknown."""
    input_format: TextFormat | None = None
    """None means the format that the suffix of the files names: TSV, JSONL or otherwise text."""
    output_format: TextFormat | None = None
    """None means the format that the suffix of `output` names: TSV or JSONL. Without such a suffix it means the input
    format, or TSV for text in several languages on standard output."""
    columns: TsvColumns | None = None
    """Text and target column of a TSV file. None means the first two columns."""
    n_best: int = 1
    """Number of translations per text. More than one needs TSV or JSONL output."""
    include_scores: bool = False
    """Whether to write scores, which needs TSV or JSONL output."""
    score_translations: bool = False
    """Whether to score given translations instead of translating."""
    text_options: TextOptions = DEFAULT_TEXT_OPTIONS
    """How to treat long texts and unknown characters. Without splitting, texts are cut after `max_chars` characters."""

    def __post_init__(self) -> None:
        known_formats = get_args(TextFormat)
        for option, text_format in (("format", self.input_format), ("output-format", self.output_format)):
            if text_format is not None and text_format not in known_formats:
                suggestion = did_you_mean(text_format, known_formats)
                raise SettingsError(f"--{option}: '{text_format}' is not known. {suggestion}")
        if list(self.files).count(STDIO_PATH) > 1:
            raise SettingsError("- is given twice. Standard input can be read only once.")
        input_format = self.resolved_input_format
        if self.score_translations:
            self._check_scoring()
        elif self.columns is not None and self.columns.translation is not None:
            raise SettingsError("--columns names a column of translations, which needs --score-translations. Add it.")
        if input_format == "text" and not self.targets:
            raise SettingsError("Text input needs a target language. Add --to de, or --to de,fr for several.")
        if self.columns is not None and input_format != "tsv":
            raise SettingsError(f"--columns needs TSV input, but the input is {input_format}. Add --format tsv.")
        if self.resolved_output_format == "text" and input_format != "text":
            raise SettingsError(
                f"{input_format} input cannot produce text output, because a line may have several targets. "
                "Use --output-format tsv or jsonl."
            )
        if self.n_best < 1:
            raise SettingsError(f"--n-best is {self.n_best}; it must be at least 1.")
        if self.resolved_output_format == "text" and (self.include_scores or self.n_best > 1):
            raise SettingsError("--scores and --n-best need TSV or JSONL output. Add --output-format tsv or jsonl.")

    def _check_scoring(self) -> None:
        """Raise if the job cannot score given translations."""
        if self.resolved_input_format == "text":
            raise SettingsError("--score-translations reads TSV or JSONL input. Add --format tsv or jsonl.")
        if self.columns is not None and self.columns.translation is None:
            raise SettingsError(
                "--score-translations needs a fourth column with the translations. Give --columns 1,2,,3 or "
                "text,to,from,output."
            )
        if self.n_best > 1:
            raise SettingsError("--n-best has no effect with --score-translations. Remove it.")
        if len(self.targets) > 1 or ALL_LANGUAGES in self.targets:
            raise SettingsError("--score-translations: a translation has one target language. Give one in --to.")

    @property
    def resolved_input_format(self) -> TextFormat:
        """The input format after applying the defaults."""
        if self.input_format is not None:
            return self.input_format
        formats = {_format_of_suffix(path) or "text": path for path in reversed(self.files)}
        if len(formats) > 1:
            (first, path), (second, other) = list(formats.items())[:2]
            raise SettingsError(
                f"{path} is {first} and {other} is {second}. Translate them separately, or give --format."
            )
        return next(iter(formats), "text")

    @property
    def resolved_output_format(self) -> TextFormat:
        """The output format after applying the defaults."""
        is_multilingual = len(self.targets) > 1 or ALL_LANGUAGES in self.targets
        by_suffix = None if self.output_path is None else _format_of_suffix(self.output_path)
        is_table = self.resolved_input_format == "text" and self.output_path is None and is_multilingual
        return self.output_format or by_suffix or ("tsv" if is_table else self.resolved_input_format)

    @property
    def output_path(self) -> Path | None:
        """The output file, or None for standard output."""
        return None if self.output == STDIO_PATH else self.output

    def run(self, translator: Translator, stdin: BinaryIO, stdout: BinaryIO) -> JobOutcome:
        """Translate all requests. A request that cannot be translated causes a warning and an empty result.

        An output file gets its name when all results are in it. After Ctrl-C, the temporary file holds the results of
        whole blocks, and a message gives their number of lines.
        """
        names = expand_all(self.targets, translator.languages)
        targets = list(dict.fromkeys(translator.languages.find_code(name) for name in names))
        source = None if self.source is None else translator.engine.languages.find_code(self.source)
        if source is None and self.resolved_input_format == "text" and translator.engine.reads_source_language:
            raise SourceLanguageMissing
        if source in targets:
            print_status(
                f"manyglot: {source} is also a target language; no model is trained to translate it into itself."
            )
        translator = translator.with_text_options(**vars(self.text_options))
        output = self.output_path
        paths = result_paths(output, self.resolved_output_format, targets) if output else []
        num_lines = self._check_paths_and_count_lines(paths)
        make_block_translator = BlockScorer if self.score_translations else BlockTranslator
        block_translator = make_block_translator(translator, targets, self.n_best, self.include_scores, source)
        log = _JobLog()
        if self._is_interactive(stdin):
            print_status(self._prompt(targets, source))
        try:
            blocks = self._blocks(stdin, max(1, translator.engine.preferred_block_size // max(1, len(targets))))
            # Reading the first block reports unreadable input before any file is overwritten.
            first = list(islice(blocks, 1))
            hidden = output is None and stdout.isatty()  # the results on the terminal show the progress
            columns = self._terminal_columns(translator) if hidden else RESULT_TSV_HEADER
            if self.score_translations:
                columns = SCORE_TSV_HEADER
            task = "scoring" if self.score_translations else "translating"
            with (
                open_result_writer(output or stdout, self.resolved_output_format, targets, columns) as writer,
                progress_counter(task, "lines", num_lines, hidden) as progress,
            ):
                self._translate_and_write(block_translator, chain(first, blocks), writer, log, progress)
        except KeyboardInterrupt:
            log.warnings.print_totals()
            of_total = "" if num_lines is None else f" of {num_lines:,}"
            place = f" Their results are in {', '.join(map(str, map(unfinished_result_path, paths)))}." if paths else ""
            lines = "line" if (log.outcome.num_lines, num_lines) == (1, None) or num_lines == 1 else "lines"
            print_status(f"manyglot: stopped after {log.outcome.num_lines:,}{of_total} {lines}.{place}")
            raise
        log.warnings.print_totals()
        return log.outcome

    def _blocks(self, stdin: BinaryIO, max_requests: int) -> Iterator[list[TranslationRequest]]:
        """Yield blocks of requests to translate together. On a terminal, each line is a block."""
        sources = [stdin if path == STDIO_PATH else path for path in self.files or [STDIO_PATH]]
        columns = self.columns or TsvColumns(translation=3 if self.score_translations else None)
        is_cut = self.text_options.split == "never" and not self.score_translations
        max_chars = self.text_options.max_chars if is_cut else None
        requests = read_requests(sources, self.resolved_input_format, columns=columns, max_chars=max_chars)
        return group_into_blocks(requests, 1 if self._is_interactive(stdin) else max_requests)

    def _terminal_columns(self, translator: Translator) -> tuple[str, ...]:
        """Return the TSV columns to show on a terminal: those that may have values, as warnings are on stderr."""
        score, on_target = ("score",) * self.include_scores, ("on_target",) * bool(translator.off_target_filter)
        return ("text", "to", "output", *score, *on_target)

    def _is_interactive(self, stdin: BinaryIO) -> bool:
        """Whether the user types the input."""
        return (not self.files or STDIO_PATH in self.files) and stdin.isatty()

    def _prompt(self, targets: Sequence[str], source: str | None) -> str:
        """Return what the user should type on a terminal."""
        names = [f"{english_language_name(code)} ({code})" for code in targets]
        listed, num_more = ", ".join(names[:MAX_LANGUAGES_IN_PROMPT]), len(names) - MAX_LANGUAGES_IN_PROMPT
        more = f" and {num_more} more languages" if num_more > 0 else ""
        origin = "" if source is None else f" from {english_language_name(source)} ({source})"
        verb = "Scoring translations" if self.score_translations else "Translating"
        task = f"{verb}{origin} into {listed}{more}." if targets else f"{verb}{origin}."
        input_format = self.resolved_input_format
        what = {"text": "a text", "tsv": "text, tab, target language", "jsonl": "a JSON object"}[input_format]
        if self.score_translations and input_format == "tsv":
            what += ", tab, translation"
        end = "Ctrl-Z and Enter" if os.name == "nt" else "Ctrl-D"
        return f"{task} Type {what} and press Enter; {end} ends."

    def _translate_and_write(
        self,
        block_translator: BlockTranslator,
        blocks: Iterable[Sequence[TranslationRequest]],
        writer: ResultWriter,
        log: _JobLog,
        progress: ProgressReporter,
    ) -> None:
        sentence_offset = 0
        for block in blocks:
            translated = block_translator.translate(block, sentence_offset, progress)
            if not sentence_offset:
                self._warn_about_header(translated)
            with defer_keyboard_interrupt():
                writer.write(self._with_alternative_rows(translated.results))
                log.add(translated)
            sentence_offset += translated.num_sentences

    def _warn_about_header(self, translated: TranslatedBlock) -> None:
        """Suggest --columns if the first line of a table names no language, as a header does."""
        first = translated.requests[0]
        if self.resolved_input_format == "tsv" and self.columns is None and first.unknown_languages:
            print_status(
                f"manyglot: {first.location} looks like a header. Name the columns to use, such as "
                f"--columns {shorten(first.text)},{shorten(next(iter(first.unknown_languages)))}"
                f"{',,output' if self.score_translations else ''}."
            )

    def _with_alternative_rows(self, results: Iterable[TranslationResult]) -> Iterator[TranslationResult]:
        """Yield the results to write. In TSV output, each alternative is a row of its own."""
        for result in results:
            yield result
            for alternative in result.alternatives if self.resolved_output_format == "tsv" else ():
                score = alternative.score if self.include_scores else None
                yield TranslationResult(
                    result.number,
                    result.source,
                    result.target,
                    alternative.text,
                    score,
                    extra_fields=result.extra_fields,
                )

    def _check_paths_and_count_lines(self, outputs: Sequence[Path]) -> int | None:
        """Raise if an input file is missing or would be overwritten. Return the number of lines, or None if unknown."""
        files = [path for path in self.files if path != STDIO_PATH]
        for path in files:
            if not path.exists() or path.is_dir():
                raise CorpusError(
                    f"Cannot read {path}: {'it is a folder' if path.is_dir() else 'there is no such file'}."
                )
            written = [*outputs, *map(unfinished_result_path, outputs)]
            if any(output.exists() and os.path.samefile(path, output) for output in written):
                raise ManyglotError(f"{path} is an input file and would be overwritten. Choose another --output.")
        readable_twice = files and len(files) == len(self.files) and all(path.is_file() for path in files)
        if not readable_twice or sum(path.stat().st_size for path in files) > MAX_BYTES_TO_COUNT:
            return None
        return count_lines(files)


def _format_of_suffix(path: Path) -> TextFormat | None:
    """Return the format that the suffix of a file names, or None if it may be text."""
    formats: dict[str, TextFormat] = {".tsv": "tsv", ".jsonl": "jsonl"}
    return formats.get(Path(uncompressed_name(path)).suffix)
