"""The native engine: searches with a PyTorch model, in batches of sentences of similar length."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from manyglot.batches.batch import tag_sources
from manyglot.corpus.languages import Languages
from manyglot.decoding.beam import BeamSearch, DecodingSettings, Hypothesis
from manyglot.decoding.belt import Belt
from manyglot.decoding.engine import LINES_AT_ONCE, SearchRequest
from manyglot.decoding.sampling import Sampler
from manyglot.decoding.search_batch import SearchBatch
from manyglot.decoding.slots import SlotSearch
from manyglot.devices import Precision, cpu_has_half, in_half, must_fit
from manyglot.errors import ManyglotError
from manyglot.model.kernels import have_kernels
from manyglot.model.transformer import Transformer
from manyglot.progress import Bar

LINES_IN_SLOTS = 16_384
"""Sentences of a stream for which a GPU is not idle for long while the last of them end."""
MANY = 500
"""Sentences for which it pays to fold a model."""
WIDE = 512
"""The width of a model from which on bfloat16 is faster on a CPU with instructions for it."""
Fold = Callable[[Transformer, int], Transformer | None]
"""Makes a model for one target language that does the same with less work; or says that it cannot."""


class _Form(NamedTuple):
    """A form of the model."""

    half: bool
    language: int | None
    """Folded for one language."""


class NativeEngine:
    """Searches with a model of ours on a device."""

    def __init__(
        self,
        model: Transformer,
        languages: Languages,
        settings: DecodingSettings,
        device: torch.device,
        fold: Fold | None = None,
    ) -> None:
        self.model, self.languages, self.settings, self.device = model.to(device).eval(), languages, settings, device
        self.fold, self._in_slots = fold, device.type == "cuda" and have_kernels()
        self.at_once = LINES_IN_SLOTS if self._in_slots else LINES_AT_ONCE
        self._forms: dict[_Form, Transformer] = {}
        self._belts: dict[tuple[_Form, int], dict[int, Belt]] = {}

    def search(self, request: SearchRequest, progress: Bar | None = None) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of each sentence, best first.

        The encoder reads a source with several target languages only once, unless guidance acts in the encoder.
        """
        _check_prefixes(request)
        search, random_lang_B = self._search(request), self._random_languages(request)
        smaller = "max_length" if self._in_slots else "max_tokens"
        instead = f"Lower decoding.{smaller} or decoding.beam, or see what else is in that memory"
        results = [[Hypothesis((), 0.0)] for _ in request.sources]
        for rows in search.batches(request.sources):
            batch = self._batch(request, rows, search, random_lang_B[rows])
            with must_fit(self.device, "A search", instead):
                found = search.search(batch)
            for row, hypotheses in zip(rows, found, strict=True):
                results[row] = hypotheses
            if progress is not None:
                progress.advance(len(rows))
        return results

    def _search(self, request: SearchRequest) -> BeamSearch | SlotSearch:
        """Return a beam search or a sampler, with the model or a faster form of it."""
        settings, languages = request.settings, request.languages
        one = self.fold is not None and len(languages) >= MANY and len(set(languages)) == 1
        form = _Form(self._in_half(settings.precision), languages[0] if one else None)
        model, exact_VD = self._form(form), self.model.embedding.weight.detach() if form.half else None
        if settings.temperature is not None:
            return Sampler(model, settings, exact_VD, self.model.tags())
        if self._in_slots:
            return SlotSearch(model, settings, exact_VD, self.model.tags(), self._belts_of(form, settings.beam))
        return BeamSearch(model, settings, exact_VD, self.model.tags())

    def _batch(
        self, request: SearchRequest, rows: Sequence[int], search: BeamSearch | SlotSearch, random_lang_B: Tensor
    ) -> SearchBatch:
        """Put some sentences of a request on the device, with their tags."""
        languages = [request.languages[row] for row in rows]
        source_RS, source_rows = _tagged([request.sources[row] for row in rows], languages, search)
        return SearchBatch(
            source_RS=source_RS.to(self.device),
            languages=languages,
            random_lang_B=random_lang_B.to(self.device),
            source_rows=source_rows,
            prefixes=None if request.prefixes is None else [request.prefixes[row] for row in rows],
            sentence_numbers=[request.offset + row for row in rows],
            num_hypotheses=request.num_hypotheses,
        )

    def _random_languages(self, request: SearchRequest) -> Tensor:
        """Sample a language for each sentence, by the seed and its place in the text, whatever its batch."""
        rng = np.random.Generator(np.random.PCG64(request.settings.seed).advance(request.offset))
        return torch.from_numpy((rng.random(len(request.sources)) * len(self.languages)).astype(np.int64))

    def _in_half(self, precision: Precision) -> bool:
        """Whether to compute in bfloat16; on a CPU, unless it is said, where that is faster."""
        if precision != "auto" or self.device.type != "cpu":
            return in_half(self.device, precision)
        weight_VD = self.model.embedding.weight
        return cpu_has_half() and weight_VD.dtype == torch.float32 and weight_VD.shape[1] >= WIDE

    def _form(self, form: _Form) -> Transformer:
        """The model, in half precision or folded for one language; of the folded ones the last is kept."""
        half, language = form
        if form not in self._forms:
            folded = self.fold(self.model, language) if self.fold is not None and language is not None else None
            model = folded or self.model
            kept = {key: value for key, value in self._forms.items() if key.language is None}
            self._forms = kept | {form: copy.deepcopy(model).to(torch.bfloat16) if half else model}
        return self._forms[form]

    def _belts_of(self, form: _Form, beam: int) -> dict[int, Belt]:
        """Those for a form of the model; for another there would be no room."""
        if (form, beam) not in self._belts:
            self._belts = {(form, beam): {}}
        return self._belts[form, beam]


def _check_prefixes(request: SearchRequest) -> None:
    """Refuse a prefix that is longer than its translation may be."""
    for source, prefix in zip(request.sources, request.prefixes or (), strict=False):
        if source and len(prefix) > (limit := request.settings.limit(len(source))):
            raise ManyglotError(
                f"A prefix has {len(prefix)} subwords, and the translation of its sentence may have no more than "
                f"{limit} (decoding.max_length, decoding.max_length_ratio)."
            )


def _tagged(
    sources: Sequence[Sequence[int]], languages: Sequence[int], search: BeamSearch | SlotSearch
) -> tuple[Tensor, list[int] | None]:
    """Return the padded sources with their tags, and the row of each sentence where equal sources share one."""
    if search.model.guidance.in_encoder:
        return tag_sources(sources, languages, search.tags), None
    row_of: dict[tuple[int, ...], int] = {}
    source_rows = [row_of.setdefault(tuple(source), len(row_of)) for source in sources]
    source_RS = tag_sources(list(row_of), languages[: len(row_of)], search.tags)
    return source_RS, source_rows if len(row_of) < len(sources) else None
