"""BLEU and chrF++ of `manyglot score` equal those that the command `sacrebleu` prints."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from manyglot.errors import ManyglotError
from manyglot.evaluation.metrics import BleuChrfScorer
from manyglot.workflows.score import score

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "scoring_scale.py"


def num_differing_scores(folder: Path, codes: list[str], num_sentences: int, num_directions: int) -> int:
    benchmark: dict[str, Any] = runpy.run_path(str(BENCHMARK))
    test, translations, scores = folder / "test", folder / "translations", folder / "scores"
    benchmark["write_system"](test, translations, codes, num_sentences, seed=1)
    score(translations, test, scores, overrides=["evaluation.language_identifier=py3langid"])
    different: int = benchmark["check_with_sacrebleu"](scores, test, translations, num_directions)
    return different


def test_scores_equal_those_of_the_command(tmp_path: Path) -> None:
    assert num_differing_scores(tmp_path, ["eng_Latn", "zho_Hans"], 20, 2) == 0


@pytest.mark.slow
def test_scores_of_fifty_directions_equal_those_of_the_command(tmp_path: Path) -> None:
    codes = ["amh_Ethi", "arb_Arab", "bod_Tibt", "deu_Latn", "eng_Latn", "hin_Deva", "kor_Hang", "tha_Thai", "zho_Hant"]
    try:
        BleuChrfScorer().check_tokenizers_installed(["jpn_Jpan"])
        codes.append("jpn_Jpan")
    except ManyglotError:
        pass
    assert num_differing_scores(tmp_path, sorted(codes), 100, 50) == 0
