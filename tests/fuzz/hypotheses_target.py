"""Translations of another system and their segment scores: text, JSONL and TSV that are joined with a test set."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from manyglot.corpus.base import Row
from manyglot.corpus.languages import Direction, Languages
from manyglot.evaluation.evaluator import EvaluationSettings, select_evaluation_set
from manyglot.evaluation.hypotheses import read_hypotheses
from manyglot.evaluation.hypothesis_alignment import TestRows, align_outputs
from manyglot.evaluation.segment_scores import MetricFiles, join_segment_scores
from tests.fuzz.cases import Outcome
from tests.fuzz.folder_mutations import mutate_folder
from tests.fuzz.run_targets import attempt


@dataclass(frozen=True)
class HypothesesTarget:
    """Files of `score`. Each sentence has one output and one finite score, or the damage is refused."""

    rows: Sequence[Row]
    """The test set in de, en and fr."""
    name: str = "hypotheses"

    def mutate(self, folder: Path, rng: random.Random) -> str:
        """Damage one or two files."""
        return mutate_folder(folder, rng)

    def use(self, folder: Path) -> Outcome:
        """Join the translations and each metric's scores with the test set."""
        test = TestRows([{code: row[code] for code in ("de", "en", "fr")} for row in self.rows], LANGUAGES)
        hypotheses = read_hypotheses(folder / "outputs", LANGUAGES, None, None)
        directions = [direction for direction in DIRECTIONS if direction in hypotheses.outputs]
        evaluation_set = select_evaluation_set(test.rows, directions, [], EvaluationSettings())
        aligned = align_outputs(test, evaluation_set, hypotheses)
        outputs = {direction: lines.texts() for direction, lines in aligned.items()}
        outcome: dict[str, object] = {"outputs": outputs}
        for path in sorted((folder / "scores").iterdir()):
            files = MetricFiles.parse("comet", path)
            joined = attempt(lambda files=files: join_segment_scores(files, test, evaluation_set, outputs))
            scores = joined if isinstance(joined, Exception) else joined.scores_by_direction
            outcome[path.name] = scores if isinstance(scores, Exception) else {d: s.tolist() for d, s in scores.items()}
        return outcome

    def explain(self, folder: Path, description: str, undamaged: Outcome, outcome: Outcome) -> str:
        """Damaged text is other text, so only the form of the outcome is checked."""
        for name, by_direction in outcome.items():
            if isinstance(by_direction, Exception):
                continue
            for values in by_direction.values():
                if len(values) != len(self.rows):
                    return f"{name} with another number of sentences"
                if name != "outputs" and not all(map(math.isfinite, values)):
                    return f"{name} with a score that is not finite"
        return ""


LANGUAGES = Languages(["de", "en", "fr"])
DIRECTIONS = [Direction("de", "en"), Direction("en", "de"), Direction("fr", "en")]
