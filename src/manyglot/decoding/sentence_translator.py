"""Translates sentences: encodes them, searches, pivots, filters off-target outputs, and decodes the results.

The Translator splits texts into sentences and resolves languages; the SentenceTranslator receives codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from manyglot.decoding.engine import Engine, ScoringRequest, SearchRequest
from manyglot.decoding.off_target import OffTargetFilter
from manyglot.decoding.scored_translation import Translation, TranslationScore
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import ManyglotError
from manyglot.progress import ProgressReporter
from manyglot.vocabulary.subword_model import UNK
from manyglot.vocabulary.vocabulary import Vocabulary


@dataclass(frozen=True)
class SentenceTranslator:
    """An engine with its vocabulary and everything that shapes a search."""

    engine: Engine
    vocabulary: Vocabulary
    settings: DecodingSettings
    pivot_code: str | None = None
    """The code of the pivot language; None translates directly."""
    off_target_filter: OffTargetFilter | None = None

    def translate(
        self,
        sentences: Sequence[str],
        targets: Sequence[str],
        source_languages: Sequence[str | None],
        n: int,
        prefixes: Sequence[str] | None = None,
        sentence_offset: int = 0,
        progress: ProgressReporter | None = None,
    ) -> list[list[Translation]]:
        """Return the n best translations of each sentence. Targets and source languages are codes."""
        if self.pivot_code is not None:
            sentences, source_languages = self._translate_to_pivot(
                sentences, targets, source_languages, self.pivot_code, sentence_offset
            )
        request = SearchRequest(
            sources=self.vocabulary.encode(sentences, source_languages),
            target_language_ids=[self.engine.languages.id(code) for code in targets],
            settings=self._settings_for_n_best(n),
            prefixes=None if prefixes is None else self._encode_prefixes(prefixes, targets),
            num_hypotheses=1 if n == 1 else None,
            sentence_offset=sentence_offset,
            source_language_ids=self._source_language_ids(source_languages),
        )
        hypotheses = self._search(request, n, progress)
        if self.off_target_filter is None:
            return hypotheses

        def search_wider(rows: Sequence[int], beam_size: int) -> list[list[Translation]]:
            """Search some sentences again with a larger beam, and return all hypotheses."""
            wide = max(beam_size, n)
            wider = replace(
                request.blank_all_except(set(rows)), settings=self._settings_for_n_best(wide), num_hypotheses=None
            )
            alternatives = self._search(wider, wide)
            return [alternatives[row] for row in rows]

        corrected = self.off_target_filter.correct(hypotheses, targets, self.settings.beam_size, search_wider)
        return [n_best[:n] for n_best in corrected]

    def score(
        self,
        sentences: Sequence[str],
        translations: Sequence[str],
        targets: Sequence[str],
        source_languages: Sequence[str | None],
        sentence_offset: int = 0,
        progress: ProgressReporter | None = None,
    ) -> list[TranslationScore]:
        """Return the scores of given translations. With a pivot, they are translations of the text in the pivot."""
        if self.pivot_code is not None:
            sentences, source_languages = self._translate_to_pivot(
                sentences, targets, source_languages, self.pivot_code, sentence_offset
            )
        request = ScoringRequest(
            sources=self.vocabulary.encode(sentences, source_languages),
            translations=self.vocabulary.encode_targets(translations, targets),
            target_language_ids=[self.engine.languages.id(code) for code in targets],
            settings=self.settings,
            sentence_offset=sentence_offset,
            source_language_ids=self._source_language_ids(source_languages),
        )
        return self.engine.score(request, progress)

    def _translate_to_pivot(
        self,
        sentences: Sequence[str],
        targets: Sequence[str],
        source_languages: Sequence[str | None],
        pivot: str,
        sentence_offset: int,
    ) -> tuple[list[str], list[str | None]]:
        """Translate sentences into the pivot language, unless it is their source or target language.

        Return the sentences to translate from now on, and their languages. Equal sentences are translated once.
        """
        is_direct = [pivot in languages for languages in zip(source_languages, targets, strict=True)]
        keys = list(zip(sentences, source_languages, strict=True))
        first_row: dict[tuple[str, str | None], int] = {}
        for row, key in enumerate(keys):
            if not is_direct[row]:
                first_row.setdefault(key, row)
        unique = [key[0] if first_row.get(key) == row else "" for row, key in enumerate(keys)]
        in_pivot = replace(self, pivot_code=None).translate(
            unique, [pivot] * len(unique), source_languages, 1, sentence_offset=sentence_offset
        )
        rows = list(zip(keys, is_direct, strict=True))
        return (
            [key[0] if direct else in_pivot[first_row[key]][0].text for key, direct in rows],
            [key[1] if direct else pivot for key, direct in rows],
        )

    def _source_language_ids(self, codes: Sequence[str | None]) -> list[int | None]:
        return [None if code is None else self.engine.languages.id(code) for code in codes]

    def _encode_prefixes(self, prefixes: Sequence[str], targets: Sequence[str]) -> list[list[int]]:
        """Return the subword ids of the prefixes. Raise if a prefix is not in the vocabulary."""
        encoded = self.vocabulary.encode_targets(prefixes, targets)
        for prefix, ids in zip(prefixes, encoded, strict=True):
            if UNK in ids:
                raise ManyglotError(f"The prefix {prefix!r} has characters that are not in the model's vocabulary.")
        return encoded

    def _settings_for_n_best(self, n: int) -> DecodingSettings:
        """Return the settings with a beam size of at least n."""
        if n < 1:
            raise ManyglotError(f"The number of translations is {n}; it must be at least 1.")
        return self.settings if n <= self.settings.beam_size else self.settings.with_beam_size_and_scaled_batch(n)

    def _search(
        self, request: SearchRequest, n: int, progress: ProgressReporter | None = None
    ) -> list[list[Translation]]:
        """Return the n best distinct translations of each sentence."""
        results = self.engine.search(request, progress)
        if not all(results):
            raise ManyglotError(
                "The model's scores are NaN or infinite, so it cannot translate. Its weights are damaged or too large."
            )
        texts = iter(self.vocabulary.decode([hypothesis.ids for hypotheses in results for hypothesis in hypotheses]))
        return [_drop_duplicates([Translation(next(texts), h.score) for h in hypotheses])[:n] for hypotheses in results]


def _drop_duplicates(translations: Iterable[Translation]) -> list[Translation]:
    """Drop translations whose text equals that of a better one with other subwords."""
    best: dict[str, Translation] = {}
    for translation in translations:
        best.setdefault(translation.text, translation)
    return list(best.values())
