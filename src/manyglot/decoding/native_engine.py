"""The native engine: translates with a PyTorch model."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from manyglot.batches.batch import collate_sources
from manyglot.config.precision import Precision
from manyglot.corpus.languages import Languages
from manyglot.decoding.beam_search import BeamSearch
from manyglot.decoding.continuous_batch import ContinuousBatch
from manyglot.decoding.continuous_beam_search import ContinuousBeamSearch
from manyglot.decoding.engine import DEFAULT_BLOCK_SIZE, ScoringRequest, SearchRequest, checked_source_languages
from manyglot.decoding.forced_decoding import ForcedDecoder
from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.sampling_search import SamplingSearch
from manyglot.decoding.scored_translation import TranslationScore
from manyglot.decoding.search_batch import SearchBatch
from manyglot.decoding.settings import DecodingSettings
from manyglot.devices import cpu_supports_bfloat16, report_out_of_memory, uses_bfloat16
from manyglot.errors import ManyglotError
from manyglot.model import kernels
from manyglot.model.cpu_inference import Int8OutputLayer, supports_int8_output_layer, to_cpu_inference
from manyglot.model.folding import try_fold_guidance
from manyglot.model.transformer import Transformer
from manyglot.progress import ProgressReporter

CONTINUOUS_BLOCK_SIZE = 16_384
"""Number of sentences of a stream to translate together with continuous batching. With this many, the GPU is busy most
of the time, although slots fall idle while the last sentences finish."""
SHORT_BLOCK_PARAMETERS, MIN_SHORT_BLOCK_SIZE = 400_000_000, 64
"""On a CPU, the product of a short block's size and the number of parameters, and the minimum size. Small models need
large blocks for full speed, large models do not. A short block takes about ten seconds on two cores."""
MIN_SENTENCES_TO_FOLD = 500
"""Minimum number of sentences into one language for which folding the guidance pays off."""
MIN_WIDTH_FOR_CPU_BFLOAT16 = 128
"""Minimum model width at which bfloat16 is faster on a CPU with bfloat16 instructions."""


class _ModelVariant(NamedTuple):
    """The precision of the model, and the language for which it is folded."""

    is_bfloat16: bool
    folded_language: int | None
    """None if the model is not folded."""


class NativeEngine:
    """Searches for translations with a model on one device.

    With `fold_guidance`, a request with many sentences into one language uses a model with that language's guidance
    folded, if the guidance can be folded. The weights of the model must not change afterwards: on a CPU, the engine
    keeps its linear layers in a faster format too, which needs as much memory again.
    """

    def __init__(
        self,
        model: Transformer,
        languages: Languages,
        settings: DecodingSettings,
        device: torch.device,
        *,
        fold_guidance: bool = False,
    ) -> None:
        self.model, self.languages, self.default_settings = model.to(device).eval(), languages, settings
        self.device, self.fold_guidance = device, fold_guidance
        self._uses_continuous_batching = kernels.runs_kernels(device)
        self.preferred_block_size = CONTINUOUS_BLOCK_SIZE if self._uses_continuous_batching else DEFAULT_BLOCK_SIZE
        self.short_block_size = CONTINUOUS_BLOCK_SIZE if self._uses_continuous_batching else _short_block_size(model)
        self._variants: dict[_ModelVariant, Transformer] = {}
        self._int8_layer: Int8OutputLayer | None = None
        self._cached_batches: dict[tuple[_ModelVariant, int], dict[int, ContinuousBatch]] = {}

    @property
    def reads_source_language(self) -> bool:
        """Whether the model reads the source language."""
        return self.model.settings.source_tag

    def search(self, request: SearchRequest, progress: ProgressReporter | None = None) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of each sentence, best first.

        A source with several target languages is encoded once, unless guidance affects the encoder.
        """
        _check_prefixes(request, self.model)
        search, source_languages = self._make_search(request), self._source_languages(request)
        random_lang_B = self._random_languages(len(request.sources), request.settings.seed, request.sentence_offset)
        setting_to_lower = "max_length" if isinstance(search, ContinuousBeamSearch) else "max_batch_tokens"
        advice = f"Lower decoding.{setting_to_lower} or decoding.beam_size, or stop other programs that use this memory"
        results = [[Hypothesis((), 0.0)] for _ in request.sources]
        for indices in search.index_batches(request.sources):
            rows = sorted(indices, key=lambda row: request.target_language_ids[row])  # guidance needs no permutation
            batch = self._make_search_batch(request, rows, source_languages, search, random_lang_B[rows])
            with report_out_of_memory(self.device, "A search", advice):
                batch_results = search.search(batch)
            for row, hypotheses in zip(rows, batch_results, strict=True):
                results[row] = hypotheses
            if progress is not None:
                progress.advance(len(rows))
        return results

    def score(self, request: ScoringRequest, progress: ProgressReporter | None = None) -> list[TranslationScore]:
        """Return the scores of given translations. Up to rounding, a search that finds the same subwords gives them."""
        source_languages = self._source_languages(request)
        is_bfloat16 = self._uses_bfloat16(request.settings.precision)
        model = self._get_variant(_ModelVariant(is_bfloat16, folded_language=None))
        full_precision = self.model.output_layer.detach() if is_bfloat16 else None
        decoder = ForcedDecoder(model, full_precision, self._int8_output_layer() if is_bfloat16 else None)
        random_lang_B = self._random_languages(len(request.sources), request.settings.seed, request.sentence_offset)
        advice = "Lower decoding.max_batch_tokens, or stop other programs that use this memory"
        scores = [TranslationScore(0.0, 0.0)] * len(request.sources)
        for rows in decoder.index_batches(request):
            with report_out_of_memory(self.device, "Forced decoding", advice):
                batch_scores = decoder.score(request, rows, source_languages, random_lang_B[rows])
            for row, score in zip(rows, batch_scores, strict=True):
                scores[row] = score
            if progress is not None:
                progress.advance(len(rows))
        return scores

    def _make_search(self, request: SearchRequest) -> BeamSearch | ContinuousBeamSearch:
        """Return the search for a request, with the fastest suitable variant of the model."""
        settings, languages = request.settings, request.target_language_ids
        pays_to_fold = self.fold_guidance and len(languages) >= MIN_SENTENCES_TO_FOLD and len(set(languages)) == 1
        variant = _ModelVariant(self._uses_bfloat16(settings.precision), languages[0] if pays_to_fold else None)
        model, tags = self._get_variant(variant), self.model.tags_by_language()
        full_precision = self.model.output_layer.detach() if variant.is_bfloat16 else None
        int8_layer = self._int8_output_layer() if variant.is_bfloat16 else None
        if settings.temperature is not None:
            return SamplingSearch(model, settings, full_precision, tags)
        if self._uses_continuous_batching:
            cached_batches = self._batches_for_variant(variant, settings.beam_size)
            return ContinuousBeamSearch(model, settings, full_precision, tags, cached_batches)
        return BeamSearch(model, settings, full_precision, tags, int8_layer)

    def _make_search_batch(
        self,
        request: SearchRequest,
        rows: Sequence[int],
        source_languages: Sequence[int | None],
        search: BeamSearch | ContinuousBeamSearch,
        random_lang_B: Tensor,
    ) -> SearchBatch:
        """Return some sentences of a request with their tags as a batch on the device."""
        languages = [request.target_language_ids[row] for row in rows]
        sources = [(source_languages[row], tuple(request.sources[row])) for row in rows]
        source_RS, source_rows = _deduplicate_and_tag(sources, languages, search)
        return SearchBatch(
            source_RS=source_RS.to(self.device),
            target_language_ids=languages,
            random_lang_B=random_lang_B.to(self.device),
            source_rows=source_rows,
            prefixes=None if request.prefixes is None else [request.prefixes[row] for row in rows],
            sentence_numbers=[request.sentence_offset + row for row in rows],
            num_hypotheses=request.num_hypotheses,
        )

    def _source_languages(self, request: SearchRequest | ScoringRequest) -> Sequence[int | None]:
        """Return the source language of each sentence, or None for all if the model does not read it."""
        return checked_source_languages(request) if self.reads_source_language else [None] * len(request.sources)

    def _random_languages(self, num_sentences: int, seed: int, sentence_offset: int = 0) -> Tensor:
        """Sample a language for each sentence. It depends on the seed and the sentence's index in the text only."""
        rng = np.random.Generator(np.random.PCG64(seed).advance(sentence_offset))
        return torch.from_numpy((rng.random(num_sentences) * len(self.languages)).astype(np.int64))

    def _uses_bfloat16(self, precision: Precision) -> bool:
        """Return whether to compute in bfloat16. On a CPU, auto chooses the faster precision."""
        if precision != "auto" or self.device.type != "cpu":
            return uses_bfloat16(self.device, precision)
        weight_VD = self.model.embedding.weight
        is_wide = weight_VD.shape[1] >= MIN_WIDTH_FOR_CPU_BFLOAT16
        return cpu_supports_bfloat16() and weight_VD.dtype == torch.float32 and is_wide

    def _get_variant(self, variant: _ModelVariant) -> Transformer:
        """Return a variant of the model. Of the folded variants, only the last one is cached."""
        if variant not in self._variants:
            model = self.model
            if variant.folded_language is not None:
                model = try_fold_guidance(self.model, variant.folded_language) or self.model
            dtype = torch.bfloat16 if variant.is_bfloat16 else self.model.embedding.weight.dtype
            if self.device.type == "cpu":
                model = to_cpu_inference(model, dtype)
            elif variant.is_bfloat16:
                model = copy.deepcopy(model).to(dtype)
            unfolded = {key: value for key, value in self._variants.items() if key.folded_language is None}
            self._variants = unfolded | {variant: model}
        return self._variants[variant]

    def _int8_output_layer(self) -> Int8OutputLayer | None:
        """Return the output layer in 8-bit integers, if this device is a CPU that multiplies them fast."""
        if self._int8_layer is None and self.device.type == "cpu" and supports_int8_output_layer():
            self._int8_layer = Int8OutputLayer(self.model.output_layer.weight_VD.float())
        return self._int8_layer

    def _batches_for_variant(self, variant: _ModelVariant, beam_size: int) -> dict[int, ContinuousBatch]:
        """Return the cached batches of a variant and beam size, and drop all others to free their memory."""
        if (variant, beam_size) not in self._cached_batches:
            self._cached_batches = {(variant, beam_size): {}}
        return self._cached_batches[variant, beam_size]


