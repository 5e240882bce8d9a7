from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from manyglot.errors import LanguageError, SettingsError
from manyglot.probing.knn import VotingRule, cosine_similarities, count_correct_predictions, rank_neighbors
from manyglot.probing.language_representations import LanguageRepresentation
from manyglot.probing.typology_probe import (
    ProbeSettings,
    TypologyProber,
    probe_representations,
    select_k_index_per_language,
)
from manyglot.probing.uriel import BinaryFeatureSet, UrielDatabase
from tests.probing.synthetic_families import make_families, matrices, vectors
from tests.probing.synthetic_uriel import write_uriel

WESTERN = "da de el en eo es eu fi fr fr-ca gl it nb nl pt pt-br sq sv"
EASTERN = "az be bg bs cs et hr hu hy ka lt mk pl ro ru sk sl sr tr uk"
FARTHER = "ar bn fa he hi id ja kk ko ku mn mr ms my ta th ur vi zh zh-cn zh-tw"
TED = sorted(" ".join([WESTERN, EASTERN, FARTHER]).split())
CODES = [f"q{a}{b}" for a in "abcdefgh" for b in "abcdefgh"]


def make_prober(folder: Path, value_LF: NDArray[np.int8], **settings: object) -> TypologyProber:
    codes = CODES[: len(value_LF)]
    uriel = UrielDatabase(write_uriel(folder, codes, value_LF.astype(np.float32)))
    return TypologyProber(uriel, codes, ProbeSettings(num_random_baselines=20, num_permutations=99, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("voting_rule", VotingRule)
@pytest.mark.parametrize("represent", [vectors, matrices])
def test_representations_built_from_features_predict_nearly_all_of_them(
    tmp_path: Path, voting_rule: VotingRule, represent: object
) -> None:
    value_LF = make_families(num_families=5, size=12, num_features=60, change=0.01)
    made = represent(value_LF, 32)  # type: ignore[operator]
    result = make_prober(tmp_path / "data", value_LF, voting_rule=voting_rule).probe("made", "vectors", made)
    assert [group.group for group in result.group_results] == ["syntax", "phonology", "inventory"]
    for group in result.group_results:
        assert group.knn_accuracy.at_selected_k > 97
        assert group.baselines.majority_class < 75
        assert group.p_value == 0.01


def test_random_vectors_are_close_to_the_majority_class(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    frequent = rng.random(300) < 0.5  # three of four languages share a value
    value_LF = ((rng.random((60, 300)) < 0.25) ^ frequent).astype(np.int8)
    result = make_prober(tmp_path / "data", value_LF).probe("random", "vectors", rng.standard_normal((60, 512)))
    for group in result.group_results:
        assert group.knn_accuracy.at_selected_k == pytest.approx(group.baselines.majority_class, abs=5)
        assert group.knn_accuracy.at_selected_k < group.baselines.majority_class
        assert group.knn_accuracy.at_selected_k == pytest.approx(group.baselines.random_mean.at_selected_k, abs=4)
        assert group.p_value > 0.02


def test_the_k_of_a_language_is_selected_on_the_other_languages() -> None:
    value_LF = make_families(num_families=4, size=5, num_features=20, change=0.1)
    features = BinaryFeatureSet("syntax", "WALS", tuple(map(str, range(20))), value_LF)
    ranking_NLM = rank_neighbors(cosine_similarities(vectors(value_LF, 16))[None])
    k_index_NL = select_k_index_per_language(
        [count_correct_predictions(ranking_NLM, features, (1, 3, 5), VotingRule.MAJORITY)]
    )
    assert len(set(k_index_NL[0])) > 1
    for held_out in range(20):
        others = [i for i in range(20) if i != held_out]
        remaining = BinaryFeatureSet("syntax", "WALS", features.feature_names, value_LF[others])
        ranking = rank_neighbors(cosine_similarities(vectors(value_LF, 16)[others])[None])
        num_correct_LK = count_correct_predictions(ranking, remaining, (1, 3, 5), VotingRule.MAJORITY).num_correct_NLK[
            0
        ]
        best = int(np.argmax(num_correct_LK.sum(axis=0)))
        deficit_LK = np.insert(
            num_correct_LK[:, [best]] - num_correct_LK, 0, 0, axis=0
        )  # the held-out language adds nothing
        good_enough = deficit_LK.sum(axis=0) - deficit_LK.max(axis=0) <= 1e-6  # without its largest contribution
        assert k_index_NL[0, held_out] == max(np.flatnonzero(good_enough))


def test_the_selected_k_is_not_worse_than_every_fixed_k(tmp_path: Path) -> None:
    for seed in range(5):
        value_LF = make_families(num_families=5, size=8, num_features=90, change=0.2, seed=seed)
        result = make_prober(tmp_path / str(seed), value_LF).probe("made", "vectors", vectors(value_LF, 24))
        for group in result.group_results:
            assert group.knn_accuracy.at_selected_k > min(group.knn_accuracy.by_k) - 0.5


def test_the_papers_protocol_takes_the_maximum(tmp_path: Path) -> None:
    value_LF = make_families(num_families=4, size=5, num_features=30, change=0.2)
    result = make_prober(tmp_path / "data", value_LF, voting_rule=VotingRule.PAPER).probe(
        "made", "vectors", vectors(value_LF, 16)
    )
    assert all(g.knn_accuracy.at_selected_k == max(g.knn_accuracy.by_k) for g in result.group_results)


def test_results_depend_only_on_the_seed(tmp_path: Path) -> None:
    value_LF = make_families(num_families=4, size=5, num_features=30, change=0.2)
    prober = make_prober(tmp_path / "data", value_LF)
    assert prober.probe("a", "b", vectors(value_LF, 4)) == prober.probe("a", "b", vectors(value_LF, 4))


def test_rows_of_excluded_languages_are_ignored(tmp_path: Path) -> None:
    value_LF = make_families(num_families=4, size=5, num_features=30, change=0.1)
    prober = make_prober(tmp_path / "data", value_LF)
    more = TypologyProber(prober.uriel, ["nl", *CODES[:20]], prober.settings)
    made = vectors(value_LF, 8)
    assert more.probe("a", "b", np.concatenate([made[:1] * np.nan, made])) == prober.probe("a", "b", made)


def test_the_default_k_suits_the_number_of_languages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value_LF = make_families(num_families=1, size=6, num_features=30, change=0.2)
    prober = make_prober(tmp_path / "data", value_LF)
    assert prober.k_values == (1, 3, 5)
    assert len(prober.probe("a", "b", vectors(value_LF, 4)).group_results[0].knn_accuracy.by_k) == 3
    few, more = (
        LanguageRepresentation(name, "laa", tuple(CODES[:size]), vectors(value_LF[:size], 4))
        for name, size in (("few", 4), ("more", 6))
    )
    results, _ = probe_representations(prober.uriel, [more, few], ProbeSettings(num_random_baselines=2))
    assert [result.k_values for result in results] == [(1, 3), (1, 3)]
    assert capsys.readouterr().err == "Too few languages share a feature for k = 1, 3, 5, 7, 9. Using k = 1, 3.\n"


def test_too_large_a_k_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    value_LF = make_families(num_families=1, size=6, num_features=30, change=0.2)
    with pytest.raises(SettingsError, match=r"k = 9 needs 10 languages .* --k-values 1,3,5\."):
        make_prober(tmp_path / "data", value_LF, k_values=(1, 3, 5, 7, 9))
    assert make_prober(tmp_path / "other", value_LF, k_values=(1, 3, 5)).sets_by_group


@pytest.mark.parametrize("k_values", [(), (2,), (-1,), (3, 3)])
def test_values_of_k_must_be_odd_and_distinct(k_values: tuple[int, ...]) -> None:
    with pytest.raises(SettingsError, match="odd and distinct"):
        ProbeSettings(k_values=k_values)


def test_unknown_languages_are_refused(tmp_path: Path) -> None:
    uriel = UrielDatabase(write_uriel(tmp_path / "data", ["deu"], np.zeros((1, 3), np.float32)))
    with pytest.raises(LanguageError, match=r"xx \(not in URIEL\)"):
        TypologyProber(uriel, ["de", "xx"])


def test_the_family_and_geography_baseline_has_known_scores_on_ted(uriel: UrielDatabase) -> None:
    prober = TypologyProber(
        uriel, TED, ProbeSettings(voting_rule=VotingRule.PAPER, num_random_baselines=100, num_permutations=1)
    )
    assert set(prober.matched.exclusions) == {"fr-ca", "pt-br", "sk", "zh-cn", "zh-tw"}
    phonology, syntax = prober.baselines["phonology"], prober.baselines["syntax"]
    assert [round(accuracy, 1) for accuracy in phonology.family_and_geography.by_k] == [82.0, 80.7, 67.0, 59.2, 59.2]
    assert 70 < min(syntax.random_mean.by_k) < max(syntax.random_mean.by_k) < 78
    assert min(syntax.family_and_geography.by_k) > max(syntax.random_mean.by_k)
