"""Converts the weights of Hugging Face encoder-decoder models: M2M100 (and NLLB), MBart and Marian.

The three families differ in a few settings and in parameters that only some of them have. Nothing is dropped: every
tensor of a checkpoint is either used, or known to repeat another one.

Shape letters: V vocabulary, P positions, D model width.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from manyglot.config.base_settings import parse_settings
from manyglot.errors import FolderError
from manyglot.model.settings import ModelSettings

MBART_POSITION_OFFSET = 2
"""Leading rows of MBart's tables of positions that no position uses."""
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}
"""The activation functions of transformers that the model supports, and their names in the settings."""
FAMILY_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "m2m_100": {"norm": "pre", "embedding_norm": False, "position_offset": 2, "source_tag": True},
    "mbart": {"norm": "pre", "positions": "learned", "source_tag": True},
    "marian": {"norm": "post", "embedding_norm": False, "positions": "learned", "start_symbol": "pad"},
}
"""The settings that all models of a family share, by `model_type`."""

ATTENTION_NAMES = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "output"}
LAYER_NAMES = {
    "encoder": {
        "self_attn": "attention",
        "self_attn_layer_norm": "attention_sublayer.norm",
        "fc1": "ffn.inner",
        "fc2": "ffn.outer",
        "final_layer_norm": "ffn_sublayer.norm",
    },
    "decoder": {
        "self_attn": "self_attention",
        "self_attn_layer_norm": "self_sublayer.norm",
        "encoder_attn": "cross_attention",
        "encoder_attn_layer_norm": "cross_sublayer.norm",
        "fc1": "ffn.inner",
        "fc2": "ffn.outer",
        "final_layer_norm": "ffn_sublayer.norm",
    },
}
"""The parts of a layer by their names in transformers."""
STACK_NAMES = {"layernorm_embedding": "norm", "layer_norm": "final_norm"}
"""The norms of a stack by their names in transformers. Ours follow the name of the stack, as in `encoder_norm`."""
EMBEDDING_NAME, BIAS_NAME = "model.shared.weight", "final_logits_bias"
TIED_EMBEDDINGS = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
POSITION_NAMES = "model.{stack}.embed_positions.weight"
UNUSED_NAMES = ("model.encoder.embed_positions.weights", "model.decoder.embed_positions.weights")
"""Sinusoidal tables of M2M100, which old checkpoints store although they are constants."""


@dataclass(frozen=True)
class ConvertedModel:
    """The settings of a model, and its weights by their names in a `Transformer`."""

    settings: ModelSettings
    weights: dict[str, Tensor]


def convert_weights(
    state: Mapping[str, Tensor], config: Mapping[str, Any], row_order: Sequence[int] | Tensor
) -> ConvertedModel:
    """Convert the weights of a model, given its config.json as a dictionary.

    `row_order` holds, for each id of the new vocabulary, the id in the old one: a permutation. A model with other parts
    than a plain encoder-decoder model has raises a FolderError.
    """
    settings = convert_settings(config, has_bias=_has_bias(state))
    rows_V = torch.as_tensor(row_order, dtype=torch.long)
    embedding_VD = _tied_embeddings(state)
    if sorted(rows_V.tolist()) != list(range(len(embedding_VD))):
        raise FolderError(
            f"The vocabulary has {len(rows_V):,} symbols, but the weights have {len(embedding_VD):,} embeddings."
        )
    weights = {"embedding.weight": embedding_VD[rows_V]}
    if settings.output_bias:
        weights["output_bias"] = state[BIAS_NAME].flatten()[rows_V]
    used = {EMBEDDING_NAME, BIAS_NAME, *TIED_EMBEDDINGS, *UNUSED_NAMES}
    for ours, theirs in _names(settings):
        if theirs not in state:
            raise FolderError(f"The weights do not fit config.json: they lack {theirs}.")
        weights[ours] = state[theirs]
        used.add(theirs)
    if unknown := sorted(state.keys() - used):
        raise FolderError(f"The weights have {unknown[0][:100]}, which config.json does not describe.")
    if config["model_type"] == "mbart":
        for name in ("encoder_positions.weight", "decoder_positions.weight"):
            weights[name] = weights[name][MBART_POSITION_OFFSET:]
    return ConvertedModel(settings, weights)


