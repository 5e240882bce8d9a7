"""The engine for exports: searches with CTranslate2 models, each for one target language or for several."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from manyglot.batches.source_lengths import SourceLengths
from manyglot.corpus.languages import Languages
from manyglot.decoding.ctranslate2 import import_ctranslate2
from manyglot.decoding.ctranslate2.manifest import MANIFEST_NAME, read_and_verify_manifest
from manyglot.decoding.ctranslate2.model import CTranslate2Model
from manyglot.decoding.engine import DEFAULT_BLOCK_SIZE, ScoringRequest, SearchRequest
from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.scored_translation import TranslationScore
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import FolderError, LanguageError, ManyglotError
from manyglot.progress import ProgressReporter
from manyglot.vocabulary.loading import load_subword_model
from manyglot.vocabulary.vocabulary import Vocabulary


class CTranslate2Engine:
    """Searches for translations with the models of an export. Each model serves one or more target languages."""

    def __init__(self, models: Iterable[CTranslate2Model]) -> None:
        self.models = list(models)
        self.preferred_block_size = self.short_block_size = DEFAULT_BLOCK_SIZE
        self.languages = Languages(self.models[0].manifest.languages)
        self._model_by_language = {self.languages.id(code): m for m in self.models for code in m.manifest.targets}

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        device: str = "cpu",
        inter_threads: int | None = None,
        intra_threads: int = 1,
    ) -> CTranslate2Engine:
        """Load an export: one model folder, or a folder with one subfolder per target language.

        `inter_threads` batches run in parallel, each on `intra_threads` threads. By default all cores are used. The
        device `auto` is a GPU if CTranslate2 can use one.
        """
        folder = Path(folder)
        subfolders = sorted(path.parent for path in folder.glob(f"*/{MANIFEST_NAME}"))
        folders = subfolders if subfolders and not (folder / MANIFEST_NAME).exists() else [folder]
        manifests = [read_and_verify_manifest(path) for path in folders]
        if len({manifest.languages for manifest in manifests}) > 1:
            raise FolderError(f"The models in {folder} come from different exports: their languages differ.")
        served = [code for manifest in manifests for code in manifest.targets]
        if len(set(served)) < len(served):
            names = ", ".join(str(path) for path in folders)
            raise FolderError(f"{folder} holds several exports for the same languages. Give one of them: {names}.")
        if device == "auto":
            device = "cuda" if import_ctranslate2().get_cuda_device_count() else "cpu"
        cores = len(os.sched_getaffinity(0))
        threads = inter_threads or (max(1, cores // intra_threads) if device == "cpu" else 1), intra_threads
        return cls(
            CTranslate2Model(path, manifest, device, threads) for path, manifest in zip(folders, manifests, strict=True)
        )

    @property
    def vocabulary(self) -> Vocabulary:
        """The subwords and languages of the model."""
        model = self.models[0]
        vocabulary = Vocabulary(load_subword_model(model.folder / "subwords.model"), self.languages)
        if len(vocabulary) != len(model.names):
            raise FolderError(f"{model.folder}: the subwords do not fit the vocabulary. Export the model again.")
        return vocabulary

    @property
    def default_settings(self) -> DecodingSettings:
        """The decoding settings stored with the model."""
        return self.models[0].manifest.decoding

    @property
    def reads_source_language(self) -> bool:
        """Whether the model reads the source language."""
        return bool(self.models[0].manifest.source_language_tags)

    @property
    def source_lengths(self) -> SourceLengths:
        """The lengths of the training text, stored with the model."""
        return self.models[0].manifest.source_lengths

    @property
    def targets(self) -> tuple[str, ...]:
        """Codes of the exported target languages."""
        return tuple(self.languages.codes[i] for i in sorted(self._model_by_language))

    def search(self, request: SearchRequest, progress: ProgressReporter | None = None) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of each sentence, best first.

        The sentence offset has no effect, because guidance that samples languages cannot be exported.
        """
        settings = request.settings
        if request.prefixes is not None or settings.temperature is not None:
            raise ManyglotError("Exports support neither prefixes nor sampling. Use the model folder.")
        results = [[Hypothesis((), 0.0)] for _ in request.sources]
        nonempty = [row for row, source in enumerate(request.sources) if source]
        for model, rows in self._rows_by_model(nonempty, request.target_language_ids).items():
            codes = [self.languages.codes[request.target_language_ids[row]] for row in rows]
            sources = model.tag_sources(request, rows, codes)
            model_results = model.search(sources, codes, settings)
            for row, hypotheses in zip(rows, model_results, strict=True):
                results[row] = hypotheses[: request.num_hypotheses]
            if progress is not None:
                progress.advance(len(rows))
        return results

    def score(self, request: ScoringRequest, progress: ProgressReporter | None = None) -> list[TranslationScore]:
        """Return the scores of given translations."""
        scores = [TranslationScore(0.0, 0.0)] * len(request.sources)
        every_row = range(len(request.sources))
        for model, rows in self._rows_by_model(every_row, request.target_language_ids).items():
            codes = [self.languages.codes[request.target_language_ids[row]] for row in rows]
            sources = model.tag_sources(request, rows, codes)
            translations = [request.translations[row] for row in rows]
            model_scores = model.score(sources, translations, codes, request.settings)
            for row, score in zip(rows, model_scores, strict=True):
                scores[row] = score
            if progress is not None:
                progress.advance(len(rows))
        return scores

    def _rows_by_model(
        self, rows: Iterable[int], target_language_ids: Sequence[int]
    ) -> dict[CTranslate2Model, list[int]]:
        """Group rows by the model that serves their target language. Raise if a target language was not exported."""
        rows_by_model: dict[CTranslate2Model, list[int]] = defaultdict(list)
        for language in target_language_ids:
            if language not in self._model_by_language:
                name = f"'{self.languages.codes[language]}'" if language in range(len(self.languages)) else language
                targets = ", ".join(self.targets)
                raise LanguageError(f"The model was not exported for {name}. Exported target languages: {targets}.")
        for row in rows:
            rows_by_model[self._model_by_language[target_language_ids[row]]].append(row)
        return rows_by_model
