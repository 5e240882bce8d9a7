"""The native engine: sentences as ids, in any order and number, through a model of ours in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from manyglot.batches.batch import tag_sources
from manyglot.corpus.languages import Languages
from manyglot.decoding.beam import BeamSearch, DecodingSettings, Hypothesis
from manyglot.model.transformer import Transformer
from manyglot.progress import Bar


class NativeEngine:
    """Searches with a model of ours on a device."""

    def __init__(
        self, model: Transformer, languages: Languages, settings: DecodingSettings, device: torch.device
    ) -> None:
        self.model, self.languages, self.settings, self.device = model.to(device).eval(), languages, settings, device

    def translate_ids(
        self,
        sources: Sequence[Sequence[int]],
        languages: Sequence[int],
        settings: DecodingSettings | None = None,
        *,
        first: int = 0,
        progress: Bar | None = None,
    ) -> list[list[Hypothesis]]:
        """The finished hypotheses of each sentence, best first.

        Sources are subwords without tags and end, languages the ids of the targets. An empty sentence stays empty.
        Where the sentences are part of a longer text, `first` is the place of the first one in it, on which depends
        what guidance draws at random.
        """
        settings = settings or self.settings
        search, drawn = BeamSearch(self.model, settings), self._draw(len(sources), first, settings.seed)
        results = [[Hypothesis((), 0.0)] for _ in sources]
        for rows in _batches(sources, settings):
            source_BS = tag_sources([sources[i] for i in rows], [languages[i] for i in rows], search.tags)
            found = search.search(source_BS.to(self.device), [languages[i] for i in rows], drawn[rows].to(self.device))
            for i, hypotheses in zip(rows, found, strict=True):
                results[i] = hypotheses
            if progress is not None:
                progress.advance(len(rows))
        return results

    def _draw(self, number: int, first: int, seed: int) -> Tensor:
        """A random language for each sentence, by the seed and its place, whatever its batch."""
        rng = np.random.Generator(np.random.PCG64(seed).advance(first))
        return torch.from_numpy((rng.random(number) * len(self.languages)).astype(np.int64))


def _batches(sources: Sequence[Sequence[int]], settings: DecodingSettings) -> Iterator[list[int]]:
    """Sentences that are not empty, longest first, in batches that keep the budget."""
    rows = sorted((i for i, source in enumerate(sources) if source), key=lambda i: -len(sources[i]))
    batch: list[int] = []
    for i in rows:
        too_large = batch and (len(batch) + 1) * len(sources[batch[0]]) > settings.max_tokens
        if too_large or len(batch) == settings.max_sentences:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
