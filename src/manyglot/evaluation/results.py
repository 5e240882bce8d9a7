"""What an evaluation finds: a record for each direction, the sentences, and what runs are compared by.

A run's folder gets

results.json        settings, signatures, averages and a record for each direction
results.parquet     the same records as a table (with pyarrow)
statistics.npz      what scores are computed from, sentence by sentence, so that parts of runs can be compared
translations.jsonl  every sentence: source, output, reference, and the language the output is in
about.json          the model, its data and its training, for the report
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import TypeAdapter

from manyglot.corpus.languages import Direction
from manyglot.errors import FolderError
from manyglot.evaluation.statistics import Statistics, read_statistics, write_statistics
from manyglot.progress import say

TRANSLATIONS = "translations.jsonl"


class DirectionGroup(StrEnum):
    """The groups of directions in the paper's tables."""

    FROM_PIVOT = "from_pivot"
    INTO_PIVOT = "into_pivot"
    SUPERVISED = "supervised"
    ZERO_SHOT = "zero_shot"


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
    """Percent of the translations that are in the target language; None if the identifier does not know it."""
    reference_accuracy: float | None
    """The same of the references: what the identifier can see at best."""
    bleu_signature: str
    open_language_accuracy: float | None = None
    """The same of the translations when the identifier may name any language it knows."""
    other_language: str | None = None
    """The language that most of the other translations are in."""
    other_share: float = 0.0
    """Percent of the translations that are in that one."""
    copy_rate: float = 0.0
    """Percent of the translations that are the source sentence itself."""
    empty_rate: float = 0.0
    """Percent of the translations that are empty."""
    length_ratio: float | None = None
    """Words of the translations for each word of the references; None where these have none."""
    test_set: str = ""
    """A fingerprint of sources and references: scores of different test sets cannot be compared."""

    @property
    def direction(self) -> Direction:
        """Source and target."""
        return Direction(self.source, self.target)

    @property
    def kind(self) -> DirectionGroup:
        """Supervised or zero-shot."""
        return DirectionGroup.ZERO_SHOT if self.zero_shot else DirectionGroup.SUPERVISED

    @property
    def relative_accuracy(self) -> float | None:
        """Language accuracy in percent of that of the references."""
        if self.language_accuracy is None or not self.reference_accuracy:
            return None
        return 100 * self.language_accuracy / self.reference_accuracy


