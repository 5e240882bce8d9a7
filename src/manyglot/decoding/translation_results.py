"""The results of translation requests, and their writers for text, TSV and JSONL."""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from manyglot.corpus.decompression import COMPRESSED_SUFFIXES
from manyglot.corpus.textfiles import to_single_line
from manyglot.decoding.scored_translation import Translation
from manyglot.decoding.translation_requests import TextFormat, TranslationRequest
from manyglot.errors import FolderError, ManyglotError
from manyglot.files import fsync_path, os_error_reason, unfinished_path

SCORE_TSV_HEADER = ("text", "to", "output", "score", "log_probability", "problem", "warnings")
"""The columns of scored translations."""
RESULT_TSV_HEADER = ("text", "to", "output", "score", "on_target", "problem", "warnings")


@dataclass(frozen=True)
class TranslationResult:
    """The translation of one request into one language."""

    number: int
    source: str
    target: str
    output: str
    score: float | None = None
    """Score as in `Translation`."""
    log_probability: float | None = None
    """Log-probability of a given translation, before it is divided by its length."""
    alternatives: tuple[Translation, ...] = ()
    """Other translations, best first."""
    on_target: bool | None = None
    """Whether the output is in the target language. None if it was not checked or cannot be identified."""
    problem: str = ""
    """Why there is no translation; empty if there is one."""
    warnings: tuple[str, ...] = ()
    """Why parts of the text may be missing in the translation."""
    extra_fields: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of a JSON request."""


class ResultWriter(Protocol):
    """Writes results in the given order."""

    def write(self, results: Iterable[TranslationResult]) -> None:
        """Write whole lines and flush them."""


def make_result(
    request: TranslationRequest, target: str, n_best: Sequence[Translation], include_scores: bool = False
) -> TranslationResult:
    """Return the result of a request from the n best translations of its text."""
    best = n_best[0]
    return TranslationResult(
        number=request.number,
        source=request.text,
        target=target,
        output=best.text,
        score=best.score if include_scores and request.text.strip() else None,
        alternatives=tuple(n_best[1:]),
        on_target=best.on_target,
        warnings=tuple(f"The text {warning.message}" for warning in best.warnings),
        extra_fields=request.extra_fields,
    )


def failed_results(request: TranslationRequest, default_targets: Sequence[str] = ()) -> list[TranslationResult]:
    """Return one empty result per target of a request with a problem, or per default target if it names none."""
    return [failed_result(request, target) for target in request.targets or default_targets or [""]]


def failed_result(request: TranslationRequest, target: str) -> TranslationResult:
    """Return the empty result of a request that cannot be translated into this language."""
    problem = request.unknown_languages.get(target, request.problem)
    return TranslationResult(
        request.number, request.text, target, "", problem=problem, extra_fields=request.extra_fields
    )


def format_as_text(result: TranslationResult) -> str:
    """Return the output as one line."""
    return to_single_line(result.output)


def format_as_tsv(result: TranslationResult, columns: Sequence[str] = RESULT_TSV_HEADER) -> str:
    """Return the given columns. Tabs in texts become spaces."""
    cells = {
        "text": result.source,
        "to": result.target,
        "output": result.output,
        "score": "" if result.score is None else f"{result.score:.4f}",
        "log_probability": "" if result.log_probability is None else f"{result.log_probability:.4f}",
        "on_target": "" if result.on_target is None else str(result.on_target).lower(),
        "problem": result.problem,
        "warnings": " ".join(result.warnings),
    }
    return "\t".join(to_single_line(cells[column].replace("\t", " ")) for column in columns)


def format_as_json(result: TranslationResult) -> str:
    """Return a JSON object with the request's own fields. It omits values that are unknown."""
    required = {"number": result.number, "text": result.source, "to": result.target, "output": result.output}
    optional = {
        "score": _finite(result.score),
        "log_probability": _finite(result.log_probability),
        "alternatives": [_alternative_to_dict(other, result.score is not None) for other in result.alternatives]
        or None,
        "on_target": result.on_target,
        "problem": result.problem or None,
        "warnings": list(result.warnings) or None,
    }
    present = {key: value for key, value in optional.items() if value is not None}
    return json.dumps({**result.extra_fields, **required, **present}, ensure_ascii=False)


def _alternative_to_dict(alternative: Translation, include_score: bool) -> dict[str, Any]:
    score = _finite(alternative.score) if include_score else None
    return {"output": alternative.text} | ({} if score is None else {"score": score})


def _finite(score: float | None) -> float | None:
    """Return the rounded score, or None if JSON cannot represent it."""
    return round(score, 6) if score is not None and math.isfinite(score) else None


_FORMATTERS: Mapping[TextFormat, Callable[[TranslationResult], str]] = {
    "text": format_as_text,
    "tsv": format_as_tsv,
    "jsonl": format_as_json,
}


