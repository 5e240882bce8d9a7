from __future__ import annotations

from torch.utils.flop_counter import FlopCounterMode

from manyglot.batches.packing import pack
from manyglot.model.cost import training_operations
from manyglot.training.loss import batch_loss
from manyglot.vocabulary.subwords import PAD
from tests.conftest import random_batch, tiny_model


def test_the_formula_counts_what_torch_counts() -> None:
    model = tiny_model().train()
    batch = random_batch(model)
    with FlopCounterMode(display=False) as counter:
        batch_loss(model, pack(batch), 0.1).smoothed.backward()  # type: ignore[no-untyped-call]
    products = {str(operation): number for operation, number in counter.get_flop_counts()["Global"].items()}
    source = int((batch.source_BS != PAD).sum())
    counted = training_operations(model.settings, model.embedding.num_embeddings, source, batch.num_tokens)
    assert counted == products["aten.addmm"] + products["aten.mm"]
