from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from manyglot.errors import LanguageError, SettingsError
from manyglot.probing.neighbours import Vote, count, ranked, similarities
from manyglot.probing.probe import Prober, ProbeSettings, chosen
from manyglot.probing.uriel import FeatureSet, Uriel
from tests.probing.families import grow, matrices, vectors
from tests.probing.made_up import write_uriel

WESTERN = "da de el en eo es eu fi fr fr-ca gl it nb nl pt pt-br sq sv"
EASTERN = "az be bg bs cs et hr hu hy ka lt mk pl ro ru sk sl sr tr uk"
FARTHER = "ar bn fa he hi id ja kk ko ku mn mr ms my ta th ur vi zh zh-cn zh-tw"
TED = sorted(" ".join([WESTERN, EASTERN, FARTHER]).split())
CODES = [f"q{a}{b}" for a in "abcdefgh" for b in "abcdefgh"]


def prober_of(folder: Path, value_LF: NDArray[np.int8], **settings: object) -> Prober:
    codes = CODES[: len(value_LF)]
    uriel = Uriel(write_uriel(folder, codes, value_LF.astype(np.float32)))
    return Prober(uriel, codes, ProbeSettings(num_random=20, num_permutations=99, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("vote", Vote)
@pytest.mark.parametrize("represent", [vectors, matrices])
def test_what_is_made_of_features_is_probed_to_nearly_all(tmp_path: Path, vote: Vote, represent: object) -> None:
    value_LF = grow(num_families=5, size=12, num_features=60, change=0.01)
    made = represent(value_LF, 32)  # type: ignore[operator]
    result = prober_of(tmp_path / "data", value_LF, vote=vote).probe("made", "vectors", made)
    assert [each.group for each in result.groups] == ["syntax", "phonology", "inventory"]
    for group in result.groups:
        assert group.score.best > 97
        assert group.baselines.majority < 75
        assert group.p_value == 0.01


def test_random_vectors_are_probed_to_the_level_of_the_majority(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    often = rng.random(300) < 0.5  # three of four languages have the same value
    value_LF = ((rng.random((60, 300)) < 0.25) ^ often).astype(np.int8)
    result = prober_of(tmp_path / "data", value_LF).probe("random", "vectors", rng.standard_normal((60, 512)))
    for group in result.groups:
        assert group.score.best == pytest.approx(group.baselines.majority, abs=5)
        assert group.score.best < group.baselines.majority
        assert group.score.best == pytest.approx(group.baselines.random_mean.best, abs=4)
        assert group.p_value > 0.02


def test_a_languages_number_of_neighbours_is_chosen_by_the_others() -> None:
    value_LF = grow(num_families=4, size=5, num_features=20, change=0.1)
    features = FeatureSet("syntax", "WALS", tuple(map(str, range(20))), value_LF)
    order_NLM = ranked(similarities(vectors(value_LF, 16))[None])
    choice_NL = chosen([count(order_NLM, features, (1, 3, 5), Vote.MAJORITY)])
    assert len(set(choice_NL[0])) > 1
    for left in range(20):
        others = [i for i in range(20) if i != left]
        kept = FeatureSet("syntax", "WALS", features.features, value_LF[others])
        order = ranked(similarities(vectors(value_LF, 16)[others])[None])
        right_LK = count(order, kept, (1, 3, 5), Vote.MAJORITY).right_NLK[0]
        best = int(np.argmax(right_LK.sum(axis=0)))
        behind_LK = np.insert(right_LK[:, [best]] - right_LK, 0, 0, axis=0)  # the one left out adds nothing
        enough = behind_LK.sum(axis=0) - behind_LK.max(axis=0) <= 1e-6  # without the language that speaks most for it
        assert choice_NL[0, left] == max(np.flatnonzero(enough))


def test_the_choice_is_not_worse_than_every_number_where_all_are_alike(tmp_path: Path) -> None:
    for seed in range(5):
        value_LF = grow(num_families=5, size=8, num_features=90, change=0.2, seed=seed)
        result = prober_of(tmp_path / str(seed), value_LF).probe("made", "vectors", vectors(value_LF, 24))
        for group in result.groups:
            assert group.score.best > min(group.score.by_number) - 0.5


def test_the_paper_takes_the_maximum(tmp_path: Path) -> None:
    value_LF = grow(num_families=4, size=5, num_features=30, change=0.2)
    result = prober_of(tmp_path / "data", value_LF, vote=Vote.PAPER).probe("made", "vectors", vectors(value_LF, 16))
    assert all(each.score.best == max(each.score.by_number) for each in result.groups)


def test_results_are_repeated_by_the_seed_whatever_was_probed_before(tmp_path: Path) -> None:
    value_LF = grow(num_families=4, size=5, num_features=30, change=0.2)
    prober = prober_of(tmp_path / "data", value_LF)
    assert prober.probe("a", "b", vectors(value_LF, 4)) == prober.probe("a", "b", vectors(value_LF, 4))


def test_rows_of_languages_that_are_left_out_are_not_looked_at(tmp_path: Path) -> None:
    value_LF = grow(num_families=4, size=5, num_features=30, change=0.1)
    prober = prober_of(tmp_path / "data", value_LF)
    more = Prober(prober.uriel, ["nl", *CODES[:20]], prober.settings)
    made = vectors(value_LF, 8)
    assert more.probe("a", "b", np.concatenate([made[:1] * np.nan, made])) == prober.probe("a", "b", made)


def test_too_few_languages_for_the_neighbours_are_refused_with_what_would_do(tmp_path: Path) -> None:
    value_LF = grow(num_families=1, size=6, num_features=30, change=0.2)
    with pytest.raises(SettingsError, match=r"9 neighbours need 10 languages .* --neighbours 1,3,5\."):
        prober_of(tmp_path / "data", value_LF)
    assert prober_of(tmp_path / "other", value_LF, neighbours=(1, 3, 5)).sets


@pytest.mark.parametrize("neighbours", [(), (2,), (-1,), (3, 3)])
def test_numbers_of_neighbours_are_odd_and_different(neighbours: tuple[int, ...]) -> None:
    with pytest.raises(SettingsError, match="odd and different"):
        ProbeSettings(neighbours=neighbours)


def test_unknown_languages_are_refused(tmp_path: Path) -> None:
    uriel = Uriel(write_uriel(tmp_path / "data", ["deu"], np.zeros((1, 3), np.float32)))
    with pytest.raises(LanguageError, match=r"xx \(not in URIEL\)"):
        Prober(uriel, ["de", "xx"])


def test_family_and_geography_score_exactly_what_is_expected_on_ted(uriel: Uriel) -> None:
    prober = Prober(uriel, TED, ProbeSettings(vote=Vote.PAPER, num_random=100, num_permutations=1))
    assert set(prober.located.left_out) == {"fr-ca", "pt-br", "sk", "zh-cn", "zh-tw"}
    phonology, syntax = prober.baselines["phonology"], prober.baselines["syntax"]
    assert [round(each, 1) for each in phonology.family_and_geography.by_number] == [82.0, 80.7, 67.0, 59.2, 59.2]
    assert 70 < min(syntax.random_mean.by_number) < max(syntax.random_mean.by_number) < 78
    assert min(syntax.family_and_geography.by_number) > max(syntax.random_mean.by_number)
