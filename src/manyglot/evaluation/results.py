"""Evaluation results: one record per direction, the translated sentences, and the statistics for comparing runs.

The output folder of `evaluate` holds

results.json        settings, signatures, averages, one record per direction, and checksums of all this and of the files
results.parquet     the same records as a table (requires pyarrow)
statistics.npz      per-sentence counts that scores are computed from, for comparing parts of runs
translations.jsonl  every sentence: source, output, reference, and the identified output language
about.json          the model, its data and its training, for the report

The checksums reveal any change of a score. Files may be missing: a report then has no sentences, for example.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from manyglot.checksums import FileSeal, parse_seals, seal_files
from manyglot.corpus.languages import Direction
from manyglot.errors import FolderError
from manyglot.evaluation.scored_system import ScoredSystem, SegmentMetric
from manyglot.evaluation.sentence_statistics import SentenceStatistics, read_statistics, write_statistics
from manyglot.evaluation.translation_examples import TRANSLATIONS_FILE, TranslationExample, write_examples
from manyglot.files import replacing_file
from manyglot.progress import print_status
from manyglot.sealed_json import read_sealed_json, write_sealed_json

RESULTS_KIND = "results"
STATISTICS_FILE = "statistics.npz"
MAX_RESULTS_BYTES = 2**27
"""Maximum size of a results.json; that of 204 languages has 28 MB."""
MAX_LISTED_DIRECTIONS = 5
"""Directions that a message lists before it counts the rest."""


class DirectionGroup(StrEnum):
    """The direction groups of the paper's tables."""

    FROM_CENTRAL_LANGUAGE = "from_central_language"
    INTO_CENTRAL_LANGUAGE = "into_central_language"
    SUPERVISED = "supervised"
    ZERO_SHOT = "zero_shot"
    ALL = "all"
    """All directions of a system whose training directions are unknown."""


@dataclass(frozen=True)
class DirectionResult:
    """The scores of one direction. Rates and accuracies are percentages."""

    source: str
    target: str
    zero_shot: bool | None
    """None if it is unknown which directions the system was trained on."""
    num_sentences: int
    bleu: float
    chrf: float
    language_accuracy: float | None
    """LangAcc: percentage of outputs identified as the target language; None if the identifier does not know it."""
    reference_language_accuracy: float | None
    """LangAcc of the reference translations: the ceiling that the identifier can reach."""
    bleu_signature: str
    unrestricted_language_accuracy: float | None = None
    """LangAcc when the identifier may choose any language it knows."""
    top_off_target_language: str | None = None
    """The most frequent language of off-target outputs."""
    top_off_target_rate: float = 0.0
    """Percentage of outputs in that language."""
    copy_rate: float = 0.0
    """Percentage of outputs that copy the source sentence."""
    empty_rate: float = 0.0
    """Percentage of empty outputs."""
    length_ratio: float | None = None
    """Words in the outputs per word in the references; None if the references have no words."""
    test_set_fingerprint: str = ""
    """Hash of sources and references. Scores are comparable only on the same test set."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The mean scores of other metrics, by name."""

    @property
    def direction(self) -> Direction:
        """Source and target language."""
        return Direction(self.source, self.target)

    @property
    def supervision(self) -> DirectionGroup:
        """The group SUPERVISED or ZERO_SHOT, or ALL if it is unknown."""
        if self.zero_shot is None:
            return DirectionGroup.ALL
        return DirectionGroup.ZERO_SHOT if self.zero_shot else DirectionGroup.SUPERVISED

    @property
    def relative_language_accuracy(self) -> float | None:
        """LangAcc as a percentage of the references' LangAcc; None if either is unknown or the latter is 0."""
        if self.language_accuracy is None or not self.reference_language_accuracy:
            return None
        return 100 * self.language_accuracy / self.reference_language_accuracy


