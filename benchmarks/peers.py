"""The benchmarks' reference models: the same architecture in other toolkits."""

from __future__ import annotations

from typing import Any

from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.model.settings import ModelSettings
from manyglot.vocabulary.subword_model import EOS, PAD


def make_m2m100(dataset: PreparedDataset) -> Any:
    """Return an untrained M2M100 of transformers in manyglot's base size, with the paper's dropout."""
    from transformers import M2M100Config, M2M100ForConditionalGeneration  # type: ignore[import-not-found]

    vocabulary, size = dataset.vocabulary, ModelSettings()
    config = M2M100Config(
        vocab_size=len(vocabulary.subword_model) + len(vocabulary.languages),
        d_model=size.width,
        encoder_layers=size.num_encoder_layers,
        decoder_layers=size.num_decoder_layers,
        encoder_attention_heads=size.num_heads,
        decoder_attention_heads=size.num_heads,
        encoder_ffn_dim=size.ffn_width,
        decoder_ffn_dim=size.ffn_width,
        dropout=size.dropout,
        attention_dropout=0.0,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
    )
    return M2M100ForConditionalGeneration(config)
