"""The paper's Transformer with guidance, the modules that tell the model its target language.

Encoder, decoder and output layer share one embedding table. In the paper, positions are sinusoidal, the embeddings have
a layer norm and the layers are post-norm. `settings.py` lists the variants of other models. Read this file with
`layers.py` and `attention.py` beside the paper; `executor.py` explains how the same definition trains without padding
and decodes with caches.

Shape letters: B sentences, S source positions, T target positions, D model width, V vocabulary, L languages. In a
packed batch every token is a row of its own, with T = 1.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyglot.model.executor import BatchLayout, EncoderMemory, Executor, InputEmbedding
from manyglot.model.guidance import build_guidance
from manyglot.model.guidance.base import HookPoint, MethodSettings, ModelDimensions, Site, TargetLanguages
from manyglot.model.guidance.language_matmul import LanguageGroups
from manyglot.model.layers import DecoderLayer, EncoderLayer
from manyglot.model.meta_device import meta_device
from manyglot.model.output_layer import OutputLayer
from manyglot.model.padded_executor import PaddedLayout
from manyglot.model.positions import learned_positions, sinusoidal_positions
from manyglot.model.settings import ModelSettings
from manyglot.model.sublayer_io import SublayerInput
from manyglot.vocabulary.subword_model import EOS, PAD
from manyglot.vocabulary.vocabulary import LanguageTags


class HiddenStates(NamedTuple):
    """The last hidden states of both stacks, in the layout of the batch."""

    encoded: Tensor
    decoded: Tensor


class Transformer(nn.Module):
    """Encoder, decoder and guidance."""

    def __init__(
        self, settings: ModelSettings, guidance: Sequence[MethodSettings], num_subwords: int, num_languages: int
    ) -> None:
        super().__init__()
        self.settings, self.methods, self.num_languages = settings, tuple(guidance), num_languages
        self.dimensions = ModelDimensions(
            width=settings.width,
            num_encoder_layers=settings.num_encoder_layers,
            num_decoder_layers=settings.num_decoder_layers,
            num_languages=num_languages,
            first_tag_id=num_subwords,
        )
        self.embedding = nn.Embedding(num_subwords + num_languages, settings.width, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=settings.width**-0.5)
        with torch.no_grad():
            self.embedding.weight[PAD].zero_()
        self.encoder_norm = nn.LayerNorm(settings.width) if settings.embedding_norm else nn.Identity()
        self.decoder_norm = nn.LayerNorm(settings.width) if settings.embedding_norm else nn.Identity()
        self.encoder = nn.ModuleList(EncoderLayer(settings, layer) for layer in range(settings.num_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(settings, layer) for layer in range(settings.num_decoder_layers))
        # A post-norm stack ends with the norm of its last sub-layer; a pre-norm stack needs a final norm.
        has_final_norm = settings.norm == "pre"
        self.encoder_final_norm = nn.LayerNorm(settings.width) if has_final_norm else nn.Identity()
        self.decoder_final_norm = nn.LayerNorm(settings.width) if has_final_norm else nn.Identity()
        self.dropout = nn.Dropout(settings.dropout)
        self.guidance = build_guidance(guidance, self.dimensions)
        # Created last, so that they do not change the random numbers of the other parameters.
        self.encoder_positions = learned_positions(settings)
        self.decoder_positions = learned_positions(settings)
        self.output_bias = nn.Parameter(torch.zeros(num_subwords + num_languages)) if settings.output_bias else None

    def forward(
        self,
        source: Tensor,
        decoder_input: Tensor,
        lang_B: Tensor,
        layout: BatchLayout | None = None,
        random_lang_B: Tensor | None = None,
    ) -> HiddenStates:
        """Compute the hidden states of all positions at once; `logits` turns them into scores.

        `lang_B` holds the target language of each sentence. Token ids are padded (`source_BS`, `input_BT`) unless a
        layout says otherwise.
        """
        layout = PaddedLayout(source) if layout is None else layout
        target_languages = self.prepare_target_languages(lang_B, random_lang_B, is_sorted=layout.sorted_by_language)
        executor = layout.encoder_executor(self.guidance, target_languages)
        encoded = self.encode(source, executor)
        memory = self.apply_memory_guidance(
            layout.keep_source_sentences(encoded), executor.target_languages, layout.source_mask
        )
        decoded = self.decode(decoder_input, layout.decoder_executor(self.guidance, target_languages, memory))
        return HiddenStates(encoded, decoded)

    def encode(self, source: Tensor, executor: Executor) -> Tensor:
        """Return the encoder's output."""
        x = SublayerInput.from_states(executor.embed(source, self.encoder_embedding))
        for layer in self.encoder:
            x = layer(x, executor)
        return executor.cast_to_states_dtype(self.encoder_final_norm(x.residual), x.residual)

    def apply_memory_guidance(
        self, encoded_BSD: Tensor, target_languages: TargetLanguages, mask_B11S: Tensor | None = None
    ) -> EncoderMemory:
        """Apply the guidance hooks at the site `memory` to the encoder's output."""
        states_BSD = self.guidance.pre_sublayer(HookPoint(Site.MEMORY, 0), encoded_BSD, target_languages)
        return EncoderMemory(states_BSD, self.guidance.memory_kv_term(states_BSD, target_languages), mask_B11S)

    def decode(self, decoder_input: Tensor, executor: Executor) -> Tensor:
        """Return the decoder's last hidden states; the executor decides which positions attend to which."""
        x = SublayerInput.from_states(executor.embed(decoder_input, self.decoder_embedding))
        for layer in self.decoder:
            x = layer(x, executor)
        hidden: Tensor = self.decoder_final_norm(x.residual)
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the scores of all vocabulary entries, using the shared embeddings."""
        return F.linear(hidden, *self.output_layer)

    @property
    def output_layer(self) -> OutputLayer:
        """The output layer, for operations that combine it with others."""
        return OutputLayer(self.embedding.weight, self.output_bias)

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """Return the log softmax of the logits, in float32 even if the model runs in half precision."""
        logits = self.logits(hidden)
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)

    def max_output_length(self, tags: LanguageTags) -> int:
        """Return the maximum number of subwords of an output, after the start symbol and the tags."""
        return (self.settings.max_positions or sys.maxsize) - 1 - len(tags.target)

    def prepare_target_languages(
        self, lang_B: Tensor, random_lang_B: Tensor | None = None, *, is_sorted: bool = False
    ) -> TargetLanguages:
        """Return the target languages in the form that the guidance hooks take.

        Pass `is_sorted` if the sentences are sorted by language. If guidance needs a random language for each sentence,
        it is sampled here unless `random_lang_B` is given.
        """
        groups = LanguageGroups.from_languages(lang_B, self.num_languages, is_sorted=is_sorted)
        random_groups = None
        if self.guidance.uses_random_language:
            if random_lang_B is None:
                random_lang_B = torch.randint_like(lang_B, self.num_languages)
            random_groups = LanguageGroups.from_languages(random_lang_B, self.num_languages)
        return TargetLanguages(groups, self.embedding(self.dimensions.first_tag_id + lang_B), random_groups)

    @property
    def start_symbol(self) -> int:
        """The id of the symbol with which the decoder starts."""
        return PAD if self.settings.start_symbol == "pad" else EOS

    def tags_by_language(self) -> list[LanguageTags]:
        """Return the symbols around the source and target sentences of each target language, indexed by language id."""
        first_tag_id = self.dimensions.first_tag_id
        all_tags = range(first_tag_id, first_tag_id + self.num_languages) if self.settings.source_tag else ()
        tags = [
            replace(self.guidance.tags_for_language(language), start=self.start_symbol, source_language_tags=all_tags)
            for language in range(self.num_languages)
        ]
        kinds = {(len(tag.source), len(tag.target), tag.target_predicted) for tag in tags}
        assert len(kinds) == 1, "all languages must have the same number of tags"
        return tags

    @property
    def encoder_embedding(self) -> InputEmbedding:
        """The input layer of the encoder."""
        return self._input_embedding(self.encoder_norm, self.encoder_positions)

    @property
    def decoder_embedding(self) -> InputEmbedding:
        """The input layer of the decoder."""
        return self._input_embedding(self.decoder_norm, self.decoder_positions)

    def _input_embedding(self, norm: nn.Module, learned: nn.Embedding | None) -> InputEmbedding:
        scale = math.sqrt(self.settings.width) if self.settings.scale_embeddings else 1.0
        if learned is not None:
            return InputEmbedding(self.embedding, scale, norm, self.dropout, lambda _: learned.weight, learned)
        weight = self.embedding.weight
        table = partial(
            sinusoidal_positions,
            width=weight.shape[1],
            device=weight.device,
            dtype=weight.dtype,
            offset=self.settings.position_offset,
        )
        return InputEmbedding(self.embedding, scale, norm, self.dropout, table, None)

    def on_meta_device(self) -> Transformer:
        """Return a model of the same shape on the meta device."""
        with meta_device():
            return Transformer(self.settings, self.methods, self.dimensions.first_tag_id, self.num_languages)

    def language_representations(self) -> dict[str, Tensor]:
        """Return what the guidance has learned about each language, by method; row i belongs to language i."""
        tag_embedding_LD = self.embedding.weight[self.dimensions.first_tag_id :]
        return {
            name: value.detach().clone()
            for name, value in self.guidance.language_representations(tag_embedding_LD).items()
        }

    def num_parameters_by_part(self) -> dict[str, int]:
        """Return the number of trainable parameters of each part of the model."""
        parts = dict(self.named_children())
        del parts["guidance"]
        parts |= {f"guidance.{name}": method for name, method in self.guidance.named_methods()}
        counts = {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
        counts["output_bias"] = 0 if self.output_bias is None else self.output_bias.numel()
        return {name: count for name, count in counts.items() if count}