class StreamWriter:
    """Writes all results to one stream. Errors call it by the name."""

    def __init__(
        self,
        stream: BinaryIO,
        text_format: TextFormat = "text",
        name: str = "standard output",
        tsv_columns: Sequence[str] = RESULT_TSV_HEADER,
    ) -> None:
        self.stream, self.format_line, self.name = stream, _FORMATTERS[text_format], name
        if text_format == "tsv":
            self.format_line = partial(format_as_tsv, columns=tsv_columns)
            self._write_lines(["\t".join(tsv_columns)])

    def write(self, results: Iterable[TranslationResult]) -> None:
        """Write a line for each result."""
        self._write_lines(map(self.format_line, results))

    def _write_lines(self, lines: Iterable[str]) -> None:
        with _report_unwritable(self.name):
            for line in lines:
                # A lone surrogate, which UTF-8 cannot encode, becomes an escape that JSON decodes again.
                self.stream.write(line.encode("utf-8", "backslashreplace") + b"\n")
            self.stream.flush()


class PerLanguageWriter:
    """Writes the results of each language to its own file. Line i of every file belongs to request i."""

    def __init__(self, writers: Mapping[str, StreamWriter]) -> None:
        self.writers = writers

    def write(self, results: Iterable[TranslationResult]) -> None:
        """Write a line for each result to the file of its language."""
        by_language: dict[str, list[TranslationResult]] = {code: [] for code in self.writers}
        for result in results:
            if result.target not in by_language:
                raise ManyglotError(
                    f"There is no output file for {result.target}. Use tsv or jsonl if requests name their own targets."
                )
            by_language[result.target].append(result)
        for code, language_results in by_language.items():
            self.writers[code].write(language_results)


@contextmanager
def open_result_writer(
    output: Path | BinaryIO,
    text_format: TextFormat,
    targets: Sequence[str],
    tsv_columns: Sequence[str] = RESULT_TSV_HEADER,
) -> Iterator[ResultWriter]:
    """Open a writer for a file or stream. Text in several languages goes to one file each, such as out.de.txt.

    TSV has the columns `tsv_columns`. A file has the name `OUTPUT.unfinished` until the
    block ends without an exception.
    """
    with ExitStack() as stack:
        if not isinstance(output, Path):
            if text_format == "text" and len(targets) > 1:
                raise ManyglotError(
                    "Text in several languages needs one file per language. Name an output file, or use tsv or jsonl."
                )
            yield StreamWriter(output, text_format, tsv_columns=tsv_columns)
        elif text_format == "text" and len(targets) > 1:
            paths = dict(zip(targets, result_paths(output, text_format, targets), strict=True))
            writers = {
                code: StreamWriter(stack.enter_context(_result_stream(path)), "text", str(path))
                for code, path in paths.items()
            }
            yield PerLanguageWriter(writers)
        else:
            yield StreamWriter(stack.enter_context(_result_stream(output)), text_format, str(output), tsv_columns)


def result_paths(output: Path, text_format: TextFormat, targets: Sequence[str]) -> list[Path]:
    """Return the paths of the output files: one per language for text in several languages, otherwise one."""
    if text_format != "text" or len(targets) < 2:
        return [output]
    return [output.with_name(f"{output.stem}.{code}{output.suffix}") for code in targets]


def unfinished_result_path(path: Path) -> Path:
    """Return the path that results are written to until all are complete: the file itself if it is a pipe or device."""
    target = Path(os.path.realpath(path))
    return target if target.exists() and not target.is_file() else unfinished_path(target)


@contextmanager
def _result_stream(path: Path) -> Iterator[BinaryIO]:
    """Write to a temporary file, which gets its name at the end. If the block fails, the results so far remain in it.

    The file is compressed if the suffix of `path` is .gz.
    """
    if path.suffix in COMPRESSED_SUFFIXES and path.suffix != ".gz":
        raise ManyglotError(f"Cannot write {path}: output can be uncompressed or .gz.")
    unfinished, target = unfinished_result_path(path), Path(os.path.realpath(path))
    with _report_unwritable(str(path)):
        stream = _create_file(unfinished, path.suffix == ".gz")
    try:
        yield stream
    except BaseException:
        with suppress(OSError):
            stream.close()
        raise
    with _report_unwritable(str(path)):
        stream.close()
        if unfinished != target:
            fsync_path(unfinished)
            unfinished.replace(target)
            fsync_path(target.parent)


def _create_file(path: Path, is_compressed: bool) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path, "wb") if is_compressed else path.open("wb"))


@contextmanager
def _report_unwritable(name: str) -> Iterator[None]:
    """Convert a failure to write to an error of one line, unless the reader of a pipe has closed it."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FolderError(f"Cannot write {name}: {os_error_reason(error)}.") from None
