"""The plan: nothing lost, the budget kept, each pair as often as it should be, the same from wherever one looks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.batches.pairs import PairsIndex
from manyglot.batches.plan import BatchSettings, Plan
from manyglot.corpus.languages import directions_of
from manyglot.errors import SettingsError
from tests.batches.stores import bilingual, make_index

LENGTHS = st.lists(st.lists(st.integers(2, 30), min_size=1, max_size=60), min_size=1, max_size=5)


def make_plan(index: PairsIndex, seed: int = 1, num_symbols: int = 0, **settings: float | str | None) -> Plan:
    directions = directions_of(index.store.languages, "en")
    return Plan(index, directions, BatchSettings(**settings), num_symbols, seed)  # type: ignore[arg-type]


def drawn(plan: Plan, epoch: int = 0) -> Counter[tuple[int, int, int]]:
    """How often each (direction, source, target) is in an epoch."""
    entries = plan.entries(epoch, 0, plan.num_batches(epoch))
    return Counter(zip(entries.direction.tolist(), entries.source.tolist(), entries.target.tolist(), strict=True))


@given(lengths=LENGTHS, budget=st.integers(30, 200), epoch=st.integers(0, 5))
def test_a_plan_holds_each_pair_once_and_keeps_the_budget(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[list[int]], budget: int, epoch: int
) -> None:
    index = bilingual(tmp_path_factory.mktemp("plan"), lengths)
    plan = make_plan(index, max_tokens=budget, temperature=None, alike="longer")
    store, found = index.store, drawn(plan, epoch)
    assert set(found.values()) == {1}
    for number, direction in enumerate(plan.directions):
        pairs = {(s, t) for d, s, t in found if d == number}
        assert pairs == set(zip(*(side.tolist() for side in store.pairs(*direction)), strict=True))
    entries = plan.entries(epoch, 0, plan.num_batches(epoch))
    for batch in range(plan.num_batches(epoch)):
        rows = entries.batch(batch)
        longest = max(store.lengths(entries.source[rows]).max(), store.lengths(entries.target[rows]).max())
        assert 0 < longest * (rows.stop - rows.start) <= budget


@given(lengths=LENGTHS, epoch=st.integers(0, 3), data=st.data())
def test_any_batch_is_found_without_those_before_it(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[list[int]], epoch: int, data: st.DataObject
) -> None:
    """A pure function of seed, epoch and batch: the same in one piece, in pieces, and in another process."""
    index = bilingual(tmp_path_factory.mktemp("plan"), lengths)
    whole = make_plan(index, seed=7, max_tokens=60)
    number = whole.num_batches(epoch)
    first = data.draw(st.integers(0, number - 1))
    last = data.draw(st.integers(first + 1, number))
    everything, piece = (
        whole.entries(epoch, 0, number),
        make_plan(index, seed=7, max_tokens=60).entries(epoch, first, last),
    )
    rows = slice(everything.starts[first], everything.starts[last])
    for part in ("direction", "source", "target"):
        np.testing.assert_array_equal(getattr(piece, part), getattr(everything, part)[rows])
    np.testing.assert_array_equal(piece.starts, everything.starts[first : last + 1] - everything.starts[first])


@pytest.mark.parametrize("num_processes", [1, 2, 3, 8])
def test_the_number_of_processes_changes_nothing(num_processes: int, tmp_path: Path) -> None:
    """Each takes every n-th batch of one and the same series."""
    index = bilingual(tmp_path, [[5, 9, 13] * 30, [6] * 40])
    whole = make_plan(index, max_tokens=60)
    number = whole.num_batches(0)
    taken = {}
    for rank in range(num_processes):
        plan = make_plan(index, max_tokens=60)
        for batch in range(rank, number, num_processes):
            entries = plan.entries(0, batch, batch + 1)
            taken[batch] = (entries.source.tolist(), entries.target.tolist())
    everything = whole.entries(0, 0, number)
    for batch in range(number):
        rows = everything.batch(batch)
        assert taken[batch] == (everything.source[rows].tolist(), everything.target[rows].tolist())


def test_epochs_and_seeds_differ(tmp_path: Path) -> None:
    index = bilingual(tmp_path, [[5] * 100, [6] * 100])
    orders = {
        tuple(make_plan(index, seed, max_tokens=60).entries(epoch, 0, 3).source.tolist())
        for seed, epoch in ((1, 0), (1, 1), (2, 0))
    }
    assert len(orders) == 3


def test_every_pair_is_drawn_as_often_as_its_direction_asks(tmp_path: Path) -> None:
    """In an epoch all pairs of a direction alike, give or take one; over many epochs by chance alone."""
    rng = np.random.default_rng(0)
    index = bilingual(tmp_path, [rng.integers(2, 40, n).tolist() for n in (1000, 90, 7)])
    plan = make_plan(index, max_tokens=200, temperature=5.0)
    total: Counter[tuple[int, int, int]] = Counter()
    num_epochs = 60
    for epoch in range(num_epochs):
        found = drawn(plan, epoch)
        total += found
        for number, (size, count) in enumerate(zip(plan.sizes_D, plan.counts_D, strict=True)):
            often = [n for (d, _, _), n in found.items() if d == number]
            assert sum(often) == count
            often += [0] * (size - len(often))
            assert max(often) - min(often) <= 1
    for number, (size, count) in enumerate(zip(plan.sizes_D, plan.counts_D, strict=True)):
        often = np.array([n for (d, _, _), n in total.items() if d == number])
        expected, rest = num_epochs * count / size, count % size / size
        spread = (num_epochs * rest * (1 - rest)) ** 0.5
        assert len(often) == size, "none is left out for ever"
        assert abs(often - expected).max() <= 5 * spread + 1e-9


def test_directions_can_be_weighted(tmp_path: Path) -> None:
    index = bilingual(tmp_path, [[5] * 300, [6] * 100])
    plan = make_plan(index, max_tokens=60, weights={"en>la": 5, "lb>en": 2})  # type: ignore[arg-type]
    shares = dict(zip(map(str, plan.directions), (plan.counts_D / 800).tolist(), strict=True))
    assert shares == pytest.approx({"en→la": 5 / 9, "en→lb": 1 / 9, "la→en": 1 / 9, "lb→en": 2 / 9}, abs=0.01)
    with pytest.raises(SettingsError, match=r"batches.weights: en>lx is not trained on. Did you mean"):
        make_plan(index, weights={"en>lx": 2})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="weight above 0"):
        make_plan(index, weights={"en>la": 0})  # type: ignore[arg-type]


def test_a_language_can_be_translated_into_less_often(tmp_path: Path) -> None:
    """Than the temperature says, or weights of one's own; an epoch stays as long."""
    index = bilingual(tmp_path, [[5] * 300, [6] * 100])

    def counts(**settings: Any) -> dict[str, int]:
        plan = make_plan(index, max_tokens=60, **settings)
        return dict(zip(map(str, plan.directions), plan.counts_D.tolist(), strict=True))

    half = {"into": {"en": 0.5}}
    assert counts(temperature=None, **half) == {"en→la": 400, "en→lb": 133, "la→en": 200, "lb→en": 67}
    weights = {"en>la": 1, "en>lb": 1, "la>en": 1, "lb>en": 3}
    assert counts(weights=weights, **half) == {"en→la": 200, "en→lb": 200, "la→en": 100, "lb→en": 300}
    warm = counts(temperature=5.0)
    assert sum(counts(temperature=5.0, **half).values()) == pytest.approx(sum(warm.values()), abs=2)
    assert counts(temperature=5.0, into={"en": 1.0}) == warm
    with pytest.raises(SettingsError, match=r"batches.into: eo is not trained on. Known: en, la, lb"):
        make_plan(index, into={"eo": 2})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="weight above 0"):
        make_plan(index, into={"en": 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(("alike", "least"), [("both", 0.93), ("longer", 0.87)])
def test_batches_have_little_padding(alike: str, least: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 60, 4000)
    others = np.clip(lengths + rng.integers(-6, 7, 4000), 2, 60)
    german, english = ({row: [5] * int(n) for row, n in enumerate(each)} for each in (lengths, others))
    index = make_index(tmp_path, "en", de=german, en=english)
    plan = make_plan(index, max_tokens=1000, alike=alike)  # type: ignore[arg-type]
    entries = plan.entries(0, 0, plan.num_batches(0))
    real = padded = 0
    sizes = []
    for batch in range(plan.num_batches(0)):
        rows = entries.batch(batch)
        for side in (entries.source, entries.target):
            of_batch = index.store.lengths(side[rows])
            real += of_batch.sum()
            padded += of_batch.max() * len(of_batch)
            sizes.append(of_batch.max() * len(of_batch))
    assert real / padded > least
    assert np.mean(sizes) > 850, "batches are nearly full"


def test_batches_can_be_all_alike(tmp_path: Path) -> None:
    """Of sentences of any length, with nearly as many tokens as they may have."""
    rng = np.random.default_rng(0)
    german, english = ({row: [5] * int(n) for row, n in enumerate(rng.integers(2, 60, 9000))} for _ in range(2))
    plan = make_plan(make_index(tmp_path, "en", de=german, en=english), max_tokens=9000, alike="none", num_symbols=1)
    entries = plan.entries(0, 0, plan.num_batches(0))
    tokens = [
        (plan.index.store.lengths(side[rows]) + 1).sum()
        for rows in map(entries.batch, range(plan.num_batches(0) - 1))
        for side in (entries.source, entries.target)
    ]
    assert max(tokens) <= 9100
    assert min(tokens) > 7000
    assert np.mean(tokens) > 7800
    longest = [plan.index.store.lengths(entries.source[entries.batch(i)]).max() for i in range(plan.num_batches(0))]
    assert min(longest) > 55


def test_a_budget_smaller_than_a_sentence_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"batches.max_tokens: 20 is smaller than the longest sentence \(30 tokens\)"
    ):
        make_plan(bilingual(tmp_path, [[3, 28]]), num_symbols=2, max_tokens=20)
