from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from manyglot.evaluation.metrics import BleuChrfScorer, score_translations
from manyglot.evaluation.sentence_statistics import SentenceStatistics

REFERENCES = ("a black dog", "two white cats", "the old house", "a small tree", "the last train")
OUTPUTS = ("a black dog", "two white bats", "das alte Haus", "un petit arbre", "the lost grain")


def statistics(languages: Sequence[str], recognized: Sequence[bool]) -> SentenceStatistics:
    scorer = BleuChrfScorer()
    counts = scorer.index_references(REFERENCES, "en").count_matches(OUTPUTS, range(len(OUTPUTS)))
    return SentenceStatistics(
        fingerprints_N=np.arange(len(OUTPUTS)),
        bleu_counts_NS=counts.bleu_counts_NS,
        chrf_counts_NS=counts.chrf_counts_NS,
        identified_languages_N=np.array(languages),
        flags_NF=np.array([[flag, True, False, False] for flag in recognized]),
    )


def test_sentences_in_a_wrong_language_are_worse_than_those_with_a_low_score() -> None:
    everything = [True] * 5
    chrf = statistics(["en"] * 5, everything).sentence_chrf()
    for score, output, reference in zip(chrf, OUTPUTS, REFERENCES, strict=True):
        assert score == pytest.approx(score_translations([output], [reference], "en").chrf)
    by_score = np.argsort(chrf).tolist()
    assert by_score[-1] == 0
    assert statistics(["en"] * 5, everything).order_from_worst("en").tolist() == by_score
    best_is_wrong = statistics(["no", "en", "en", "en", "en"], everything)
    assert best_is_wrong.order_from_worst("en").tolist() == [0, *by_score[:-1]]
    unrecognized = statistics(["no", "en", "en", "en", "en"], [False, True, True, True, True])
    assert unrecognized.order_from_worst("en").tolist() == by_score, "the identifier fails on the reference too"
