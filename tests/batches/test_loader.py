from __future__ import annotations

from itertools import islice

import torch

from manyglot.batches.batch import Batch
from manyglot.batches.loader import BatchLoader, DataPosition
from manyglot.batches.plan import BatchSettings
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.corpus.base import Split
from manyglot.vocabulary.vocabulary import LanguageTags


def first_epoch(loader: BatchLoader) -> list[Batch]:
    return [batch for batch, _ in islice(loader.iter_batches(DataPosition()), loader.plan.num_batches(0))]


def make_loader(dataset: PreparedDataset) -> BatchLoader:
    tags = [LanguageTags(source=(dataset.vocabulary.tag_id(i),)) for i in range(len(dataset.languages))]
    return BatchLoader(
        dataset.token_store(Split.TRAIN), dataset.train_directions, BatchSettings(max_tokens=200), tags, seed=3
    )


def test_batches_continue_from_any_position(dataset: PreparedDataset) -> None:
    whole = list(islice(make_loader(dataset).iter_batches(DataPosition()), 60))
    assert {position.epoch for _, position in whole} >= {0, 1}, "the series should cross the end of an epoch"
    for start in (1, 17, 40):
        rest = islice(make_loader(dataset).iter_batches(whole[start - 1][1]), 60 - start)
        for (expected, _), (batch, _) in zip(whole[start:], rest, strict=True):
            torch.testing.assert_close(batch.source_BS, expected.source_BS)
            torch.testing.assert_close(batch.label_BT, expected.label_BT)


def test_every_sentence_carries_its_own_target_language(dataset: PreparedDataset) -> None:
    """Find the pair of each row by its tokens, and compare its target language with the batch."""
    text = {code: {row[code] for row in dataset.rows(Split.TRAIN)} for code in dataset.languages}
    mixed = 0
    for batch in first_epoch(make_loader(dataset)):
        targets = dataset.vocabulary.decode(batch.input_BT.tolist())
        codes = [dataset.languages.codes[i] for i in batch.lang_B.tolist()]
        assert all(target in text[code] for target, code in zip(targets, codes, strict=True))
        assert batch.source_BS[:, 0].tolist() == [dataset.vocabulary.tag_id(i) for i in batch.lang_B.tolist()]
        mixed += len(set(codes)) > 1
    assert mixed, "batches should mix target languages"


def test_only_train_directions_are_sampled(dataset: PreparedDataset) -> None:
    central_language = {row[str(dataset.central_language)] for row in dataset.rows(Split.TRAIN)}
    for batch in first_epoch(make_loader(dataset)):
        sources = dataset.vocabulary.decode(batch.source_BS.tolist())
        targets = dataset.vocabulary.decode(batch.input_BT.tolist())
        assert all((s in central_language) != (t in central_language) for s, t in zip(sources, targets, strict=True))


def test_max_tokens_counts_tags_and_end_symbols(dataset: PreparedDataset) -> None:
    tags = [LanguageTags(source=(7, 7, 7), target=(7,))] * len(dataset.languages)
    settings = BatchSettings(max_tokens=200, bucket_by="longer")
    loader = BatchLoader(dataset.token_store(Split.TRAIN), dataset.train_directions, settings, tags, seed=3)
    for batch in first_epoch(loader):
        assert max(batch.source_BS.numel(), batch.input_BT.numel()) <= 200


def test_models_with_and_without_a_tag_are_trained_on_the_same_batches(dataset: PreparedDataset) -> None:
    settings, number = BatchSettings(max_tokens=400), len(dataset.languages)
    tags = [LanguageTags()], [LanguageTags(source=(9,))], [LanguageTags(target=(9,))]
    loaders = [
        BatchLoader(dataset.token_store(Split.TRAIN), dataset.train_directions, settings, each * number, seed=3)
        for each in tags
    ]
    indices = [
        [
            (list(p.source_indices), list(p.target_indices))
            for p, _ in islice(x.iter_planned_batches(DataPosition()), 50)
        ]
        for x in loaders
    ]
    assert indices[0] == indices[1] == indices[2]
