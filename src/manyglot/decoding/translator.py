"""The Translator: text in, text out, in any of the model's languages; tags are its business, not the caller's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyglot.batches.batch import tag_sources
from manyglot.corpus.languages import Languages
from manyglot.corpus.textfiles import one_line
from manyglot.decoding.beam import BeamSearch, DecodingSettings
from manyglot.devices import find_device
from manyglot.errors import ManyglotError
from manyglot.model.folder import TrainedModel, load_model
from manyglot.progress import Bar
from manyglot.settings import parse


class Translator:
    """Translates with a trained model."""

    def __init__(self, trained: TrainedModel, settings: DecodingSettings, device: torch.device) -> None:
        self.trained, self.settings, self.device = trained, settings, device
        self.model, self.vocabulary = trained.model.to(device).eval(), trained.vocabulary

    @classmethod
    def load(cls, folder: str | os.PathLike[str], device: str = "auto") -> Translator:
        """Open a model folder."""
        trained = load_model(Path(folder))
        settings = parse(DecodingSettings, trained.config.get("decoding", {}), where="decoding")
        return cls(trained, settings, find_device(device))

    @property
    def languages(self) -> Languages:
        """The languages the model can translate into."""
        return self.vocabulary.languages

    def with_settings(self, **changes: Any) -> Translator:
        """The same model with other decoding settings, for example `beam=1`."""
        settings = parse(DecodingSettings, self.settings.model_dump() | changes, where="decoding")
        return Translator(self.trained, settings, self.device)

    def translate(
        self, texts: Iterable[str], to: str | Sequence[str], progress: Bar | None = None, first: int = 0
    ) -> list[str]:
        """Translate sentences into one language, or each into its own when `to` is a list.

        An empty line stays empty; order and number are those of the input. Where the sentences are part of a longer
        text, `first` is the place of the first one in it, on which depends what guidance draws at random.
        """
        if isinstance(texts, str):
            raise ManyglotError("translate takes a list of sentences; put the sentence into one: [text].")
        texts = list(texts)
        targets = [to] * len(texts) if isinstance(to, str) else list(to)
        if len(targets) != len(texts):
            raise ManyglotError(f"There are {len(texts)} sentences and {len(targets)} target languages.")
        languages = [self.languages.id(code) for code in targets]
        sources = self.vocabulary.encode([one_line(text) for text in texts])
        drawn = self._draw(len(texts), first)
        outputs = [""] * len(texts)
        search = BeamSearch(self.model, self.settings)
        for rows in self._batches(sources):
            source_BS = tag_sources([sources[i] for i in rows], [languages[i] for i in rows], search.tags)
            found = search.search(source_BS.to(self.device), [languages[i] for i in rows], drawn[rows].to(self.device))
            for i, text in zip(rows, self.vocabulary.decode([hypotheses[0].ids for hypotheses in found]), strict=True):
                outputs[i] = text
            if progress is not None:
                progress.advance(len(rows))
        return outputs

    def _draw(self, number: int, first: int) -> Tensor:
        """A random language for each sentence, by the seed and its place, whatever its batch."""
        rng = np.random.Generator(np.random.PCG64(self.settings.seed).advance(first))
        return torch.from_numpy((rng.random(number) * len(self.languages)).astype(np.int64))

    def _batches(self, sources: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Sentences that are not empty, longest first, in batches that keep the budget."""
        rows = sorted((i for i, source in enumerate(sources) if source), key=lambda i: -len(sources[i]))
        batch: list[int] = []
        for i in rows:
            too_large = batch and (len(batch) + 1) * len(sources[batch[0]]) > self.settings.max_tokens
            if too_large or len(batch) == self.settings.max_sentences:
                yield batch
                batch = []
            batch.append(i)
        if batch:
            yield batch
