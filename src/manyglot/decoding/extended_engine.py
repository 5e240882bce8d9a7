"""The engine of models with further languages: each sentence is translated with the subwords of its languages.

A sentence between two original languages is translated by the original model itself, so its result has the same bits as
without language packs. All others need the extended model, whose output is restricted to the subwords of the target
language.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import TypeVar

import torch
from torch import nn

from manyglot.decoding.engine import ScoringRequest, SearchRequest, checked_source_languages
from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.native_engine import NativeEngine
from manyglot.decoding.scored_translation import TranslationScore
from manyglot.decoding.settings import DecodingSettings
from manyglot.model.model_folder import TrainedModel
from manyglot.model.transformer import Transformer
from manyglot.progress import ProgressReporter

IMPOSSIBLE = -1e9
"""The logit of a subword that the target language does not have. Its probability is exactly zero."""
ORIGINAL_MODEL, ORIGINAL_SUBWORDS = "original model", "original subwords"
"""Keys of engines: the original model, and the extended model with the subwords of the original one. The others are
language codes."""

R = TypeVar("R", SearchRequest, ScoringRequest)
T = TypeVar("T")


class ExtendedEngine:
    """Sends each sentence to a native engine for its languages."""

    def __init__(
        self, trained: TrainedModel, settings: DecodingSettings, device: torch.device, *, fold_guidance: bool = False
    ) -> None:
        self.languages, self.default_settings = trained.vocabulary.languages, settings
        self._model, self._subword_model, self._device = (
            trained.model.to(device),
            trained.vocabulary.subword_model,
            device,
        )
        self._original = trained.original
        self._engines: dict[str, NativeEngine] = {}
        if trained.original is not None:
            original = trained.original
            self._engines[ORIGINAL_MODEL] = NativeEngine(
                original.model, original.vocabulary.languages, settings, device, fold_guidance=fold_guidance
            )
        some_engine = next(iter(self._engines.values()), None) or self._engine(ORIGINAL_SUBWORDS)
        self.preferred_block_size, self.short_block_size = (
            some_engine.preferred_block_size,
            some_engine.short_block_size,
        )

    @property
    def reads_source_language(self) -> bool:
        """Whether the model reads the source language."""
        return self._model.settings.source_tag

    def search(self, request: SearchRequest, progress: ProgressReporter | None = None) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of each sentence, best first."""
        return self._by_engine(request, lambda engine, part: engine.search(part, progress))

    def score(self, request: ScoringRequest, progress: ProgressReporter | None = None) -> list[TranslationScore]:
        """Return the scores of given translations."""
        return self._by_engine(request, lambda engine, part: engine.score(part, progress))

    def _by_engine(self, request: R, run: Callable[[NativeEngine, R], Sequence[T]]) -> list[T]:
        """Run each part of a request on its engine. The other sentences of a part are blank and cost nothing."""
        if self.reads_source_language:
            checked_source_languages(request)
        rows_by_engine: dict[str, list[int]] = {}
        sources = request.source_language_ids or [None] * len(request.sources)
        for row, (source, target) in enumerate(zip(sources, request.target_language_ids, strict=True)):
            rows_by_engine.setdefault(self._engine_name(source, target), []).append(row)
        results: dict[int, T] = {}
        for name, rows in rows_by_engine.items():
            part = request.blank_all_except(set(rows))
            if name == ORIGINAL_MODEL:
                part = self._with_original_ids(part)
            outputs = run(self._engine(name), part)
            results |= {row: outputs[row] for row in rows}
        return [results[row] for row in range(len(request.sources))]

    def _engine_name(self, source: int | None, target: int) -> str:
        """Return the engine for a direction."""
        further = self._subword_model.further_languages
        codes = [self.languages.codes[language] for language in (source, target) if language is not None]
        if self._original is not None and all(code in self._original.vocabulary.languages for code in codes):
            return ORIGINAL_MODEL
        return codes[-1] if codes[-1] in further else ORIGINAL_SUBWORDS

    def _with_original_ids(self, request: R) -> R:
        """Return a request with the language ids of the original model. Languages of blank sentences do not matter."""
        assert self._original is not None
        languages = self._original.vocabulary.languages
        ids = [languages.id(code) if code in languages else 0 for code in self.languages]
        sources = request.source_language_ids
        return replace(
            request,
            target_language_ids=[ids[language] for language in request.target_language_ids],
            source_language_ids=sources and [None if each is None else ids[each] for each in sources],
        )

    def _engine(self, name: str) -> NativeEngine:
        """Return an engine by its name. Those of further languages are made when they are needed."""
        if name not in self._engines:
            model = restrict_output(self._model, self._subword_model.ids_of_language(name))
            self._engines[name] = NativeEngine(model, self.languages, self.default_settings, self._device)
        return self._engines[name]


def restrict_output(model: Transformer, ids: Sequence[int]) -> Transformer:
    """Return a model that produces only some subwords and shares all other weights."""
    restricted = copy(model)
    restricted._parameters = dict(model._parameters)
    bias = torch.full((len(model.embedding.weight),), IMPOSSIBLE, device=model.embedding.weight.device)
    index = torch.tensor(list(ids), device=bias.device)
    bias[index] = 0.0 if model.output_bias is None else model.output_bias.detach()[index]
    restricted.output_bias = nn.Parameter(bias, requires_grad=False)
    return restricted
