"""The native engine: sentences as ids, in any order and number, through a model of ours in batches."""

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
from manyglot.decoding.engine import LINES_AT_ONCE
from manyglot.decoding.sampling import Sampler
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

    def translate_ids(
        self,
        sources: Sequence[Sequence[int]],
        languages: Sequence[int],
        settings: DecodingSettings | None = None,
        *,
        first: int = 0,
        progress: Bar | None = None,
        prefixes: Sequence[Sequence[int]] | None = None,
        best: int | None = None,
    ) -> list[list[Hypothesis]]:
        """The finished hypotheses of each sentence, best first; the best so many, if that is said.

        Sources are subwords without tags and end, languages the ids of the targets. An empty sentence stays empty. A
        source that comes several times, for several targets, is read once where the encoder allows it. Where the
        sentences are part of a longer text, `first` is the place of the first one in it, on which depends what is drawn
        at random. Outputs may be made to begin with given words.
        """
        settings = settings or self.settings
        for source, prefix in zip(sources, prefixes or (), strict=False):
            if source and len(prefix) > settings.limit(len(source)):
                raise ManyglotError(
                    f"A prefix has {len(prefix)} subwords, and the translation of its sentence may have no more than "
                    f"{settings.limit(len(source))} (decoding.max_length, decoding.max_length_ratio)."
                )
        search, drawn = self._search(settings, languages), self._draw(len(sources), first, settings.seed)
        smaller = "max_length" if self._in_slots else "max_tokens"
        instead = f"Lower decoding.{smaller} or decoding.beam, or see what else is in that memory"
        results = [[Hypothesis((), 0.0)] for _ in sources]
        for rows in search.batches(sources):
            targets = [languages[i] for i in rows]
            read, sentences = self._sources([sources[i] for i in rows], targets, search)
            with must_fit(self.device, "A search", instead):
                found = search.search(
                    read.to(self.device),
                    targets,
                    drawn[rows].to(self.device),
                    sentences=sentences,
                    prefixes=None if prefixes is None else [prefixes[i] for i in rows],
                    places=[first + i for i in rows],
                    best=best,
                )
            for i, hypotheses in zip(rows, found, strict=True):
                results[i] = hypotheses
            if progress is not None:
                progress.advance(len(rows))
        return results

    def _search(self, settings: DecodingSettings, languages: Sequence[int]) -> BeamSearch | SlotSearch:
        """Search or draw, with the model or a form of it that is faster."""
        one = self.fold is not None and len(languages) >= MANY and len(set(languages)) == 1
        form = _Form(self._in_half(settings.precision), languages[0] if one else None)
        model, exact_VD = self._form(form), self.model.embedding.weight.detach() if form.half else None
        if settings.temperature is not None:
            return Sampler(model, settings, exact_VD, self.model.tags())
        if self._in_slots:
            return SlotSearch(model, settings, exact_VD, self.model.tags(), self._belts_of(form, settings.beam))
        return BeamSearch(model, settings, exact_VD, self.model.tags())

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

    def _sources(
        self, sources: Sequence[Sequence[int]], languages: Sequence[int], search: BeamSearch | SlotSearch
    ) -> tuple[Tensor, list[int] | None]:
        """The sources with their tags; each once, and which of them each target has, if that is possible."""
        if search.model.guidance.in_encoder:
            return tag_sources(sources, languages, search.tags), None
        numbers: dict[tuple[int, ...], int] = {}
        of_target = [numbers.setdefault(tuple(source), len(numbers)) for source in sources]
        once = tag_sources(list(numbers), languages[: len(numbers)], search.tags)
        return once, of_target if len(numbers) < len(sources) else None

    def _draw(self, number: int, first: int, seed: int) -> Tensor:
        """A random language for each sentence, by the seed and its place, whatever its batch."""
        rng = np.random.Generator(np.random.PCG64(seed).advance(first))
        return torch.from_numpy((rng.random(number) * len(self.languages)).astype(np.int64))
