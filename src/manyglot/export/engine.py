"""The engine: translates with exported models, in place of the beam search with a model of ours."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from manyglot.corpus.languages import Languages
from manyglot.decoding.beam import DecodingSettings, Hypothesis
from manyglot.errors import FolderError, LanguageError
from manyglot.export.exported import ExportedModel
from manyglot.export.manifest import MANIFEST, read_manifest


class Engine:
    """Translates with the models of an export, each of which serves some of the target languages."""

    def __init__(self, models: Iterable[ExportedModel]) -> None:
        self.models = list(models)
        self.languages = Languages(self.models[0].manifest.languages)
        self._of_language = {self.languages.id(code): m for m in self.models for code in m.manifest.targets}

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        device: str = "cpu",
        inter_threads: int | None = None,
        intra_threads: int = 1,
    ) -> Engine:
        """Open the folder of an export: a model, or a folder with one for each of several languages.

        All cores are used, unless it is said how many batches are translated at once (inter) by how many threads each
        (intra).
        """
        folder = Path(folder)
        below = sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))
        folders = below if below and not (folder / MANIFEST).exists() else [folder]
        manifests = [read_manifest(each) for each in folders]
        if len({manifest.languages for manifest in manifests}) > 1:
            raise FolderError(f"The models in {folder} are not of one export: they have different languages.")
        cores = len(os.sched_getaffinity(0))
        threads = inter_threads or (max(1, cores // intra_threads) if device == "cpu" else 1), intra_threads
        return cls(ExportedModel(*each, device, threads) for each in zip(folders, manifests, strict=True))

    @property
    def settings(self) -> DecodingSettings:
        """The search that the model was trained with."""
        return self.models[0].manifest.decoding

    @property
    def targets(self) -> tuple[str, ...]:
        """The languages that it translates into, by their codes."""
        return tuple(self.languages.codes[i] for i in sorted(self._of_language))

    def translate_ids(
        self, sources: Sequence[Sequence[int]], languages: Sequence[int], settings: DecodingSettings | None = None
    ) -> list[list[Hypothesis]]:
        """The finished hypotheses of each sentence, best first.

        Sources are subwords without tags and end, languages the ids of the targets. An empty sentence stays empty.
        """
        rows_of: dict[ExportedModel, list[int]] = defaultdict(list)
        for row, (source, language) in enumerate(zip(sources, languages, strict=True)):
            if language not in self._of_language:
                name = f"'{self.languages.codes[language]}'" if language in range(len(self.languages)) else language
                raise LanguageError(f"The model was not exported for {name}. It is for {', '.join(self.targets)}.")
            if source:
                rows_of[self._of_language[language]].append(row)
        results = [[Hypothesis((), 0.0)] for _ in sources]
        for model, rows in rows_of.items():
            codes = [self.languages.codes[languages[row]] for row in rows]
            found = model.search([sources[row] for row in rows], codes, settings or self.settings)
            for row, hypotheses in zip(rows, found, strict=True):
                results[row] = hypotheses
        return results
