"""The Translator: translates text between any of the model's languages. Callers never see language tags."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyglot.config.base_settings import parse_settings
from manyglot.corpus.languages import Languages
from manyglot.corpus.textfiles import to_single_line
from manyglot.decoding.engine import Engine, SearchRequest
from manyglot.decoding.off_target import OffTargetFilter
from manyglot.decoding.scored_translation import Translation
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import LanguageError, ManyglotError
from manyglot.langid.identifier import OffTargetDetector
from manyglot.progress import ProgressReporter
from manyglot.vocabulary.subword_model import UNK
from manyglot.vocabulary.vocabulary import Vocabulary

if TYPE_CHECKING:
    import torch

    from manyglot.model.model_folder import TrainedModel


class Translator:
    """Translates text with an engine.

        model = manyglot.load("demo-run/run/model")
        model.translate(["in 3 weeks", "3 kilometers"], to="de")
        model.translate_n_best(["in 3 weeks"], to="German", n=3)
        model.translate_to_all(["in 3 weeks"])
        for sentence in model.translate_stream(open("news.txt"), to="de"): ...

    Languages can be given as de, deu, de-DE, German or Deutsch. The sentences may be in any mix of the model's
    languages. There is one translation per sentence, in the same order, and an empty sentence stays empty.
    """

    def __init__(self, engine: Engine, vocabulary: Vocabulary, targets: Iterable[str] | None = None) -> None:
        self.engine, self.vocabulary, self.settings = engine, vocabulary, engine.default_settings
        self.languages = engine.languages if targets is None else Languages(targets)
        """The languages it translates into."""
        self.off_target_filter: OffTargetFilter | None = None

    @classmethod
    def from_trained_model(
        cls,
        trained: TrainedModel,
        settings: DecodingSettings,
        device: torch.device,
        fold_guidance: bool = False,
    ) -> Translator:
        """Make a translator with the native engine. `fold_guidance` speeds up many sentences into one language."""
        from manyglot.decoding.native_engine import NativeEngine  # imports torch, which exports do without

        engine = NativeEngine(
            trained.model, trained.vocabulary.languages, settings, device, fold_guidance=fold_guidance
        )
        return cls(engine, trained.vocabulary)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], device: str = "auto", fold_guidance: bool = False) -> Translator:
        """Load a translator from a model folder, a run folder or a checkpoint, with the native engine."""
        from manyglot.devices import find_device  # these import torch, which exports do without
        from manyglot.model.run_models import load_any_model

        trained = load_any_model(Path(folder))
        return cls.from_trained_model(trained, saved_decoding_settings(trained), find_device(device), fold_guidance)

    def with_settings(self, **changes: Any) -> Translator:
        """Return a copy with other decoding settings, for example `beam_size=1`. Both share the model."""
        other = copy(self)
        other.settings = parse_settings(DecodingSettings, self.settings.model_dump() | changes, parent_name="decoding")
        return other

    def with_off_target_filter(self, identify: OffTargetDetector | None) -> Translator:
        """Return a copy with an `OffTargetFilter` for its outputs. None removes the filter. Both share the model."""
        other = copy(self)
        other.off_target_filter = None if identify is None else OffTargetFilter(identify)
        return other

    @property
    def pivot_code(self) -> str | None:
        """The code of the pivot language, or None if translation is direct."""
        try:
            return None if self.settings.pivot is None else self.languages.find_code(self.settings.pivot)
        except LanguageError as error:
            raise LanguageError(f"decoding.pivot: {error}") from None

    def translate(
        self,
        texts: Iterable[str],
        to: str | Sequence[str],
        *,
        prefixes: Sequence[str] | None = None,
        sentence_offset: int = 0,
        progress: ProgressReporter | None = None,
    ) -> list[str]:
        """Translate sentences into one language, or each into its own if `to` is a list.

        If `prefixes` are given, each translation begins with its prefix. If a text is translated in several calls,
        `sentence_offset` is the number of sentences in earlier calls. Sampling depends on a sentence's index in the
        text.
        """
        n_best = self.translate_n_best(
            texts, to, 1, prefixes=prefixes, sentence_offset=sentence_offset, progress=progress
        )
        return [translations[0].text for translations in n_best]

    def translate_to_all(self, texts: Iterable[str], to: Iterable[str] | None = None) -> dict[str, list[str]]:
        """Translate all sentences into several languages, by default all, and return the translations by code."""
        texts, names = (
            list(_reject_single_string(texts)),
            self.languages if to is None else [to] if isinstance(to, str) else to,
        )
        codes = list(dict.fromkeys(self.languages.find_code(name) for name in names))
        outputs = iter(self.translate(texts * len(codes), [code for code in codes for _ in texts]))
        return {code: list(islice(outputs, len(texts))) for code in codes}

    def translate_stream(self, texts: Iterable[str], to: str | Iterable[str]) -> Iterator[str]:
        """Translate a stream of sentences lazily and in constant memory. The stream may be endless.

        Sentences are read in blocks, when their translations are requested. `to` is a language, or an iterable with one
        language per sentence.
        """
        if isinstance(to, str):
            to = self.languages.find_code(to)  # raise now if it is unknown, not when the first block is read
        return self._stream(iter(_reject_single_string(texts)), repeat(to) if isinstance(to, str) else iter(to))

    def _stream(self, texts: Iterator[str], targets: Iterator[str]) -> Iterator[str]:
        sentence_offset = 0
        while block := list(islice(texts, self.engine.preferred_block_size)):
            yield from self.translate(block, list(islice(targets, len(block))), sentence_offset=sentence_offset)
            sentence_offset += len(block)

    def translate_n_best(
        self,
        texts: Iterable[str],
        to: str | Sequence[str],
        n: int = 5,
        *,
        prefixes: Sequence[str] | None = None,
        sentence_offset: int = 0,
        progress: ProgressReporter | None = None,
    ) -> list[list[Translation]]:
        """Return the n best translations of each sentence, best first, with their scores.

        The beam size is at least n. The translations of a sentence are distinct, so there may be fewer than n. Scores
        rank the translations of one sentence; between sentences they are only roughly comparable. See `translate` for
        the other arguments.
        """
        lines = [to_single_line(_clean_sentence(text)) for text in _reject_single_string(texts)]
        targets = self._target_codes(to, len(lines))
        if self.pivot_code is not None:
            lines = self._translate_to_pivot(lines, targets, self.pivot_code, sentence_offset)
        request = SearchRequest(
            sources=self.vocabulary.encode(lines),
            target_language_ids=[self.engine.languages.id(code) for code in targets],
            settings=self._settings_for_n_best(n),
            prefixes=None if prefixes is None else self._encode_prefixes(prefixes, len(lines)),
            num_hypotheses=1 if n == 1 else None,
            sentence_offset=sentence_offset,
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

    def _translate_to_pivot(
        self, texts: Sequence[str], targets: Sequence[str], pivot: str, sentence_offset: int
    ) -> list[str]:
        """Translate sentences into the pivot language, unless it is their target. Equal ones are translated once."""
        first_row: dict[str, int] = {}
        for row, (text, target) in enumerate(zip(texts, targets, strict=True)):
            if target != pivot:
                first_row.setdefault(text, row)
        unique = [text if first_row.get(text) == row else "" for row, text in enumerate(texts)]
        in_pivot = self.with_settings(pivot=None).translate(unique, pivot, sentence_offset=sentence_offset)
        return [
            text if target == pivot else in_pivot[first_row[text]] for text, target in zip(texts, targets, strict=True)
        ]

    def _encode_prefixes(self, prefixes: Sequence[str], num_sentences: int) -> list[list[int]]:
        """Return the subword ids of the prefixes. Raise if a prefix is not in the vocabulary."""
        if len(prefixes) != num_sentences:
            raise ManyglotError(f"There are {num_sentences} sentences and {len(prefixes)} prefixes.")
        encoded = self.vocabulary.encode([_clean_sentence(prefix) for prefix in prefixes])
        for prefix, ids in zip(prefixes, encoded, strict=True):
            if UNK in ids:
                raise ManyglotError(f"The prefix {prefix!r} has characters that are not in the model's vocabulary.")
        return encoded

    def _target_codes(self, to: str | Sequence[str], num_sentences: int) -> list[str]:
        """Return the code of each sentence's target language."""
        if isinstance(to, str):
            return [self.languages.find_code(to)] * num_sentences
        if not isinstance(to, Sequence):
            raise ManyglotError(f"`to` must be a language such as 'de' or a list of one per sentence; got {to!r}.")
        if len(to) != num_sentences:
            raise ManyglotError(f"There are {num_sentences} sentences and {len(to)} target languages.")
        return [self.languages.find_code(name) for name in to]

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
        texts = iter(self.vocabulary.decode([hypothesis.ids for hypotheses in results for hypothesis in hypotheses]))
        return [_drop_duplicates([Translation(next(texts), h.score) for h in hypotheses])[:n] for hypotheses in results]


def saved_decoding_settings(trained: TrainedModel) -> DecodingSettings:
    """Return the decoding settings stored with a model."""
    return parse_settings(DecodingSettings, trained.config.get("decoding", {}), parent_name="decoding")


def _reject_single_string(texts: Iterable[str]) -> Iterable[str]:
    """Return the sentences. Raise if they are a single string, which would be split into characters."""
    if isinstance(texts, str):
        raise ManyglotError("translate takes a list of sentences, not a string. Pass [text].")
    return texts


def _clean_sentence(text: str) -> str:
    """Return the text with lone surrogates replaced. Raise if it is not a string."""
    if not isinstance(text, str):
        raise ManyglotError(f"Sentences must be str, but one is {type(text).__name__}: {text!r:.60}.")
    return text.encode("utf-8", "replace").decode("utf-8")


def _drop_duplicates(translations: Iterable[Translation]) -> list[Translation]:
    """Drop translations whose text equals that of a better one with other subwords."""
    best: dict[str, Translation] = {}
    for translation in translations:
        best.setdefault(translation.text, translation)
    return list(best.values())
