"""The Translator: translates text between any of the model's languages. Callers never see language tags."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints, overload

from manyglot.argument_types import check_argument_types, checks_argument_types
from manyglot.batches.source_lengths import DEFAULT_SOURCE_LENGTHS, SourceLengths
from manyglot.config.base_settings import parse_settings
from manyglot.corpus.languages import Languages
from manyglot.decoding.engine import Engine
from manyglot.decoding.given_translations import read_given_translations, unknown_character_warnings
from manyglot.decoding.off_target import OffTargetFilter
from manyglot.decoding.scaled_progress import ScaledProgress
from manyglot.decoding.scored_translation import Translation, TranslationScore
from manyglot.decoding.sentence_translator import SentenceTranslator
from manyglot.decoding.settings import DecodingSettings
from manyglot.decoding.source_text import read_source_texts
from manyglot.decoding.text_arguments import LanguageArguments, clean_text, reject_single_string
from manyglot.decoding.text_splitter import DEFAULT_TEXT_OPTIONS, TextOptions, TextSplitter
from manyglot.decoding.translated_texts import TranslatedTexts, warn_if_incomplete
from manyglot.errors import LanguageError, ManyglotError
from manyglot.langid.identifier import OffTargetDetector
from manyglot.progress import ProgressReporter
from manyglot.vocabulary.vocabulary import Vocabulary

if TYPE_CHECKING:
    import torch

    from manyglot.model.model_folder import TrainedModel

_MAX_LANGUAGES_IN_REPR = 20


class Translator:
    """Translates text with an engine.

        model = manyglot.load("demo-run/run/model")
        model.translate(["in 3 weeks", "3 kilometers"], to="de")
        model.translate_n_best(["in 3 weeks"], to="German", n=3)
        model.translate_to_all(["in 3 weeks"])
        model.score(["in 3 weeks"], ["in 3 Wochen"], to="de")
        for sentence in model.translate_stream(open("news.txt"), to="de"): ...

    Languages can be given as de, deu, de-DE, German or Deutsch. The texts may be in any mix of the model's languages.
    There is one translation per text, in the same order, and an empty text stays empty. A text that is longer than the
    training text is split into sentences (see `TextOptions`).
    """

    def __init__(
        self,
        engine: Engine,
        vocabulary: Vocabulary,
        targets: Iterable[str] | None = None,
        source_lengths: SourceLengths = DEFAULT_SOURCE_LENGTHS,
    ) -> None:
        self.engine, self.vocabulary, self.settings = engine, vocabulary, engine.default_settings
        self.languages = engine.languages if targets is None else Languages(targets)
        """The languages it translates into."""
        self.origin = ""
        """Where the model comes from, such as its folder and step; empty if it was not loaded from a folder."""
        self.off_target_filter: OffTargetFilter | None = None
        self.text_splitter = TextSplitter(vocabulary, source_lengths, DEFAULT_TEXT_OPTIONS)

    @classmethod
    def from_trained_model(
        cls,
        trained: TrainedModel,
        settings: DecodingSettings,
        device: torch.device,
        fold_guidance: bool = False,
    ) -> Translator:
        """Make a translator with the native engine. `fold_guidance` speeds up many sentences into one language."""
        from manyglot.decoding.extended_engine import ExtendedEngine  # these import torch, which exports do without
        from manyglot.decoding.native_engine import NativeEngine

        engine: Engine
        if trained.vocabulary.subword_model.further_languages:
            engine = ExtendedEngine(trained, settings, device, fold_guidance=fold_guidance)
        else:
            engine = NativeEngine(
                trained.model, trained.vocabulary.languages, settings, device, fold_guidance=fold_guidance
            )
        translator = cls(engine, trained.vocabulary, trained.targets, trained.source_lengths)
        step = trained.training_info.get("step")
        translator.origin = ", ".join([str(trained.folder or "")] + ([] if step is None else [f"step {step}"]))
        return translator

    def __repr__(self) -> str:
        codes = self.languages.codes
        more = f" and {len(codes) - _MAX_LANGUAGES_IN_REPR} more" if len(codes) > _MAX_LANGUAGES_IN_REPR else ""
        languages = f"into {', '.join(codes[:_MAX_LANGUAGES_IN_REPR])}{more}"
        return f"<Translator: {', '.join(filter(None, (self.origin, type(self.engine).__name__, languages)))}>"

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        device: str = "auto",
        fold_guidance: bool = False,
        packs: Sequence[str | os.PathLike[str]] = (),
    ) -> Translator:
        """Load a translator from a model folder, a run folder or a checkpoint, with the native engine."""
        from manyglot.devices import find_device  # these import torch, which exports do without
        from manyglot.model.language_pack import load_with_packs

        trained = load_with_packs(Path(folder), packs)
        return cls.from_trained_model(trained, saved_decoding_settings(trained), find_device(device), fold_guidance)

    def with_settings(self, **changes: Any) -> Translator:
        """Return a copy with other decoding settings, for example `beam_size=1`. Both share the model."""
        other = copy(self)
        other.settings = parse_settings(DecodingSettings, self.settings.model_dump() | changes, parent_name="decoding")
        return other

    @checks_argument_types
    def with_off_target_filter(self, identify: OffTargetDetector | None) -> Translator:
        """Return a copy with an `OffTargetFilter` for its outputs. None removes the filter. Both share the model."""
        other = copy(self)
        other.off_target_filter = None if identify is None else OffTargetFilter(identify)
        return other

    def with_text_options(self, **changes: Any) -> Translator:
        """Return a copy with other `TextOptions`, for example `split="always"`. Both share the model."""
        other, splitter = copy(self), self.text_splitter
        check_argument_types("with_text_options", changes, get_type_hints(TextOptions))
        options = replace(splitter.options, **changes)
        other.text_splitter = TextSplitter(splitter.vocabulary, splitter.lengths, options)
        return other

    @property
    def pivot_code(self) -> str | None:
        """The code of the pivot language, or None if translation is direct."""
        try:
            return None if self.settings.pivot is None else self.languages.find_code(self.settings.pivot)
        except LanguageError as error:
            raise LanguageError(f"decoding.pivot: {error}") from None

    @overload  # a string is an iterable of strings too; the first signature that matches counts
    def translate(  # type: ignore[overload-overlap]
        self,
        texts: str,
        to: str,
        *,
        source: str | None = None,
        prefixes: Sequence[str] | None = None,
        sentence_offset: int = 0,
        progress: ProgressReporter | None = None,
    ) -> str: ...

    @overload
    def translate(
        self,
        texts: Iterable[str],
        to: str | Sequence[str],
        *,
        source: str | Sequence[str | None] | None = None,
        prefixes: Sequence[str] | None = None,
        sentence_offset: int = 0,
        progress: ProgressReporter | None = None,
    ) -> list[str]: ...

    @checks_argument_types
    def translate(
        self,
        texts: Iterable[str],
        to: str | Sequence[str],
        *,
        source: str | Sequence[str | None] | None = None,
        prefixes: Sequence[str] | None = None,
        sentence_offset: int = 0,
        progress: ProgressReporter | None = None,
    ) -> str | list[str]:
        """Translate texts into one language, or each into its own if `to` is a list. A single string gives a string.

        `source` is the language of the texts, or a list with one per text. If it is given, the texts are split by the
        rules of that language, and texts in the pivot language are translated directly. If `prefixes` are given, each
        translation begins with its prefix. If a text is translated in several calls, `sentence_offset` is the number of
        sentences in earlier calls. Sampling depends on a sentence's index in the text.

        A `TranslationWarning` names texts that may be translated incompletely.
        """
        is_single = isinstance(texts, str)
        translated = self.translate_texts(
            [texts] if isinstance(texts, str) else texts,
            to,
            1,
            source=source,
            prefixes=prefixes,
            sentence_offset=sentence_offset,
            progress=progress,
        )
        if self.text_splitter.options.warn:
            warn_if_incomplete(translated.sources, stacklevel=4)
        outputs = [translations[0].text for translations in translated.n_best]
        return outputs[0] if is_single else outputs

    @checks_argument_types
    def translate_to_all(
        self,
        texts: Iterable[str],
        to: Iterable[str] | None = None,
        *,
        source: str | Sequence[str | None] | None = None,
    ) -> dict[str, list[str]]:
        """Translate all texts into several languages, by default all, and return the translations by code."""
        texts, names = (
            list(reject_single_string(texts)),
            self.languages if to is None else [to] if isinstance(to, str) else to,
        )
        codes = list(dict.fromkeys(self.languages.find_code(name) for name in names))
        sources = self._language_arguments.source_codes(source, len(texts))
        translated = self.translate_texts(
            texts * len(codes), [code for code in codes for _ in texts], 1, source=sources * len(codes)
        )
        if self.text_splitter.options.warn:
            warn_if_incomplete(translated.sources[: len(texts)], stacklevel=4)
        outputs = iter(translations[0].text for translations in translated.n_best)
        return {code: list(islice(outputs, len(texts))) for code in codes}

    @checks_argument_types
    def translate_stream(
        self,
        texts: Iterable[str],
        to: str | Iterable[str],
        *,
        source: str | Iterable[str | None] | None = None,
    ) -> Iterator[str]:
        """Translate a stream of texts lazily and in constant memory. The stream may be endless.

        Texts are read in blocks, when their translations are requested. `to` and `source` are a language, or an
        iterable with one language per text.
        """
        # Raise now if a language is unknown, not when the first block is read.
        targets = repeat(self._language_arguments.find_target(to)) if isinstance(to, str) else iter(to)
        if source is None or isinstance(source, str):
            source = repeat(None if source is None else self.engine.languages.find_code(source))
        return self._stream(iter(reject_single_string(texts)), targets, iter(source))

    def _stream(
        self, texts: Iterator[str], targets: Iterator[str], source_languages: Iterator[str | None]
    ) -> Iterator[str]:
        num_texts = num_sentences = 0
        while block := list(islice(texts, self.engine.preferred_block_size)):
            block_targets, block_sources = list(islice(targets, len(block))), list(islice(source_languages, len(block)))
            translated = self.translate_texts(
                block, block_targets, 1, source=block_sources, sentence_offset=num_sentences
            )
            if self.text_splitter.options.warn:
                warn_if_incomplete(translated.sources, num_texts, stacklevel=3)
            yield from (translations[0].text for translations in translated.n_best)
            num_texts, num_sentences = num_texts + len(block), num_sentences + translated.num_sentences

    @checks_argument_types
    def translate_n_best(
        self,
        texts: Iterable[str],
        to: str | Sequence[str],
        n: int = 5,
        *,
        source: str | Sequence[str | None] | None = None,
        prefixes: Sequence[str] | None = None,
        sentence_offset: int = 0,
        progress: ProgressReporter | None = None,
    ) -> list[list[Translation]]:
        """Return the n best translations of each text, best first, with their scores and with warnings.

        The beam size is at least n. The translations of a text are distinct, so there may be fewer than n. Scores rank
        the translations of one text; between texts they are only roughly comparable. If a text is split into sentences,
        its k-th translation joins the k-th translations of its sentences. See `translate` for the other arguments.
        """
        return self.translate_texts(
            texts, to, n, source=source, prefixes=prefixes, sentence_offset=sentence_offset, progress=progress
        ).n_best

    @checks_argument_types
    def translate_texts(
        self,
        texts: Iterable[str],
        to: str | Sequence[str],
        n: int,
        *,
        source: str | Sequence[str | None] | None = None,
        prefixes: Sequence[str] | None = None,
        sentence_offset: int = 0,
        progress: ProgressReporter | None = None,
    ) -> TranslatedTexts:
        """Return the n best translations of each text, and the texts as they were split. Progress counts texts."""
        lines = [clean_text(text) for text in reject_single_string(texts)]
        named = self._language_arguments
        targets, languages = named.target_codes(to, len(lines)), named.source_codes(source, len(lines))
        sources = read_source_texts(lines, self.text_splitter, languages)
        if prefixes is not None and len(prefixes) != len(lines):
            raise ManyglotError(f"There are {len(lines)} texts and {len(prefixes)} prefixes.")
        first_prefixes = map(clean_text, prefixes or ())
        sentence_prefixes = (
            None
            if prefixes is None
            else [prefix for each in sources for prefix in (next(first_prefixes), *[""] * (len(each.sentences) - 1))]
        )
        sentences = [sentence for each in sources for sentence in each.sentences]
        if progress is not None and len(sentences) > len(lines):
            progress = ScaledProgress(progress, len(lines), len(sentences))
        hypotheses = iter(
            self._sentence_translator().translate(
                sentences,
                [target for target, each in zip(targets, sources, strict=True) for _ in each.sentences],
                [language for language, each in zip(languages, sources, strict=True) for _ in each.sentences],
                n,
                sentence_prefixes,
                sentence_offset,
                progress,
            )
        )
        n_best = [
            each.join(list(islice(hypotheses, len(each.sentences))), target)
            for each, target in zip(sources, targets, strict=True)
        ]
        return TranslatedTexts(sources, n_best)

    @checks_argument_types
    def score(
        self,
        texts: Iterable[str],
        translations: Iterable[str],
        to: str | Sequence[str],
        *,
        source: str | Sequence[str | None] | None = None,
        sentence_offset: int = 0,
        progress: ProgressReporter | None = None,
    ) -> list[TranslationScore]:
        """Return how probable given translations are to the model (forced decoding).

        The translations may come from anywhere. A text and its translation are scored as one sentence, however long.
        The translation may have other subwords than the same translation found by a search, and then another score.
        """
        lines, outputs = read_given_translations(texts, translations, self.text_splitter.options.max_chars)
        named = self._language_arguments
        targets, languages = named.target_codes(to, len(lines)), named.source_codes(source, len(lines))
        scores = self._sentence_translator().score(lines, outputs, targets, languages, sentence_offset, progress)
        return [
            replace(score, warnings=unknown_character_warnings(self.vocabulary, (text, language), (output, target)))
            for score, text, language, output, target in zip(scores, lines, languages, outputs, targets, strict=True)
        ]

    def _sentence_translator(self) -> SentenceTranslator:
        return SentenceTranslator(self.engine, self.vocabulary, self.settings, self.pivot_code, self.off_target_filter)

    @property
    def _language_arguments(self) -> LanguageArguments:
        return LanguageArguments(self.engine.languages, self.languages)


def saved_decoding_settings(trained: TrainedModel) -> DecodingSettings:
    """Return the decoding settings stored with a model."""
    return parse_settings(DecodingSettings, trained.config.get("decoding", {}), parent_name="decoding")
