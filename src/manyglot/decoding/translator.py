"""The Translator: text in, text out, in any of the model's languages; tags are its business, not the caller's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import torch

from manyglot.config.settings import parse
from manyglot.corpus.languages import Languages
from manyglot.corpus.textfiles import one_line
from manyglot.decoding.beam import DecodingSettings
from manyglot.decoding.engine import Engine, SearchRequest
from manyglot.decoding.native import Fold, NativeEngine
from manyglot.decoding.off_target import OffTargetFilter
from manyglot.decoding.translation import Translation
from manyglot.devices import find_device
from manyglot.errors import LanguageError, ManyglotError
from manyglot.langid.identifier import Identify
from manyglot.model.folder import TrainedModel, load_model
from manyglot.progress import Bar
from manyglot.vocabulary.subwords import UNK
from manyglot.vocabulary.vocabulary import Vocabulary


class Translator:
    """Translates with an engine.

        model = manyglot.load("demo-run/run/model")
        model.translate(["in 3 weeks", "3 kilometers"], to="de")
        model.hypotheses(["in 3 weeks"], to="German", n=3)
        model.translate_to_all(["in 3 weeks"])
        for sentence in model.stream(open("news.txt"), to="de"): ...

    A language is named as people name it: de, deu, de-DE, German, Deutsch. The sentences may be in any of the model's
    languages, mixed too; an empty one stays empty. Order and number are those of the input.
    """

    def __init__(self, engine: Engine, vocabulary: Vocabulary, targets: Iterable[str] | None = None) -> None:
        self.engine, self.vocabulary, self.settings = engine, vocabulary, engine.settings
        self.languages = engine.languages if targets is None else Languages(targets)
        """The languages it translates into."""
        self.off_target_filter: OffTargetFilter | None = None

    @classmethod
    def of(
        cls, trained: TrainedModel, settings: DecodingSettings, device: torch.device, fold: Fold | None = None
    ) -> Translator:
        """Translate with a model of ours; who knows how to fold it makes it faster."""
        engine = NativeEngine(trained.model, trained.vocabulary.languages, settings, device, fold)
        return cls(engine, trained.vocabulary)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], device: str = "auto", fold: Fold | None = None) -> Translator:
        """Open a model folder."""
        trained = load_model(Path(folder))
        return cls.of(trained, trained_settings(trained), find_device(device), fold)

    def with_settings(self, **changes: Any) -> Translator:
        """The same model with other decoding settings, for example `beam=1`."""
        other = copy(self)
        other.settings = parse(DecodingSettings, self.settings.model_dump() | changes, where="decoding")
        return other

    def with_off_target_filter(self, identify: Identify | None) -> Translator:
        """The same model with an `OffTargetFilter` for its outputs; None removes the filter."""
        other = copy(self)
        other.off_target_filter = None if identify is None else OffTargetFilter(identify)
        return other

    @property
    def via(self) -> str | None:
        """The language that it goes by way of, if it does."""
        try:
            return None if self.settings.via is None else self.languages.find(self.settings.via)
        except LanguageError as error:
            raise LanguageError(f"decoding.via: {error}") from None

    def translate(
        self,
        texts: Iterable[str],
        to: str | Sequence[str],
        *,
        prefixes: Sequence[str] | None = None,
        offset: int = 0,
        progress: Bar | None = None,
    ) -> list[str]:
        """Translate sentences into one language, or each into its own when `to` is a list.

        Each translation begins with its prefix, where prefixes are given. Where a longer text comes in several calls,
        `offset` is the number of sentences before this one: what is sampled depends on a sentence's place in the text.
        """
        found = self.hypotheses(texts, to, 1, prefixes=prefixes, offset=offset, progress=progress)
        return [translations[0].text for translations in found]

    def translate_to_all(self, texts: Iterable[str], to: Iterable[str] | None = None) -> dict[str, list[str]]:
        """Translate all sentences into each of several languages, or of all: the translations by language code."""
        texts, names = list(_sentences(texts)), self.languages if to is None else [to] if isinstance(to, str) else to
        codes = list(dict.fromkeys(self.languages.find(name) for name in names))
        outputs = iter(self.translate(texts * len(codes), [code for code in codes for _ in texts]))
        return {code: list(islice(outputs, len(texts))) for code in codes}

    def stream(self, texts: Iterable[str], to: str | Iterable[str]) -> Iterator[str]:
        """Translate sentences as they come, in constant memory: they may be without end.

        They are read a block at a time, when their translations are asked for. `to` is a language, or an iterable with
        one for each sentence.
        """
        if isinstance(to, str):
            to = self.languages.find(to)  # a wrong language is told at once, not when the first block is read
        return self._stream(iter(_sentences(texts)), repeat(to) if isinstance(to, str) else iter(to))

    def _stream(self, texts: Iterator[str], targets: Iterator[str]) -> Iterator[str]:
        offset = 0
        while block := list(islice(texts, self.engine.at_once)):
            yield from self.translate(block, list(islice(targets, len(block))), offset=offset)
            offset += len(block)

    def hypotheses(
        self,
        texts: Iterable[str],
        to: str | Sequence[str],
        n: int = 5,
        *,
        prefixes: Sequence[str] | None = None,
        offset: int = 0,
        progress: Bar | None = None,
    ) -> list[list[Translation]]:
        """Return the n best translations of each sentence, best first, with their scores.

        The beam is at least n wide. The translations of a sentence are distinct, so there may be fewer than n. Scores
        compare translations of one sentence; those of different sentences are only roughly comparable. The other
        arguments are those of `translate`.
        """
        lines = [one_line(_text(text)) for text in _sentences(texts)]
        targets = self._targets(to, len(lines))
        if self.via is not None:
            lines = self._half_way(lines, targets, self.via, offset)
        request = SearchRequest(
            sources=self.vocabulary.encode(lines),
            languages=[self.engine.languages.id(code) for code in targets],
            settings=self._settings_for(n),
            prefixes=None if prefixes is None else self._prefixes(prefixes, len(lines)),
            num_hypotheses=1 if n == 1 else None,
            offset=offset,
        )
        found = self._search(request, n, progress)
        if self.off_target_filter is None:
            return found

        def search_wider(rows: Sequence[int], beam: int) -> list[list[Translation]]:
            """Return all hypotheses of some sentences."""
            width = max(beam, n)
            wider = replace(request.restrict(set(rows)), settings=self._settings_for(width), num_hypotheses=None)
            translations = self._search(wider, width)
            return [translations[row] for row in rows]

        corrected = self.off_target_filter.correct(found, targets, self.settings.beam, search_wider)
        return [each[:n] for each in corrected]

    def _half_way(self, texts: Sequence[str], targets: Sequence[str], via: str, offset: int) -> list[str]:
        """The sentences in the language that they go by way of; equal ones once, at the place of the first of them."""
        first_row: dict[str, int] = {}
        for row, (text, target) in enumerate(zip(texts, targets, strict=True)):
            if target != via:
                first_row.setdefault(text, row)
        alone = [text if first_row.get(text) == row else "" for row, text in enumerate(texts)]
        found = self.with_settings(via=None).translate(alone, via, offset=offset)
        return [text if target == via else found[first_row[text]] for text, target in zip(texts, targets, strict=True)]

    def _prefixes(self, prefixes: Sequence[str], number: int) -> list[list[int]]:
        """The subwords that translations begin with, which must be words that can be written."""
        if len(prefixes) != number:
            raise ManyglotError(f"There are {number} sentences and {len(prefixes)} prefixes.")
        begun = self.vocabulary.encode([_text(prefix) for prefix in prefixes])
        for prefix, ids in zip(prefixes, begun, strict=True):
            if UNK in ids:
                raise ManyglotError(f"The prefix {prefix!r} has characters that are not in the model's vocabulary.")
        return begun

    def _targets(self, to: str | Sequence[str], number: int) -> list[str]:
        """The code of each sentence's target language."""
        if isinstance(to, str):
            return [self.languages.find(to)] * number
        if not isinstance(to, Sequence):
            raise ManyglotError(f"`to` is a language such as 'de', or a list with one for each sentence; got {to!r}.")
        if len(to) != number:
            raise ManyglotError(f"There are {number} sentences and {len(to)} target languages.")
        return [self.languages.find(name) for name in to]

    def _settings_for(self, n: int) -> DecodingSettings:
        """Return the settings with a beam that is wide enough for n translations."""
        if n < 1:
            raise ManyglotError(f"The number of translations is {n}; it should be 1 or more.")
        return self.settings if n <= self.settings.beam else self.settings.with_beam(n)

    def _search(self, request: SearchRequest, n: int, progress: Bar | None = None) -> list[list[Translation]]:
        """Return the n best distinct translations of each sentence."""
        found = self.engine.search(request, progress)
        texts = iter(self.vocabulary.decode([hypothesis.ids for hypotheses in found for hypothesis in hypotheses]))
        return [_distinct([Translation(next(texts), h.score) for h in hypotheses])[:n] for hypotheses in found]


def trained_settings(trained: TrainedModel) -> DecodingSettings:
    """The search that a model was trained with."""
    return parse(DecodingSettings, trained.config.get("decoding", {}), where="decoding")


def _sentences(texts: Iterable[str]) -> Iterable[str]:
    """The sentences, unless they are the letters of one."""
    if isinstance(texts, str):
        raise ManyglotError("translate takes a list of sentences; put the sentence into one: [text].")
    return texts


def _text(text: str) -> str:
    """A sentence, if it is one; halves of characters, which no text should have, are replaced."""
    if not isinstance(text, str):
        raise ManyglotError(f"A sentence should be a str, and one of them is {type(text).__name__}: {text!r:.60}.")
    return text.encode("utf-8", "replace").decode("utf-8")


def _distinct(translations: Iterable[Translation]) -> list[Translation]:
    """Keep the best of the translations that have the same text, in different subwords."""
    best: dict[str, Translation] = {}
    for translation in translations:
        best.setdefault(translation.text, translation)
    return list(best.values())
