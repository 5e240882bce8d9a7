"""Evaluation of a model on many directions: translate everything at once, then score direction by direction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import Field

from manyglot.corpus.languages import Direction
from manyglot.decoding.translator import Translator
from manyglot.errors import CorpusError
from manyglot.evaluation.identify import Identifier, IdentifierName, accuracy
from manyglot.evaluation.scores import check_tokenizers, score
from manyglot.progress import Bar, bar, say
from manyglot.settings import Settings


class EvaluationSettings(Settings):
    """What is translated and how its language is told."""

    max_sentences: int | None = Field(None, ge=1)
    """Use at most this many test sentences of a direction; null uses all."""
    identifier: IdentifierName = "py3langid"
    """What tells the language of a translation: py3langid, or a profile learnt from the training text (for languages
    that no tool knows, and for very short text)."""


@dataclass(frozen=True)
class DirectionResult:
    """How well one direction is translated."""

    source: str
    target: str
    zero_shot: bool
    num_sentences: int
    bleu: float
    chrf: float
    language_accuracy: float | None
    """Percent of the translations that are in the target language."""
    reference_accuracy: float | None
    """The same of the references: what the identifier can see at best."""
    bleu_signature: str


@dataclass(frozen=True)
class Example:
    """One translation, as a reader wants to see it."""

    source: str
    target: str
    zero_shot: bool
    text: str
    output: str
    reference: str
    identified: str


@dataclass(frozen=True)
class Evaluation:
    """All directions of a run, with their averages."""

    directions: list[DirectionResult]
    examples: list[Example]
    identifier: str
    chrf_signature: str
    pivot: str | None
    settings: Mapping[str, Any]
    """How was translated and judged."""

    def sample(self, number: int) -> list[Example]:
        """Some examples to look at: half supervised and half zero-shot, spread over the directions, good or bad."""
        picked = []
        for zero_shot in (False, True):
            group = [example for example in self.examples if example.zero_shot == zero_shot]
            count = min(number // 2, len(group))
            picked += [group[(2 * i + 1) * len(group) // (2 * count)] for i in range(count)]
        return picked

    def averages(self) -> dict[str, dict[str, Any]]:
        """Plain means over directions, in the groups of the paper's tables."""
        groups = {
            f"{self.pivot}→xx": [d for d in self.directions if d.source == self.pivot],
            f"xx→{self.pivot}": [d for d in self.directions if d.target == self.pivot],
            "supervised": [d for d in self.directions if not d.zero_shot],
            "zero-shot": [d for d in self.directions if d.zero_shot],
        }
        return {name: _average(members) for name, members in groups.items() if members}

    def scores(self) -> dict[str, Any]:
        """Averages and directions as plain values, without the sentences."""
        values = asdict(self)
        del values["examples"]
        return {"averages": self.averages(), **values}

    def save(self, path: Path) -> None:
        """Write the scores and all the sentences as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        values = {**self.scores(), "examples": [asdict(example) for example in self.examples]}
        path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def evaluate(
    translator: Translator,
    rows: Sequence[Mapping[str, str]],
    supervised: Sequence[Direction],
    zero_shot: Sequence[Direction],
    identifier: Identifier,
    settings: EvaluationSettings,
    pivot: str | None = None,
) -> Evaluation:
    """Translate and score the test rows in the given directions; those without any row are left out and named."""
    seen = set(supervised)
    tests = _tests(rows, [*supervised, *zero_shot], settings.max_sentences)
    check_tokenizers(direction.target for direction in tests)
    with bar(f"translating {len(tests)} directions", total=sum(map(len, tests.values()))) as progress:
        outputs = translate_directions(translator, tests, progress)
    identify = cache(identifier.identify)  # references come back in many directions
    results, examples, chrf_signature = [], [], ""
    for direction, test in tests.items():
        unseen = direction not in seen
        references = [row[direction.target] for row in test]
        languages = [identify(output) for output in outputs[direction]]
        label = identifier.label(direction.target)
        quality = score(outputs[direction], references, direction.target)
        chrf_signature = quality.chrf_signature
        results.append(
            DirectionResult(
                source=direction.source,
                target=direction.target,
                zero_shot=unseen,
                num_sentences=len(test),
                bleu=quality.bleu,
                chrf=quality.chrf,
                language_accuracy=accuracy(languages, label),
                reference_accuracy=accuracy([identify(reference) for reference in references], label),
                bleu_signature=quality.bleu_signature,
            )
        )
        examples += [
            Example(*direction, unseen, row[direction.source], *rest)
            for row, *rest in zip(test, outputs[direction], references, languages, strict=True)
        ]
    judged_by = {"decoding": translator.settings.model_dump(), "evaluation": settings.model_dump()}
    return Evaluation(results, examples, identifier.name, chrf_signature, pivot, judged_by)


def _tests(
    rows: Sequence[Mapping[str, str]], directions: Sequence[Direction], max_sentences: int | None
) -> dict[Direction, Sequence[Mapping[str, str]]]:
    """The rows of each direction."""
    tests = {d: [row for row in rows if d.source in row and d.target in row][:max_sentences] for d in directions}
    empty = [direction for direction, test in tests.items() if not test]
    if len(empty) == len(directions):
        raise CorpusError("There is no test text in any direction.")
    if empty:
        say(f"Left out, because there is no test text: {', '.join(map(str, empty))}.")
    return {direction: test for direction, test in tests.items() if test}


def translate_directions(
    translator: Translator, tests: Mapping[Direction, Sequence[Mapping[str, str]]], progress: Bar | None = None
) -> dict[Direction, list[str]]:
    """All directions in one call, so that batches mix target languages and waste nothing."""
    texts = [row[direction.source] for direction, test in tests.items() for row in test]
    targets = [direction.target for direction, test in tests.items() for _ in test]
    outputs = iter(translator.translate(texts, targets, progress))
    return {direction: [next(outputs) for _ in test] for direction, test in tests.items()}


def _average(members: Iterable[DirectionResult]) -> dict[str, Any]:
    members = list(members)
    return {
        "num_directions": len(members),
        "bleu": fmean(d.bleu for d in members),
        "chrf": fmean(d.chrf for d in members),
        "language_accuracy": _mean(d.language_accuracy for d in members),
        "reference_accuracy": _mean(d.reference_accuracy for d in members),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
