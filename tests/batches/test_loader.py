from __future__ import annotations

from itertools import islice

import torch

from manyglot.batches.batch import Batch
from manyglot.batches.dataset import Dataset
from manyglot.batches.loader import Loader, Place
from manyglot.batches.plan import BatchSettings
from manyglot.corpus.rows import Split
from manyglot.vocabulary.vocabulary import Tags


def first_epoch(loader: Loader) -> list[Batch]:
    return [batch for batch, _ in islice(loader.batches(Place()), loader.plan.num_batches(0))]


def make_loader(dataset: Dataset) -> Loader:
    tags = [Tags(source=(dataset.vocabulary.tag_id(i),)) for i in range(len(dataset.languages))]
    return Loader(dataset.store(Split.TRAIN), dataset.supervised, BatchSettings(max_tokens=200), tags, seed=3)


def test_any_place_continues_the_same_series(dataset: Dataset) -> None:
    whole = list(islice(make_loader(dataset).batches(Place()), 60))
    assert {place.epoch for _, place in whole} >= {0, 1}, "the series should cross the end of an epoch"
    for start in (1, 17, 40):
        rest = islice(make_loader(dataset).batches(whole[start - 1][1]), 60 - start)
        for (expected, _), (batch, _) in zip(whole[start:], rest, strict=True):
            torch.testing.assert_close(batch.source_BS, expected.source_BS)
            torch.testing.assert_close(batch.label_BT, expected.label_BT)


def test_every_sentence_carries_its_own_target_language(dataset: Dataset) -> None:
    """The pair behind each row is found again by its text, and its language must be the one that the batch says."""
    text = {code: {row[code] for row in dataset.rows(Split.TRAIN)} for code in dataset.languages}
    mixed = 0
    for batch in first_epoch(make_loader(dataset)):
        targets = dataset.vocabulary.decode(batch.input_BT.tolist())
        codes = [dataset.languages.codes[i] for i in batch.lang_B.tolist()]
        assert all(target in text[code] for target, code in zip(targets, codes, strict=True))
        assert batch.source_BS[:, 0].tolist() == [dataset.vocabulary.tag_id(i) for i in batch.lang_B.tolist()]
        mixed += len(set(codes)) > 1
    assert mixed, "batches should mix target languages"


def test_only_supervised_directions_are_drawn(dataset: Dataset) -> None:
    pivot = {row[str(dataset.pivot)] for row in dataset.rows(Split.TRAIN)}
    for batch in first_epoch(make_loader(dataset)):
        sources = dataset.vocabulary.decode(batch.source_BS.tolist())
        targets = dataset.vocabulary.decode(batch.input_BT.tolist())
        assert all((s in pivot) != (t in pivot) for s, t in zip(sources, targets, strict=True))


def test_the_budget_counts_tags_and_ends(dataset: Dataset) -> None:
    tags = [Tags(source=(7, 7, 7), target=(7,))] * len(dataset.languages)
    settings = BatchSettings(max_tokens=200, alike="longer")
    loader = Loader(dataset.store(Split.TRAIN), dataset.supervised, settings, tags, seed=3)
    for batch in first_epoch(loader):
        assert max(batch.source_BS.numel(), batch.input_BT.numel()) <= 200


def test_models_with_and_without_a_tag_are_trained_on_the_same_batches(dataset: Dataset) -> None:
    settings, number = BatchSettings(max_tokens=400), len(dataset.languages)
    tags = [Tags()], [Tags(source=(9,))], [Tags(target=(9,))]
    loaders = [Loader(dataset.store(Split.TRAIN), dataset.supervised, settings, each * number, seed=3) for each in tags]
    drawn = [[(list(p.source), list(p.target)) for p, _ in islice(x.planned(Place()), 50)] for x in loaders]
    assert drawn[0] == drawn[1] == drawn[2]
