"""Translations with what is known of them, and how they are written: text, TSV or JSONL, whole lines at a time."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, BinaryIO, Protocol, cast

from manyglot.corpus.textfiles import COMPRESSED, one_line
from manyglot.decoding.requests import Form, Request
from manyglot.decoding.sentences import join_sentences
from manyglot.decoding.translation import Translation
from manyglot.errors import ManyglotError

TSV_COLUMNS = ("text", "to", "output", "score", "on_target", "problem")


@dataclass(frozen=True)
class Result:
    """The translation of one request into one language."""

    number: int
    source: str
    to: str
    output: str
    score: float | None = None
    """As in `Translation`; the mean of its sentences' where a text was split."""
    alternatives: tuple[Translation, ...] = ()
    """Other translations, the best first."""
    on_target: bool | None = None
    """Whether the output is in the target language, where that was asked."""
    problem: str = ""
    """Why there is no translation."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What else the request had."""


class Writer(Protocol):
    """Writes results in the order in which they are given."""

    def write(self, results: Iterable[Result]) -> None:
        """Write results, in whole lines, and see that they leave the process."""


def join_result(request: Request, to: str, hypotheses: Sequence[Sequence[Translation]], scores: bool = False) -> Result:
    """Join the best hypotheses of a request's sentences into its result; a single sentence keeps its alternatives."""
    best = [each[0] for each in hypotheses]
    on_target = [each.on_target for each in best if each.on_target is not None]
    return Result(
        number=request.number,
        source=request.text,
        to=to,
        output=join_sentences([each.text for each in best], to),
        score=fmean(each.score for each in best) if scores and request.text.strip() else None,
        alternatives=tuple(hypotheses[0][1:]) if len(hypotheses) == 1 else (),
        on_target=all(on_target) if on_target else None,
        extra=request.extra,
    )


def refusals(request: Request, targets: Sequence[str] = ()) -> list[Result]:
    """The empty results of a request with a problem: one for each language that it or the command names."""
    return [refusal(request, to) for to in request.to or targets or [""]]


def refusal(request: Request, to: str) -> Result:
    """The empty result of a request that cannot be translated, or not into this language."""
    problem = request.unknown.get(to, request.problem)
    return Result(request.number, request.text, to, "", problem=problem, extra=request.extra)


def as_text(result: Result) -> str:
    """The output alone."""
    return one_line(result.output)


def as_tsv(result: Result) -> str:
    """The columns of `TSV_COLUMNS`; a tab in a text becomes a space."""
    score = "" if result.score is None else f"{result.score:.4f}"
    on_target = "" if result.on_target is None else str(result.on_target).lower()
    cells = (result.source, result.to, result.output, score, on_target, result.problem)
    return "\t".join(one_line(cell.replace("\t", " ")) for cell in cells)


def as_json(result: Result) -> str:
    """A JSON object with the request's own keys, and without those that are not known."""
    value = {**result.extra, "number": result.number, "text": result.source, "to": result.to, "output": result.output}
    known = {
        "score": _finite(result.score),
        "alternatives": [_as_value(each, result.score is not None) for each in result.alternatives] or None,
        "on_target": result.on_target,
        "problem": result.problem or None,
    }
    value |= {key: each for key, each in known.items() if each is not None}
    return json.dumps(value, ensure_ascii=False)


def _as_value(alternative: Translation, scored: bool) -> dict[str, Any]:
    score = _finite(alternative.score) if scored else None
    return {"output": alternative.text} | ({} if score is None else {"score": score})


def _finite(score: float | None) -> float | None:
    """A score that JSON can write, rounded to what can matter."""
    return round(score, 6) if score is not None and math.isfinite(score) else None


_FORMS: Mapping[Form, Callable[[Result], str]] = {"text": as_text, "tsv": as_tsv, "jsonl": as_json}


class StreamWriter:
    """Writes all results to one stream."""

    def __init__(self, stream: BinaryIO, form: Form = "text") -> None:
        self.stream, self.line = stream, _FORMS[form]
        if form == "tsv":
            self._put("\t".join(TSV_COLUMNS))

    def write(self, results: Iterable[Result]) -> None:
        """Write a line for each result."""
        for result in results:
            self._put(self.line(result))
        self.stream.flush()

    def _put(self, line: str) -> None:
        # What UTF-8 cannot write, half a character, becomes an escape, which JSON reads as what it was.
        self.stream.write(line.encode("utf-8", "backslashreplace") + b"\n")


class FilesWriter:
    """Writes the results of each language to a file of its own, line i of each being the request i."""

    def __init__(self, streams: Mapping[str, BinaryIO]) -> None:
        self.writers = {code: StreamWriter(stream) for code, stream in streams.items()}

    def write(self, results: Iterable[Result]) -> None:
        """Write a line for each result to the file of its language."""
        sorted_out: dict[str, list[Result]] = {code: [] for code in self.writers}
        for result in results:
            if result.to not in sorted_out:
                raise ManyglotError(
                    f"There is no file for {result.to}; requests with their own targets need tsv or jsonl."
                )
            sorted_out[result.to].append(result)
        for code, own in sorted_out.items():
            self.writers[code].write(own)


@contextmanager
def open_results(output: Path | BinaryIO, form: Form, targets: Sequence[str]) -> Iterator[Writer]:
    """A writer to a file or stream; text in several languages goes to a file for each: out.txt to out.de.txt, …."""
    with ExitStack() as stack:
        if not isinstance(output, Path):
            if form == "text" and len(targets) > 1:
                raise ManyglotError(
                    "Text in several languages needs a file for each. Name an output, or take tsv or jsonl."
                )
            yield StreamWriter(output, form)
        elif form == "text" and len(targets) > 1:
            paths = dict(zip(targets, result_files(output, form, targets), strict=True))
            yield FilesWriter({code: stack.enter_context(_create(path)) for code, path in paths.items()})
        else:
            yield StreamWriter(stack.enter_context(_create(output)), form)


def result_files(output: Path, form: Form, targets: Sequence[str]) -> list[Path]:
    """The files that results are written to: one for each language where they are text in several."""
    if form != "text" or len(targets) < 2:
        return [output]
    return [output.with_name(f"{output.stem}.{code}{output.suffix}") for code in targets]


def _create(path: Path) -> BinaryIO:
    """A new file, compressed where its name says so."""
    if path.suffix in COMPRESSED and path.suffix != ".gz":
        raise ManyglotError(f"Cannot write {path}: results are written plain or as .gz.")
    return cast("BinaryIO", gzip.open(path, "wb") if path.suffix == ".gz" else path.open("wb"))