def convert_settings(config: Mapping[str, Any], *, has_bias: bool) -> ModelSettings:
    """Return the settings of a model from its config.json. Raise a FolderError if the model has no counterpart here."""
    family = str(config.get("model_type"))
    if family not in FAMILY_SETTINGS:
        raise FolderError(
            f"config.json: model_type {family!r} is not supported. Supported types: {', '.join(FAMILY_SETTINGS)}."
        )
    try:
        same_in_both = {
            ours: _equal_values(config, f"encoder_{theirs}", f"decoder_{theirs}")
            for ours, theirs in (("num_heads", "attention_heads"), ("ffn_width", "ffn_dim"))
        }
        activation = config["activation_function"]
        if activation not in ACTIVATIONS:
            raise FolderError(
                f"config.json: activation_function {activation!r} is not supported. "
                f"Supported functions: {', '.join(ACTIVATIONS)}."
            )
        values = {
            **FAMILY_SETTINGS[family],
            **same_in_both,
            "width": config["d_model"],
            "num_encoder_layers": config["encoder_layers"],
            "num_decoder_layers": config["decoder_layers"],
            "dropout": config.get("dropout", 0.1),
            "activation": ACTIVATIONS[activation],
            "scale_embeddings": bool(config.get("scale_embedding", False)),
            "output_bias": has_bias,
        }
        if values.get("positions") == "learned":
            values["max_positions"] = config["max_position_embeddings"]
    except KeyError as error:
        raise FolderError(f"config.json lacks {error.args[0]}.") from None
    return parse_settings(ModelSettings, values, "config.json")


def _equal_values(config: Mapping[str, Any], *names: str) -> Any:
    """Return the value that several entries must share."""
    values = [config[name] for name in names]
    if len(set(map(repr, values))) > 1:
        raise FolderError(
            f"config.json: {' and '.join(names)} differ. Only models in which they are equal are supported."
        )
    return values[0]


def _has_bias(state: Mapping[str, Tensor]) -> bool:
    """Whether the output layer has a bias that is not zero. MBart stores zeros."""
    return BIAS_NAME in state and bool(state[BIAS_NAME].any())


def _tied_embeddings(state: Mapping[str, Tensor]) -> Tensor:
    """Return the table that encoder, decoder and output layer share; raise a FolderError if they differ."""
    tables = [state[name] for name in (EMBEDDING_NAME, *TIED_EMBEDDINGS) if name in state]
    if not tables:
        raise FolderError(f"The weights lack {EMBEDDING_NAME}.")
    if not all(table is tables[0] or torch.equal(table, tables[0]) for table in tables):
        raise FolderError(
            "Encoder, decoder and output layer have different embeddings. Only models that share them are supported."
        )
    return tables[0]


def _names(settings: ModelSettings) -> Iterator[tuple[str, str]]:
    """Yield our name and their name of each parameter, except embeddings and output bias."""
    for stack, num_layers in (("encoder", settings.num_encoder_layers), ("decoder", settings.num_decoder_layers)):
        if settings.positions == "learned":
            yield f"{stack}_positions.weight", POSITION_NAMES.format(stack=stack)
        for theirs, ours in STACK_NAMES.items():
            if settings.embedding_norm if ours == "norm" else settings.norm == "pre":
                yield from _with_bias(f"{stack}_{ours}", f"model.{stack}.{theirs}")
        for layer in range(num_layers):
            for theirs, ours in LAYER_NAMES[stack].items():
                our_prefix, their_prefix = f"{stack}.{layer}.{ours}", f"model.{stack}.layers.{layer}.{theirs}"
                if not theirs.endswith("attn"):
                    yield from _with_bias(our_prefix, their_prefix)
                    continue
                for their_projection, our_projection in ATTENTION_NAMES.items():
                    yield from _with_bias(f"{our_prefix}.{our_projection}", f"{their_prefix}.{their_projection}")


def _with_bias(ours: str, theirs: str) -> Iterator[tuple[str, str]]:
    yield f"{ours}.weight", f"{theirs}.weight"
    yield f"{ours}.bias", f"{theirs}.bias"