@dataclass(frozen=True)
class Evaluation:
    """The results of a run in all directions."""

    directions: list[DirectionResult]
    examples: Sequence[TranslationExample]
    """All translated sentences; empty if the results were loaded."""
    identifier_signature: str
    chrf_signature: str
    central_language: str | None
    settings: Mapping[str, Any]
    """The decoding and evaluation settings that produced the results; no decoding settings for another system."""
    statistics: Mapping[Direction, SentenceStatistics] = field(default_factory=dict)
    output_language_counts: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    """Number of outputs by `DirectionResult.supervision`, target language and identified language."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """The step or steps of the model's weights, as in its training.json."""
    system: ScoredSystem | None = None
    """The system whose translations `score` has scored; None for a model that `evaluate` has run."""
    metrics: Mapping[str, SegmentMetric] = field(default_factory=dict)
    """Metrics whose sentence scores were computed elsewhere, by name."""
    seals: Mapping[str, FileSeal] = field(default_factory=dict)
    """The checksums of the files beside a results.json that was loaded."""

    def select_display_examples(self, num_examples: int) -> list[TranslationExample]:
        """Select examples for display, good or bad: half supervised, half zero-shot, evenly spaced over directions."""
        selected = []
        for zero_shot in (False, True, None):
            group = [i for i, example in enumerate(self.examples) if example.zero_shot == zero_shot]
            count = min(num_examples if zero_shot is None else num_examples // 2, len(group))
            selected += [self.examples[group[(2 * i + 1) * len(group) // (2 * count)]] for i in range(count)]
        return selected

    def averages(self) -> dict[DirectionGroup, dict[str, Any]]:
        """Macro-average the scores of each nonempty direction group."""
        groups = {
            DirectionGroup.FROM_CENTRAL_LANGUAGE: [d for d in self.directions if d.source == self.central_language],
            DirectionGroup.INTO_CENTRAL_LANGUAGE: [d for d in self.directions if d.target == self.central_language],
            **{
                group: [d for d in self.directions if d.supervision is group]
                for group in (DirectionGroup.SUPERVISED, DirectionGroup.ZERO_SHOT, DirectionGroup.ALL)
            },
        }
        return {name: macro_average(members) for name, members in groups.items() if members}

    def unidentifiable_targets(self) -> list[str]:
        """Return the target languages that the identifier does not know. Averages of LangAcc leave them out."""
        return sorted({d.target for d in self.directions if d.language_accuracy is None})

    def to_dict(self) -> dict[str, Any]:
        """Return averages and directions as plain values for JSON, without the sentences."""
        return {
            "averages": self.averages(),
            "directions": [_as_record(d) for d in self.directions],
            "identifier_signature": self.identifier_signature,
            "unidentifiable_targets": self.unidentifiable_targets(),
            "chrf_signature": self.chrf_signature,
            "central_language": self.central_language,
            "settings": dict(self.settings),
            "training": dict(self.training),
            "system": asdict(self.system) if self.system else None,
            "metrics": {name: asdict(metric) for name, metric in self.metrics.items()},
            "output_language_counts": self.output_language_counts,
        }

    def save(self, path: Path) -> None:
        """Write the results as JSON and Parquet under this name, with statistics and sentences beside them."""
        path.parent.mkdir(parents=True, exist_ok=True)
        names = [TRANSLATIONS_FILE, *([STATISTICS_FILE] if self.statistics else [])]
        write_examples(path.with_name(TRANSLATIONS_FILE), self.examples)
        if self.statistics:
            write_statistics(path.with_name(STATISTICS_FILE), self.statistics)
        else:
            path.with_name(STATISTICS_FILE).unlink(missing_ok=True)
        _write_parquet(path.with_suffix(".parquet"), self)
        write_sealed_json(path, RESULTS_KIND, {**self.to_dict(), "files": seal_files(path.parent, names)})

    @classmethod
    def load(cls, path: Path) -> Evaluation:
        """Load a results.json, or the one in a folder, with its statistics but without the sentences."""
        path = path / "results.json" if path.is_dir() else path
        try:
            values = read_sealed_json(path, RESULTS_KIND, MAX_RESULTS_BYTES)
        except FolderError as error:
            raise FolderError(f"{error} `manyglot evaluate --output` writes it; evaluate again.") from None
        try:
            stored = _STORED_RESULTS.validate_python(values)
            seals = parse_seals(values["files"], [])
        except (ValueError, KeyError):
            raise FolderError(f"{path} was not written by `manyglot evaluate`. Evaluate again.") from None
        sizes = {result.direction: result.num_sentences for result in stored.directions}
        statistics = read_statistics(path.with_name(STATISTICS_FILE), sizes, seals.get(STATISTICS_FILE))
        return cls(**vars(stored), examples=[], statistics=statistics, seals=seals)


@dataclass(frozen=True)
class _StoredResults:
    """The fields of an `Evaluation` that results.json has."""

    directions: Annotated[list[DirectionResult], Field(min_length=1)]
    identifier_signature: str
    chrf_signature: str
    central_language: str | None
    settings: dict[str, Any]
    output_language_counts: dict[str, dict[str, dict[str, int]]]
    training: dict[str, Any]
    system: ScoredSystem | None
    metrics: dict[str, SegmentMetric]


_STORED_RESULTS = TypeAdapter(_StoredResults)


def count_output_languages(
    results: Iterable[DirectionResult], statistics: Mapping[Direction, SentenceStatistics]
) -> dict[str, dict[str, dict[str, int]]]:
    """Count outputs by supervision, target and identified language; skip targets that the identifier does not know."""
    counts: dict[str, dict[str, Counter[str]]] = {}
    for result in results:
        identified_languages_N = statistics[result.direction].identified_languages_N
        if result.language_accuracy is not None:
            by_target = counts.setdefault(result.supervision, {})
            by_target.setdefault(result.target, Counter()).update(identified_languages_N.tolist())
    return {
        supervision: {target: dict(languages.most_common()) for target, languages in by_target.items()}
        for supervision, by_target in counts.items()
    }


def _as_record(result: DirectionResult) -> dict[str, Any]:
    return {**asdict(result), "relative_language_accuracy": result.relative_language_accuracy}


def macro_average(results: Sequence[DirectionResult]) -> dict[str, Any]:
    """Return unweighted means over directions. Accuracies skip directions where they are None.

    Other metrics skip directions without scores.
    """
    metric_names = dict.fromkeys(name for d in results for name in d.metrics)
    return {
        "num_directions": len(results),
        "bleu": fmean(d.bleu for d in results),
        "chrf": fmean(d.chrf for d in results),
        "language_accuracy": mean_ignoring_none(d.language_accuracy for d in results),
        "reference_language_accuracy": mean_ignoring_none(d.reference_language_accuracy for d in results),
        "relative_language_accuracy": mean_ignoring_none(d.relative_language_accuracy for d in results),
        "unrestricted_language_accuracy": mean_ignoring_none(d.unrestricted_language_accuracy for d in results),
        "copy_rate": fmean(d.copy_rate for d in results),
        "empty_rate": fmean(d.empty_rate for d in results),
        "metrics": {name: fmean(d.metrics[name] for d in results if name in d.metrics) for name in metric_names},
    }


def shared_segment_metrics(runs: Iterable[Evaluation]) -> dict[str, SegmentMetric]:
    """Return the metrics of all runs whose sentence scores were computed elsewhere."""
    return {name: metric for run in runs for name, metric in run.metrics.items()}


def mean_ignoring_none(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None, or None if there are none."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def format_directions(directions: Sequence[Direction]) -> str:
    """Join the first few directions and count the rest: "de→en, en→de and 7 more"."""
    num_more = len(directions) - MAX_LISTED_DIRECTIONS
    listed = ", ".join(map(str, directions[:MAX_LISTED_DIRECTIONS]))
    return f"{listed} and {num_more:,} more" if num_more > 0 else listed


def _write_parquet(path: Path, evaluation: Evaluation) -> None:
    """Write one row per direction; the table's metadata holds what all directions share."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        print_status(f"Skipping {path.name}. To write it, run pip install 'manyglot[parquet]'.")
        return
    names = dict.fromkeys(evaluation.metrics)  # a column per metric
    records = [{**_as_record(d), **names, **d.metrics} for d in evaluation.directions]
    table = pyarrow.Table.from_pylist([{key: v for key, v in each.items() if key != "metrics"} for each in records])
    common = {k: v for k, v in evaluation.to_dict().items() if k not in ("averages", "directions")}
    metadata = {"manyglot": json.dumps(common, ensure_ascii=False)}
    with replacing_file(path) as unfinished:
        pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), unfinished, compression="zstd")
