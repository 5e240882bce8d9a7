"""The batch plan: complete, within max_tokens, with the right number of samples, and computable at any batch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.batches.pair_index import PairIndex
from manyglot.batches.plan import BatchPlan, BatchSettings
from manyglot.corpus.languages import enumerate_directions
from manyglot.errors import SettingsError
from tests.batches.stores import bilingual, make_index

LENGTHS = st.lists(st.lists(st.integers(2, 30), min_size=1, max_size=60), min_size=1, max_size=5)


def make_plan(
    index: PairIndex, seed: int = 1, num_special_tokens: int = 0, **settings: float | str | None
) -> BatchPlan:
    directions = enumerate_directions(index.store.languages, "en")
    return BatchPlan(index, directions, BatchSettings(**settings), num_special_tokens, seed)  # type: ignore[arg-type]


def sampled_pairs(plan: BatchPlan, epoch: int = 0) -> Counter[tuple[int, int, int]]:
    """Count how often an epoch samples each (direction, source, target)."""
    pairs = plan.planned_pairs(epoch, 0, plan.num_batches(epoch))
    return Counter(zip(pairs.direction.tolist(), pairs.source.tolist(), pairs.target.tolist(), strict=True))


@given(lengths=LENGTHS, budget=st.integers(30, 200), epoch=st.integers(0, 5))
def test_an_epoch_has_each_pair_once_within_max_tokens(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[list[int]], budget: int, epoch: int
) -> None:
    index = bilingual(tmp_path_factory.mktemp("plan"), lengths)
    plan = make_plan(index, max_tokens=budget, temperature=None, bucket_by="longer")
    store, samples = index.store, sampled_pairs(plan, epoch)
    assert set(samples.values()) == {1}
    for number, direction in enumerate(plan.directions):
        indices = {(s, t) for d, s, t in samples if d == number}
        assert indices == set(zip(*(side.tolist() for side in store.translation_pairs(*direction)), strict=True))
    pairs = plan.planned_pairs(epoch, 0, plan.num_batches(epoch))
    for batch in range(plan.num_batches(epoch)):
        rows = pairs.batch_slice(batch)
        longest = max(store.lengths(pairs.source[rows]).max(), store.lengths(pairs.target[rows]).max())
        assert 0 < longest * (rows.stop - rows.start) <= budget


@given(lengths=LENGTHS, epoch=st.integers(0, 3), data=st.data())
def test_any_batch_is_computed_without_the_previous_ones(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[list[int]], epoch: int, data: st.DataObject
) -> None:
    """The plan is a pure function of seed, epoch and batch: the same at once, in parts, and in another process."""
    index = bilingual(tmp_path_factory.mktemp("plan"), lengths)
    whole = make_plan(index, seed=7, max_tokens=60)
    number = whole.num_batches(epoch)
    first = data.draw(st.integers(0, number - 1))
    last = data.draw(st.integers(first + 1, number))
    everything, piece = (
        whole.planned_pairs(epoch, 0, number),
        make_plan(index, seed=7, max_tokens=60).planned_pairs(epoch, first, last),
    )
    rows = slice(everything.starts[first], everything.starts[last])
    for part in ("direction", "source", "target"):
        np.testing.assert_array_equal(getattr(piece, part), getattr(everything, part)[rows])
    np.testing.assert_array_equal(piece.starts, everything.starts[first : last + 1] - everything.starts[first])


@pytest.mark.parametrize("num_processes", [1, 2, 3, 8])
def test_the_number_of_processes_does_not_change_the_result(num_processes: int, tmp_path: Path) -> None:
    """Each process takes every n-th batch of the same sequence."""
    index = bilingual(tmp_path, [[5, 9, 13] * 30, [6] * 40])
    whole = make_plan(index, max_tokens=60)
    number = whole.num_batches(0)
    batches = {}
    for rank in range(num_processes):
        plan = make_plan(index, max_tokens=60)
        for batch in range(rank, number, num_processes):
            pairs = plan.planned_pairs(0, batch, batch + 1)
            batches[batch] = (pairs.source.tolist(), pairs.target.tolist())
    everything = whole.planned_pairs(0, 0, number)
    for batch in range(number):
        rows = everything.batch_slice(batch)
        assert batches[batch] == (everything.source[rows].tolist(), everything.target[rows].tolist())


def test_epochs_and_seeds_differ(tmp_path: Path) -> None:
    index = bilingual(tmp_path, [[5] * 100, [6] * 100])
    orders = {
        tuple(make_plan(index, seed, max_tokens=60).planned_pairs(epoch, 0, 3).source.tolist())
        for seed, epoch in ((1, 0), (1, 1), (2, 0))
    }
    assert len(orders) == 3


def test_pairs_of_a_direction_are_sampled_equally_often(tmp_path: Path) -> None:
    """Within an epoch the counts of a direction differ by at most one; over many epochs only by chance."""
    rng = np.random.default_rng(0)
    index = bilingual(tmp_path, [rng.integers(2, 40, n).tolist() for n in (1000, 90, 7)])
    plan = make_plan(index, max_tokens=200, temperature=5.0)
    total: Counter[tuple[int, int, int]] = Counter()
    num_epochs = 60
    for epoch in range(num_epochs):
        samples = sampled_pairs(plan, epoch)
        total += samples
        for number, (size, count) in enumerate(zip(plan.sizes_D, plan.samples_per_epoch_D, strict=True)):
            often = [n for (d, _, _), n in samples.items() if d == number]
            assert sum(often) == count
            often += [0] * (size - len(often))
            assert max(often) - min(often) <= 1
    for number, (size, count) in enumerate(zip(plan.sizes_D, plan.samples_per_epoch_D, strict=True)):
        often = np.array([n for (d, _, _), n in total.items() if d == number])
        expected, rest = num_epochs * count / size, count % size / size
        spread = (num_epochs * rest * (1 - rest)) ** 0.5
        assert len(often) == size, "every pair is sampled eventually"
        assert abs(often - expected).max() <= 5 * spread + 1e-9


def test_direction_weights_replace_the_temperature(tmp_path: Path) -> None:
    index = bilingual(tmp_path, [[5] * 300, [6] * 100])
    plan = make_plan(index, max_tokens=60, direction_weights={"en>la": 5, "lb>en": 2})  # type: ignore[arg-type]
    shares = dict(zip(map(str, plan.directions), (plan.samples_per_epoch_D / 800).tolist(), strict=True))
    assert shares == pytest.approx({"en→la": 5 / 9, "en→lb": 1 / 9, "la→en": 1 / 9, "lb→en": 2 / 9}, abs=0.01)
    with pytest.raises(SettingsError, match=r"batches.direction_weights: en>lx is not trained on. Did you mean"):
        make_plan(index, direction_weights={"en>lx": 2})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be above 0"):
        make_plan(index, direction_weights={"en>la": 0})  # type: ignore[arg-type]


def test_target_weights_scale_the_samples_of_a_language(tmp_path: Path) -> None:
    """Target weights apply on top of the temperature or of direction weights; the length of an epoch stays."""
    index = bilingual(tmp_path, [[5] * 300, [6] * 100])

    def counts(**settings: Any) -> dict[str, int]:
        plan = make_plan(index, max_tokens=60, **settings)
        return dict(zip(map(str, plan.directions), plan.samples_per_epoch_D.tolist(), strict=True))

    half = {"target_weights": {"en": 0.5}}
    assert counts(temperature=None, **half) == {"en→la": 400, "en→lb": 133, "la→en": 200, "lb→en": 67}
    weights = {"en>la": 1, "en>lb": 1, "la>en": 1, "lb>en": 3}
    assert counts(direction_weights=weights, **half) == {"en→la": 200, "en→lb": 200, "la→en": 100, "lb→en": 300}
    warm = counts(temperature=5.0)
    assert sum(counts(temperature=5.0, **half).values()) == pytest.approx(sum(warm.values()), abs=2)
    assert counts(temperature=5.0, target_weights={"en": 1.0}) == warm
    with pytest.raises(SettingsError, match=r"batches.target_weights: eo is not trained on. Known: en, la, lb"):
        make_plan(index, target_weights={"eo": 2})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be above 0"):
        make_plan(index, target_weights={"en": 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(("bucket_by", "least"), [("both", 0.93), ("longer", 0.87)])
def test_bucketing_reduces_padding(bucket_by: str, least: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 60, 4000)
    others = np.clip(lengths + rng.integers(-6, 7, 4000), 2, 60)
    german, english = ({row: [5] * int(n) for row, n in enumerate(each)} for each in (lengths, others))
    index = make_index(tmp_path, "en", de=german, en=english)
    plan = make_plan(index, max_tokens=1000, bucket_by=bucket_by)  # type: ignore[arg-type]
    pairs = plan.planned_pairs(0, 0, plan.num_batches(0))
    real = padded = 0
    sizes = []
    for batch in range(plan.num_batches(0)):
        rows = pairs.batch_slice(batch)
        for side in (pairs.source, pairs.target):
            of_batch = index.store.lengths(side[rows])
            real += of_batch.sum()
            padded += of_batch.max() * len(of_batch)
            sizes.append(of_batch.max() * len(of_batch))
    assert real / padded > least
    assert np.mean(sizes) > 850, "batches are nearly full"


def test_batches_without_bucketing_mix_lengths(tmp_path: Path) -> None:
    """Without bucketing, batches have all lengths and nearly max_tokens tokens."""
    rng = np.random.default_rng(0)
    german, english = ({row: [5] * int(n) for row, n in enumerate(rng.integers(2, 60, 9000))} for _ in range(2))
    plan = make_plan(
        make_index(tmp_path, "en", de=german, en=english), max_tokens=9000, bucket_by="none", num_special_tokens=1
    )
    pairs = plan.planned_pairs(0, 0, plan.num_batches(0))
    tokens = [
        (plan.index.store.lengths(side[rows]) + 1).sum()
        for rows in map(pairs.batch_slice, range(plan.num_batches(0) - 1))
        for side in (pairs.source, pairs.target)
    ]
    assert max(tokens) <= 9100
    assert min(tokens) > 7000
    assert np.mean(tokens) > 7800
    longest = [plan.index.store.lengths(pairs.source[pairs.batch_slice(i)]).max() for i in range(plan.num_batches(0))]
    assert min(longest) > 55


def test_max_tokens_below_the_longest_sentence_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"batches.max_tokens: 20 is smaller than the longest sentence \(30 tokens\)"
    ):
        make_plan(bilingual(tmp_path, [[3, 28]]), num_special_tokens=2, max_tokens=20)


def test_weights_name_languages_in_any_style(tmp_path: Path) -> None:
    index = bilingual(tmp_path, [[5] * 300, [6] * 100])

    def counts(**settings: Any) -> list[int]:
        return make_plan(index, max_tokens=60, **settings).samples_per_epoch_D.tolist()

    assert counts(direction_weights={"eng>Latin": 5}) == counts(direction_weights={"en>la": 5})
    assert counts(target_weights={"eng_Latn": 0.5}) == counts(target_weights={"en": 0.5})
    with pytest.raises(SettingsError, match=r"batches.target_weights: eng is en, which has a weight already"):
        counts(target_weights={"en": 2, "eng": 0.5})
    with pytest.raises(SettingsError, match=r"batches.direction_weights: German>en is not trained on"):
        counts(direction_weights={"German>en": 2})
