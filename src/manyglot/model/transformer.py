"""The paper's Transformer: one embedding table for encoder, decoder and output, sinusoidal positions, a layer norm on
the embeddings, post-norm layers (or pre-norm), and guidance owned here and passed down.

Shape letters: B sentences, S source positions, T target positions, D model width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyglot.model.attention import Memory
from manyglot.model.cache import DecoderCache
from manyglot.model.guidance import build_guidance
from manyglot.model.guidance.base import Dimensions, MethodSettings, Point, Site, Target
from manyglot.model.guidance.products import Choice
from manyglot.model.layers import DecoderLayer, EncoderLayer, ModelSettings
from manyglot.model.operations import Fork, Sight, as_states, embed, packed_pass, project_memory
from manyglot.model.packing import PackedBatch, PackedSentences
from manyglot.model.slots import OfSources, Past, SlotCache, SlotLayer, Slots, Sources
from manyglot.vocabulary.subwords import PAD
from manyglot.vocabulary.vocabulary import Tags


class States(NamedTuple):
    """What a pass over a batch without padding makes of it."""

    encoded_MD: Tensor
    """The encoder's output, of answers too."""
    hidden_ND: Tensor
    """The decoder's last hidden states."""


class Transformer(nn.Module):
    """Encoder, decoder and guidance."""

    def __init__(
        self, settings: ModelSettings, guidance: Sequence[MethodSettings], num_subwords: int, num_languages: int
    ) -> None:
        super().__init__()
        self.settings, self.methods, self.num_languages = settings, tuple(guidance), num_languages
        self.dimensions = Dimensions(
            width=settings.width,
            num_heads=settings.num_heads,
            num_encoder_layers=settings.num_encoder_layers,
            num_decoder_layers=settings.num_decoder_layers,
            num_languages=num_languages,
            first_tag=num_subwords,
        )
        self.embedding = nn.Embedding(num_subwords + num_languages, settings.width, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=settings.width**-0.5)
        with torch.no_grad():
            self.embedding.weight[PAD].zero_()
        self.encoder_norm = nn.LayerNorm(settings.width)
        self.decoder_norm = nn.LayerNorm(settings.width)
        self.encoder = nn.ModuleList(EncoderLayer(settings, layer) for layer in range(settings.num_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(settings, layer) for layer in range(settings.num_decoder_layers))
        # A pre-norm stack ends without a norm, so it gets one; a post-norm stack has it in its last sub-layer.
        final = settings.norm == "pre"
        self.encoder_final_norm = nn.LayerNorm(settings.width) if final else nn.Identity()
        self.decoder_final_norm = nn.LayerNorm(settings.width) if final else nn.Identity()
        self.dropout = nn.Dropout(settings.dropout)
        self.guidance = build_guidance(guidance, self.dimensions)

    def blank(self) -> Transformer:
        """A model of the same shape without weights, to be given some."""
        with torch.device("meta"):
            return Transformer(self.settings, self.methods, self.dimensions.first_tag, self.num_languages)

    def tags(self) -> list[Tags]:
        """The symbols of each target language, by language id; whoever builds sequences puts them in."""
        tags = [self.guidance.tag(language) for language in range(self.num_languages)]
        assert len({(len(tag.source), len(tag.target), tag.predicted) for tag in tags}) == 1, "tags must be alike"
        return tags

    def target(self, lang_B: Tensor, drawn_B: Tensor | None = None, *, in_order: bool = False) -> Target:
        """The target languages in the form that the hooks take; it helps to know if they are in order.

        Guidance may need a language drawn at random for each sentence; it is drawn here unless it is given.
        """
        if not self.guidance.draws:
            drawn = None
        else:
            if drawn_B is None:
                drawn_B = torch.randint_like(lang_B, self.num_languages)
            drawn = Choice.of(drawn_B, self.num_languages)
        tag_BD = self.embedding(self.dimensions.first_tag + lang_B)
        return Target(Choice.of(lang_B, self.num_languages, in_order=in_order), tag_BD, drawn)

    def encode(self, source_BS: Tensor, target: Target, sentence_B: Tensor | None = None) -> Memory:
        """Read the source sentences.

        Where the encoder does not depend on the target language, a source may be read once for several targets; then
        it must be said which sentence each of them translates.
        """
        mask_B11S = (source_BS != PAD)[:, None, None, :]
        x_BSD = self._embed(source_BS, self.encoder_norm, self.positions(source_BS.shape[1])[: source_BS.shape[1]])
        states = Fork.of(x_BSD)
        for layer in self.encoder:
            states = layer(states, mask_B11S, self.guidance, target)
        x_BSD = self._encoded(states)
        if sentence_B is not None:
            assert not self.guidance.in_encoder, "what is read depends on the target language"
            x_BSD, mask_B11S = x_BSD.index_select(0, sentence_B), mask_B11S.index_select(0, sentence_B)
        return self._memory(x_BSD, mask_B11S, target)

    def _encoded(self, states: Fork) -> Tensor:
        """What the encoder hands over."""
        return as_states(self.encoder_final_norm(states.past), states.past)

    def _memory(self, x_BSD: Tensor, mask_B11S: Tensor | None, target: Target) -> Memory:
        x_BSD = self.guidance.enter(Point(Site.MEMORY, 0), x_BSD, target)
        return Memory(x_BSD, mask_B11S, self.guidance.project_memory(x_BSD, target))

    def decode(
        self,
        input_BT: Tensor,
        memory: Memory | None,
        target: Target,
        cache: DecoderCache | SlotCache | None = None,
    ) -> Tensor:
        """The decoder's last hidden states; with a cache, the input continues what was decoded before.

        Where the cache is forked, the input has the next word of each beam instead of the next words of a sentence.
        Slots remember the memory themselves; there each row of the input is the next word of one beam.
        """
        x_BTD = self._embed(input_BT, self.decoder_norm, self._next_positions(input_BT, cache))
        states = Fork.of(x_BTD)
        for i, layer in enumerate(self.decoder):
            layer_cache = cache.layers[i] if cache is not None else None
            states = layer(states, memory, self.guidance, target, layer_cache)
        if isinstance(cache, DecoderCache):
            cache.length += 1 if cache.per_token else input_BT.shape[1]
        hidden_BTD: Tensor = self.decoder_final_norm(states.past)
        return hidden_BTD

    def _next_positions(self, input_BT: Tensor, cache: DecoderCache | SlotCache | None) -> Tensor:
        """The positions of the input; beams share theirs."""
        if isinstance(cache, SlotCache):
            return self.positions(cache.room)[cache.age()][:, None]
        start = 0 if cache is None else cache.length
        end = start + (1 if cache is not None and cache.per_token else input_BT.shape[1])
        return self.positions(end)[start:end]

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of all symbols, by the shared embeddings."""
        return F.linear(hidden, self.embedding.weight)

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """log softmax of the logits, in float32 at least whatever the model computes in."""
        logits = self.logits(hidden)
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)

    def hidden(self, source_BS: Tensor, input_BT: Tensor, lang_B: Tensor, drawn_B: Tensor | None = None) -> Tensor:
        """From token ids to the decoder's hidden states, all positions at once.

        Where guidance has products to group by language, the sentences are put in order here, as ids, and back at the
        end: moving hidden states in every layer would cost more.
        """
        target = self.target(lang_B, drawn_B)
        choice = self.guidance.choice(target)
        if choice is None or choice.order_B is None:
            return self.decode(input_BT, self.encode(source_BS, target), target)
        source_BS, input_BT, target = source_BS[choice.order_B], input_BT[choice.order_B], target.in_order_of(choice)
        return choice.put_back(self.decode(input_BT, self.encode(source_BS, target), target))

    def packed_hidden(self, batch: PackedBatch, drawn_B: Tensor | None = None) -> Tensor:
        """As `hidden`, for a batch without padding: the states of all tokens of the input, one after the other."""
        return self.packed_states(batch, drawn_B).hidden_ND

    def packed_states(self, batch: PackedBatch, drawn_B: Tensor | None = None) -> States:
        """The same, with what the encoder made of all that it read.

        To the hooks every token is a row, with the target language of its sentence.
        """
        readers = [projection for projections in self._memory_readers() for projection in projections]
        with packed_pass(self, batch.lang_B.device, together=readers):
            return self._packed_states(batch, drawn_B)

    def _memory_readers(self) -> list[tuple[nn.Linear, nn.Linear]]:
        """The projections of keys and values in the cross-attention of each layer."""
        attentions = [layer.cross_attention for layer in self.decoder if isinstance(layer, DecoderLayer)]
        return [(attention.key, attention.value) for attention in attentions]

    def _packed_states(self, batch: PackedBatch, drawn_B: Tensor | None) -> States:
        encoded, source, read = batch.encoded, batch.source, batch.input
        target = self.target(batch.lang_B, drawn_B, in_order=True)
        x_M1D, of_tokens = self._embed_packed(encoded, self.encoder_norm), target.of_tokens(source.sentence_N)
        assert not len(batch.aligned_source_K) or not self.guidance.in_encoder, (
            "aligned targets have no target language"
        )
        states = Fork.of(x_M1D)
        for layer in self.encoder:
            states = layer(states, None, self.guidance, of_tokens, Sight(encoded, encoded, batch.encoder_groups))
        encoded_M1D = self._encoded(states)
        source_M1D = encoded_M1D[: len(source.ids_N)] if len(batch.aligned_source_K) else encoded_M1D
        memory = self._memory(source_M1D, None, of_tokens)
        if batch.shape.fits_tile:
            made = project_memory(memory.memory_BSD.flatten(0, 1), self._memory_readers())
            memory = replace(memory, keys_and_values=made)
        x_N1D, of_tokens = self._embed_packed(read, self.decoder_norm), target.of_tokens(read.sentence_N)
        sights = Sight(read, read, batch.decoder_groups, causal=True), Sight(read, source, batch.cross_groups)
        states = Fork.of(x_N1D)
        for layer in self.decoder:
            states = layer(states, memory, self.guidance, of_tokens, None, sights)
        return States(encoded_M1D.flatten(0, 1), self.decoder_final_norm(states.past.flatten(0, 1)))

    def forward(self, source_BS: Tensor, input_BT: Tensor, lang_B: Tensor, drawn_B: Tensor | None = None) -> Tensor:
        """Logits of the next token at every target position."""
        return self.logits(self.hidden(source_BS, input_BT, lang_B, drawn_B))

    def new_cache(self) -> DecoderCache:
        """An empty cache for step-by-step decoding."""
        return DecoderCache(len(self.decoder))

    def new_slots(self, num_slots: int, beam: int, room: int, sources: Sources, num_tokens: int) -> SlotCache:
        """Empty slots for sentences that come and go, with room for so many positions and tokens of all sources."""
        weight, width = self.embedding.weight, self.settings.width
        slots = Slots.empty(num_slots, beam, room, weight.device)

        def remembering(layer: nn.Module) -> SlotLayer:
            assert isinstance(layer, DecoderLayer)
            past = [weight.new_zeros(num_slots, beam, room, width) for _ in range(2)]
            read = [weight.new_zeros(num_tokens, width) for _ in range(2)]
            return SlotLayer(Past(slots, layer.self_attention.joined(), *past), OfSources(slots, sources, *read))

        return SlotCache(slots, [remembering(layer) for layer in self.decoder])

    def remember(self, memory: Memory, cache: SlotCache, first: int) -> int:
        """Write the keys and values of sources down, one after the other without padding; returns where they end."""
        assert memory.mask_B11S is not None
        token_n = memory.mask_B11S.flatten().nonzero()[:, 0]
        end = first + len(token_n)
        for layer, remembered in zip(self.decoder, cache.layers, strict=True):
            assert isinstance(layer, DecoderLayer)
            read = remembered.cross_attention
            both = layer.cross_attention.keys_and_values(memory.memory_BSD, memory.term_BSD)
            for all_MD, new_BSD in zip((read.key_MD, read.value_MD), both, strict=True):
                all_MD[first:end] = new_BSD.flatten(0, 1)[token_n]
        return end

    def representations(self) -> dict[str, Tensor]:
        """What the guidance has learnt of each language, by method; row i belongs to language i."""
        tag_LD = self.embedding.weight[self.dimensions.first_tag :]
        return {name: value.detach().clone() for name, value in self.guidance.representations(tag_LD).items()}

    def num_parameters(self) -> dict[str, int]:
        """Trainable parameters by part."""
        parts = dict(self.named_children())
        del parts["guidance"]
        parts |= {f"guidance.{name}": method for name, method in self.guidance.items()}
        counts = {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
        return {name: count for name, count in counts.items() if count}

    def positions(self, length: int) -> Tensor:
        """A table of at least so many positions."""
        make = _positions.__wrapped__ if torch.compiler.is_compiling() else _positions  # a graph has no such cache
        weight = self.embedding.weight
        table_PD: Tensor = make(_round_up(length), self.settings.width, weight.device, weight.dtype)
        return table_PD

    def _embed(self, ids_BT: Tensor, norm: nn.Module, position: Tensor) -> Tensor:
        """Dropout(LN(sqrt(D) E[token] + position)); the layer norm is in the paper's code, not in its text."""
        factor = math.sqrt(self.settings.width)
        x_BTD: Tensor = self.dropout(norm(self.embedding(ids_BT) * factor + position))
        return x_BTD

    def _embed_packed(self, sentences: PackedSentences, norm: nn.LayerNorm) -> Tensor:
        positions_PD, factor = self.positions(sentences.max_length), math.sqrt(self.settings.width)
        return embed(self.embedding, sentences, positions_PD, factor, norm, self.dropout)[:, None]


def _round_up(length: int) -> int:
    """The next power of two, so that few tables are made."""
    return max(256, 1 << (length - 1).bit_length())


@lru_cache(maxsize=16)
def _positions(length: int, width: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Sinusoidal positions: sines in the first half of the columns, cosines in the second."""
    with torch.inference_mode(False):  # a table first made while translating serves training too
        half = width // 2
        steps = torch.arange(half, dtype=torch.float64, device=device)
        frequency = torch.exp(steps * -(math.log(10_000) / max(half - 1, 1)))
        angle = torch.arange(length, dtype=torch.float64, device=device)[:, None] * frequency
        return torch.cat([angle.sin(), angle.cos()], dim=1).to(dtype)