def _short_block_size(model: Transformer) -> int:
    """Return the number of sentences that a CPU translates within seconds: many with a small model."""
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    return min(DEFAULT_BLOCK_SIZE, max(MIN_SHORT_BLOCK_SIZE, SHORT_BLOCK_PARAMETERS // num_parameters))


def _check_prefixes(request: SearchRequest, model: Transformer) -> None:
    """Raise if a prefix is longer than its translation may be."""
    limit = model.max_output_length(model.tags_by_language()[0]) if request.prefixes else 0
    for source, prefix in zip(request.sources, request.prefixes or (), strict=False):
        if source and len(prefix) > (max_length := min(request.settings.max_output_length(len(source)), limit)):
            raise ManyglotError(
                f"A prefix has {len(prefix)} subwords, but the translation of its sentence may have at most "
                f"{max_length} (decoding.max_length, decoding.max_length_factor)."
            )


def _deduplicate_and_tag(
    sources: Sequence[tuple[int | None, tuple[int, ...]]],
    languages: Sequence[int],
    search: BeamSearch | ContinuousBeamSearch,
) -> tuple[Tensor, list[int] | None]:
    """Return the padded sources with their tags, and the source row of each sentence.

    A source is its language, if the model reads it, and its subwords. Equal sources share a row if guidance does not
    affect the encoder. The rows are None if no source repeats.
    """
    source_rows = None
    if not search.model.guidance.affects_encoder:
        row_by_source: dict[tuple[int | None, tuple[int, ...]], int] = {}
        rows = [row_by_source.setdefault(source, len(row_by_source)) for source in sources]
        source_rows = rows if len(row_by_source) < len(sources) else None
        sources, languages = list(row_by_source), languages[: len(row_by_source)]
    source_languages, subwords = zip(*sources, strict=True)
    return collate_sources(subwords, languages, search.tags, source_languages), source_rows