_RECORDS = TypeAdapter(list[DirectionResult])
"""Reads them, if they are what they should be."""


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
    statistics: Mapping[Direction, Statistics] = field(default_factory=dict)
    outputs_in: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    """How many outputs, by `DirectionResult.kind`, into a target language are in which language."""

    def sample(self, number: int) -> list[Example]:
        """Some examples to look at: half supervised and half zero-shot, spread over the directions, good or bad."""
        picked = []
        for zero_shot in (False, True):
            group = [example for example in self.examples if example.zero_shot == zero_shot]
            count = min(number // 2, len(group))
            picked += [group[(2 * i + 1) * len(group) // (2 * count)] for i in range(count)]
        return picked

    def averages(self) -> dict[DirectionGroup, dict[str, Any]]:
        """Plain means over directions, in the groups of the paper's tables."""
        groups = {
            DirectionGroup.FROM_PIVOT: [d for d in self.directions if d.source == self.pivot],
            DirectionGroup.INTO_PIVOT: [d for d in self.directions if d.target == self.pivot],
            DirectionGroup.SUPERVISED: [d for d in self.directions if not d.zero_shot],
            DirectionGroup.ZERO_SHOT: [d for d in self.directions if d.zero_shot],
        }
        return {name: average(members) for name, members in groups.items() if members}

    def left_out(self) -> list[str]:
        """Target languages that the identifier does not know: they are in no mean of language accuracy."""
        return sorted({d.target for d in self.directions if d.language_accuracy is None})

    def scores(self) -> dict[str, Any]:
        """Averages and directions as plain values, without the sentences."""
        return {
            "averages": self.averages(),
            "directions": [_record(d) for d in self.directions],
            "identifier": self.identifier,
            "not_identified": self.left_out(),
            "chrf_signature": self.chrf_signature,
            "pivot": self.pivot,
            "settings": dict(self.settings),
            "outputs_in": self.outputs_in,
        }

    def save(self, path: Path) -> None:
        """Write the scores as JSON and, under the same name, as Parquet; the sentences go beside them."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.scores(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        _write_parquet(path.with_suffix(".parquet"), self)
        if self.statistics:
            write_statistics(path.with_name("statistics.npz"), self.statistics)
        with path.with_name(TRANSLATIONS).open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(each), ensure_ascii=False) + "\n" for each in self.examples)

    @classmethod
    def load(cls, path: Path) -> Evaluation:
        """Read a results.json, or that of a folder, with its statistics and without the sentences."""
        path = path / "results.json" if path.is_dir() else path
        try:
            values = json.loads(path.read_text("utf-8"))
            directions = _RECORDS.validate_python(values["directions"])
            if not directions:
                raise ValueError("an evaluation has some")
            rest = {key: values[key] for key in ("identifier", "chrf_signature", "pivot", "settings")}
            rest["outputs_in"] = dict(values.get("outputs_in", {}))  # results of earlier releases have none
        except OSError as error:
            raise FolderError(
                f"Cannot read {path}: {error.strerror}. `manyglot evaluate --output` writes it."
            ) from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise FolderError(f"{path} is damaged, or not a results.json of `manyglot evaluate`.") from None
        sizes = {each.direction: each.num_sentences for each in directions}
        return cls(directions, [], **rest, statistics=read_statistics(path.with_name("statistics.npz"), sizes))


Places = Mapping[Direction, Collection[int]]
"""Sentences of directions, by their places in the test set."""


def pick_examples(examples: Iterable[Example], places: Places) -> Iterator[Example]:
    """Some of the sentences."""
    counted: Counter[Direction] = Counter()
    for example in examples:
        direction = Direction(example.source, example.target)
        if counted[direction] in places.get(direction, ()):
            yield example
        counted[direction] += 1


def read_examples(folder: Path, places: Places) -> Iterator[Example]:
    """The same from the folder of a run; none where the sentences were not kept, but all that are wanted otherwise.

    A line begins with its direction, so others are passed over without being read: there may be millions.
    """
    path, names = folder / TRANSLATIONS, {each.name for each in fields(Example)}
    wanted = {json.dumps(d._asdict(), ensure_ascii=False)[:-1] + ",": those for d, those in places.items()}
    lengths = {len(beginning) for beginning in wanted}
    counted: Counter[str] = Counter()
    if not path.exists():
        return
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                beginning = next((line[:length] for length in lengths if line[:length] in wanted), "")
                if counted[beginning] in wanted.get(beginning, ()):
                    yield Example(**{key: value for key, value in json.loads(line).items() if key in names})
                counted[beginning] += 1
        if any(places and max(places) >= counted[beginning] for beginning, places in wanted.items()):
            raise ValueError("it ends too soon")
    except (OSError, ValueError, TypeError, AttributeError):
        raise FolderError(f"{path} is damaged. Evaluate again, or delete it for a report without sentences.") from None


def count_languages(
    results: Iterable[DirectionResult], statistics: Mapping[Direction, Statistics]
) -> dict[str, dict[str, dict[str, int]]]:
    """How many outputs into a language are in which, without languages that the identifier does not know."""
    found: dict[str, dict[str, Counter[str]]] = {}
    for result in results:
        identified_N = statistics[result.direction].identified_N
        if result.language_accuracy is not None and identified_N is not None:
            kind = found.setdefault(result.kind, {})
            kind.setdefault(result.target, Counter()).update(identified_N.tolist())
    return {kind: {code: dict(told.most_common()) for code, told in those.items()} for kind, those in found.items()}


def _record(result: DirectionResult) -> dict[str, Any]:
    return {**asdict(result), "relative_accuracy": result.relative_accuracy}


def average(members: Sequence[DirectionResult]) -> dict[str, Any]:
    """Plain means over directions."""
    return {
        "num_directions": len(members),
        "bleu": fmean(d.bleu for d in members),
        "chrf": fmean(d.chrf for d in members),
        "language_accuracy": mean_of_known(d.language_accuracy for d in members),
        "reference_accuracy": mean_of_known(d.reference_accuracy for d in members),
        "relative_accuracy": mean_of_known(d.relative_accuracy for d in members),
        "open_language_accuracy": mean_of_known(d.open_language_accuracy for d in members),
        "copy_rate": fmean(d.copy_rate for d in members),
        "empty_rate": fmean(d.empty_rate for d in members),
    }


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """The mean of those that are there."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _write_parquet(path: Path, evaluation: Evaluation) -> None:
    """A row for each direction; what they have in common is in the table's metadata."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        say(f"{path.name} is not written. For that, pip install 'manyglot[parquet]'.")
        return
    table = pyarrow.Table.from_pylist([_record(d) for d in evaluation.directions])
    common = {k: v for k, v in evaluation.scores().items() if k not in ("averages", "directions")}
    metadata = {"manyglot": json.dumps(common, ensure_ascii=False)}
    pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), path, compression="zstd")
