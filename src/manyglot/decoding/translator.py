"""The Translator: text in, text out, in any of the model's languages; tags are its business, not the caller's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from manyglot.corpus.languages import Languages
from manyglot.corpus.textfiles import one_line
from manyglot.decoding.beam import DecodingSettings
from manyglot.decoding.native import NativeEngine
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
        self.engine = NativeEngine(self.model, self.languages, settings, device)

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
        found = self.engine.translate_ids(sources, languages, first=first, progress=progress)
        return self.vocabulary.decode([hypotheses[0].ids for hypotheses in found])
