"""Reads a model of transformers: M2M100, NLLB-200, MBart-50 and Marian."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyglot.config.base_settings import parse_settings
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import FolderError, ManyglotError
from manyglot.importers.checkpoint_tensors import CheckpointTensors
from manyglot.importers.huggingface_folder import HuggingFaceFolder
from manyglot.importers.huggingface_tokenizers import read_tokenizer
from manyglot.importers.huggingface_weights import (
    BIAS_NAME,
    EMBEDDING_NAME,
    POSITION_NAMES,
    TIED_EMBEDDINGS,
    convert_settings,
    convert_weights,
)
from manyglot.importers.translation_directions import TranslationDirections, find_directions
from manyglot.model.guidance.base import MethodSettings
from manyglot.model.meta_device import meta_device
from manyglot.model.model_folder import ModelDescription
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.vocabulary import Vocabulary

UNUSED_TAG_BIAS = -1e4
"""The logit of tags that a model does not have. Their probability is 0, even in half precision."""


@dataclass(frozen=True)
class ImportedModel:
    """All that a model folder needs."""

    weights: Mapping[str, Tensor]
    description: ModelDescription
    training_info: Mapping[str, Any]


def read_model(path: Path, sources: Sequence[str] = (), targets: Sequence[str] = ()) -> ImportedModel:
    """Read a folder; `sources` and `targets` state the languages of a Marian model whose files do not."""
    folder = HuggingFaceFolder.read(path)
    convert_settings(folder.config, has_bias=False)  # errors in config.json come first
    tensors, tokenizer = CheckpointTensors.read_headers(path), read_tokenizer(folder)
    num_rows = _checked_vocabulary_size(folder, tensors)
    _check_start_symbol(folder, tokenizer.table.token_ids)
    directions = find_directions(folder, tokenizer.table, sources, targets)
    try:
        tokenizer.table.check(num_rows)
        subword_model = tokenizer.build(tokenizer.table.piece_list(num_rows))
    except ManyglotError:
        raise
    except (ValueError, RuntimeError) as error:
        raise FolderError(f"The tokenizer of {path} does not fit its weights: {error}. Copy both again.") from None
    order = tokenizer.table.row_order(num_rows, directions.languages)
    checkpoint = _CompleteTensors(tensors, folder, num_new_rows=len(order) - num_rows)
    converted = convert_weights(checkpoint, folder.config, order)
    vocabulary = Vocabulary(subword_model, directions.languages)
    _check_shapes(path, converted.weights, converted.settings, directions.guidance, vocabulary)
    config = _experiment_settings(folder, converted.settings, directions, len(subword_model))
    return ImportedModel(
        converted.weights,
        ModelDescription(vocabulary, directions.all_directions, config, targets=directions.targets),
        {"imported_from": path.resolve().name, "model_type": folder.family},
    )


def _checked_vocabulary_size(folder: HuggingFaceFolder, tensors: CheckpointTensors) -> int:
    """Return `vocab_size`, which must be the number of rows of the embeddings."""
    size = folder.integer("vocab_size")
    for name in (EMBEDDING_NAME, *TIED_EMBEDDINGS):
        if name in tensors and (shape := tensors.shape(name))[:1] != (size,):
            raise folder.error("config.json", f"vocab_size is {size:,}, but {name} has the shape {list(shape)}")
    if EMBEDDING_NAME not in tensors and not any(name in tensors for name in TIED_EMBEDDINGS):
        raise FolderError(f"The weights of {folder.path} lack {EMBEDDING_NAME}.")
    return size


class _CompleteTensors(Mapping[str, Tensor]):
    """The tensors of a checkpoint, with those that Marian does not store, and with rows for further tags."""

    def __init__(self, tensors: CheckpointTensors, folder: HuggingFaceFolder, num_new_rows: int) -> None:
        self._tensors, self._folder, self._num_new_rows = tensors, folder, num_new_rows
        self._names = dict.fromkeys(tensors)
        self._positions = {POSITION_NAMES.format(stack=stack) for stack in ("encoder", "decoder")} - tensors.keys()
        if folder.family == "marian":
            self._names |= dict.fromkeys([*self._positions, BIAS_NAME])

    def __getitem__(self, name: str) -> Tensor:
        if name == BIAS_NAME and self._folder.family == "marian":
            num_rows = self._folder.integer("vocab_size")
            bias_V = self._tensors[name].flatten() if name in self._tensors else torch.zeros(num_rows)
            return torch.cat([bias_V, torch.full((self._num_new_rows,), UNUSED_TAG_BIAS)])
        if name in self._positions and self._folder.family == "marian":
            return _marian_positions(self._folder.integer("max_position_embeddings"), self._folder.integer("d_model"))
        tensor = self._tensors[name]
        if self._num_new_rows and name in (EMBEDDING_NAME, *TIED_EMBEDDINGS):
            return torch.cat([tensor, tensor.new_zeros(self._num_new_rows, tensor.shape[1])])
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _marian_positions(num_positions: int, width: int) -> Tensor:
    """Return Marian's position embeddings: sines, then cosines, with wavelengths from 2π to nearly 10,000 · 2π."""
    frequency = 10_000 ** (-2 * np.arange(width // 2) / width)
    angle = np.arange(num_positions)[:, None] * frequency
    return torch.from_numpy(np.concatenate([np.sin(angle), np.cos(angle)], axis=1)).to(torch.float32)


def _check_start_symbol(folder: HuggingFaceFolder, token_ids: Mapping[str, int]) -> None:
    """Raise unless the decoder starts with the symbol of its family and the special ids are those of the tokenizer."""
    start = "<pad>" if folder.family == "marian" else "</s>"
    expected = {"decoder_start_token_id": start, "pad_token_id": "<pad>", "eos_token_id": "</s>"}
    for name, token in expected.items():
        if token in token_ids and folder.config.get(name) not in (None, token_ids[token]):
            raise folder.error(
                "config.json",
                f"{name} is {str(folder.config[name])[:50]}, but only {token_ids[token]} ({token}) is supported",
            )


def _check_shapes(
    path: Path,
    weights: Mapping[str, Tensor],
    settings: ModelSettings,
    guidance: Sequence[MethodSettings],
    vocabulary: Vocabulary,
) -> None:
    """Raise a FolderError unless the weights have the shapes that config.json describes."""
    with meta_device():
        model = Transformer(settings, guidance, len(vocabulary.subword_model), len(vocabulary.languages))
    for name, expected in model.state_dict().items():
        if name not in weights or weights[name].shape != expected.shape:
            found = f"has the shape {list(weights[name].shape)}" if name in weights else "is missing"
            raise FolderError(
                f"The weights of {path} do not fit config.json: {name} {found}, expected {list(expected.shape)}."
            )


def _experiment_settings(
    folder: HuggingFaceFolder, settings: ModelSettings, directions: TranslationDirections, num_subwords: int
) -> dict[str, Any]:
    """Return the content of config.yaml."""
    return {
        "vocabulary": {"size": num_subwords},
        "model": settings.model_dump(mode="json"),
        "guidance": [method.model_dump(mode="json") for method in directions.guidance],
        "training": {},
        "decoding": decoding_settings(folder, num_target_tags=0 if folder.family == "marian" else 1).model_dump(
            mode="json"
        ),
    }


def decoding_settings(folder: HuggingFaceFolder, num_target_tags: int) -> DecodingSettings:
    """Return the decoding settings that generation_config.json states; old folders state them in config.json.

    The maximum length of transformers counts the start symbol, the tags and the end symbol. Ours does not.
    """
    stated = {**folder.config, **folder.generation_config}
    values: dict[str, Any] = {}
    if type(stated.get("num_beams")) is int:
        values["beam_size"] = stated["num_beams"]
    if isinstance(stated.get("length_penalty"), int | float):
        values["length_penalty"] = stated["length_penalty"]
    if type(stated.get("max_length")) is int:
        values["max_length"] = max(1, stated["max_length"] - 2 - num_target_tags)
    return parse_settings(DecodingSettings, values, "generation_config.json")
