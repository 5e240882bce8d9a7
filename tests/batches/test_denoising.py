"""Denoising: the right pairs, as many as asked for, the same from wherever one looks, and nothing else changed."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch

from manyglot.batches.dataset import Dataset
from manyglot.batches.denoising import LEFT_OUT, may_be_denoised
from manyglot.batches.loader import Loader, Place, Planned
from manyglot.batches.plan import BatchSettings
from manyglot.corpus.languages import Direction, Languages, directions_of
from manyglot.corpus.rows import Split
from manyglot.training.forecast import Course
from manyglot.training.loop import TrainingSettings
from manyglot.vocabulary.subwords import PAD
from manyglot.vocabulary.vocabulary import Tags


def make_loader(dataset: Dataset, share: float = 0.5, **settings: str | int) -> Loader:
    tags = [Tags(source=(dataset.vocabulary.tag_id(i),)) for i in range(len(dataset.languages))]
    batches = BatchSettings(max_tokens=400, denoising=share, **settings)  # type: ignore[arg-type]
    return Loader(dataset.store(Split.TRAIN), dataset.supervised, batches, tags, seed=3)


def planned(loader: Loader, number: int = 100) -> list[Planned]:
    return [each for each, _ in islice(loader.planned(Place()), number)]


def test_it_is_for_languages_that_lack_sources() -> None:
    centric = directions_of(Languages(["de", "en", "fr"]), "en")
    assert [d for d, may in zip(centric, may_be_denoised(centric), strict=True) if may] == [("de", "en"), ("fr", "en")]
    assert not may_be_denoised(directions_of(Languages(["de", "en", "fr"]))).any()
    assert not may_be_denoised([Direction("de", "en"), Direction("en", "de")]).any()


def test_so_many_sentences_stay_in_their_language_and_the_rest_is_the_same(dataset: Dataset) -> None:
    plain, denoised = planned(make_loader(dataset, 0.0)), planned(make_loader(dataset, 0.5))
    codes, own, may = dataset.languages.codes, 0, 0
    for before, after in zip(plain, denoised, strict=True):
        unchanged = {(s, t) for s, t in zip(before.source.tolist(), before.target.tolist(), strict=True)}
        lines = zip(after.lines(), after.source.tolist(), after.target.tolist(), after.language.tolist(), strict=True)
        for (source, target, _), *pair, language in lines:
            assert codes[language] == target
            assert source != dataset.pivot or source != target
            assert source == target or tuple(pair) in unchanged
            own += source == target
        may += sum(target == dataset.pivot for _, target, _ in before.lines())
    assert 0.45 < own / may < 0.55


def test_some_subwords_are_left_out_of_such_sources_only(dataset: Dataset) -> None:
    read = whole = 0
    store = dataset.store(Split.TRAIN)
    for each in planned(make_loader(dataset)):
        batch = each.load()
        assert each.num_source_tokens() == int((batch.source_BS != PAD).sum())
        for row, (source, target) in enumerate(zip(each.source.tolist(), each.target.tolist(), strict=True)):
            words = [i for i in batch.source_BS[row].tolist() if i != PAD][1:-1]
            assert [i for i in batch.input_BT[row].tolist() if i != PAD][1:] == store[target].tolist()
            if source != target:
                assert words == store[source].tolist()
                continue
            left = iter(store[source].tolist())
            assert all(word in left for word in words), "in their order"
            read, whole = read + len(words), whole + len(store[source])
    assert read / whole == pytest.approx(1 - LEFT_OUT, abs=0.02)


def test_other_subwords_are_left_out_the_next_time(dataset: Dataset) -> None:
    seen: dict[int, set[tuple[int, ...]]] = {}
    for each in planned(make_loader(dataset), 400):
        rows = np.flatnonzero(each.source == each.target)
        for row, source in zip(rows, each.load().source_BS[torch.from_numpy(rows)].tolist(), strict=True):
            seen.setdefault(int(each.source[row]), set()).add(tuple(i for i in source if i != PAD))
    assert np.mean([len(forms) for forms in seen.values()]) > 2


def test_any_place_continues_the_same_series(dataset: Dataset) -> None:
    whole = list(islice(make_loader(dataset).batches(Place()), 40))
    for start in (1, 17):
        rest = islice(make_loader(dataset).batches(whole[start - 1][1]), 40 - start)
        for (expected, _), (batch, _) in zip(whole[start:], rest, strict=True):
            torch.testing.assert_close(batch.source_BS, expected.source_BS)
            torch.testing.assert_close(batch.label_BT, expected.label_BT)


@pytest.mark.parametrize("settings", [{"alike": "longer"}, {"alike": "both"}, {"num_shapes": 2}], ids=str)
def test_batches_of_like_lengths_keep_their_budget(dataset: Dataset, settings: dict[str, str | int]) -> None:
    for batch in islice(make_loader(dataset, **settings).epoch(), 50):
        assert max(batch.source_BS.numel(), batch.input_BT.numel()) <= 400


def test_a_forecast_counts_what_is_translated(dataset: Dataset) -> None:
    loaders = make_loader(dataset, 0.0), make_loader(dataset, 0.25)
    settings = TrainingSettings(max_steps=20)
    plain, denoised = (Course.of(loader, loader.directions, settings).directions for loader in loaders)
    for direction, seen in denoised.items():
        share = 0.75 if direction.target == dataset.pivot else 1
        assert seen.times == pytest.approx(share * plain[direction].times)
