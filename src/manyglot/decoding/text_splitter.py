"""Splits source text into sentences to translate one by one, and joins their translations with the same white space."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, get_args

from manyglot.batches.source_lengths import SourceLengths
from manyglot.corpus.scripts import language_script_code
from manyglot.corpus.sentence_splitter import SentenceSplitter, count_clear_sentences
from manyglot.errors import SettingsError, did_you_mean
from manyglot.vocabulary.vocabulary import Vocabulary

SplitMode = Literal["auto", "always", "never"]
MAX_TEXT_CHARS = 10_000
"""Default maximum number of characters to translate at once."""
_SCRIPTS_WITHOUT_SPACES = {"Hans", "Hant", "Jpan"}


@dataclass(frozen=True)
class TextOptions:
    """How to treat text that differs from the training text."""

    split: SplitMode = "auto"
    """When to translate sentence by sentence. auto does so if the text has more subwords or sentences than 99% of the
    training text."""
    max_chars: int = MAX_TEXT_CHARS
    """Unless `split` is never, sentences with more characters are split at spaces."""
    copy_unknown: bool = False
    """Whether to copy symbols and words with characters that are not in the vocabulary. Otherwise they may be lost."""
    warn: bool = True
    """Whether functions that return bare strings warn about text that may be translated incompletely."""

    def __post_init__(self) -> None:
        if self.split not in get_args(SplitMode):
            raise SettingsError(f"split: '{self.split}' is not known. {did_you_mean(self.split, get_args(SplitMode))}")
        if self.max_chars < 2:
            raise SettingsError(f"max_chars is {self.max_chars}; it must be at least 2.")


DEFAULT_TEXT_OPTIONS = TextOptions()


@dataclass(frozen=True)
class SplitText:
    """The sentences of a text and the white space around them."""

    sentences: tuple[str, ...]
    spaces: tuple[str, ...]
    """The white space before the first sentence, between them, and after the last one."""

    @classmethod
    def unsplit(cls, text: str) -> SplitText:
        """Return a text as a single sentence."""
        return cls((text,), ("", ""))

    @classmethod
    def from_pieces(cls, pieces: Iterable[str]) -> SplitText:
        """Separate consecutive pieces of a text from their white space."""
        sentences, spaces = [], [""]
        for piece in pieces:
            sentence = piece.strip()
            before, after = piece.split(sentence, 1) if sentence else (piece, "")
            spaces[-1] += before
            if sentence:
                sentences.append(sentence)
                spaces.append(after)
        return cls(tuple(sentences), tuple(spaces))

    def join(self, translations: Sequence[str], language: str | None = None) -> str:
        """Join the translations of the sentences with their white space.

        Between sentences, a single space is dropped if the language is written without spaces, and missing space is
        added if it is written with spaces.
        """
        assert len(translations) == len(self.sentences)
        spaces = list(self.spaces)
        if language is not None:
            with_spaces = language_script_code(language) not in _SCRIPTS_WITHOUT_SPACES
            spaces[1:-1] = [(space or " ") if with_spaces else "" if space == " " else space for space in spaces[1:-1]]
        return spaces[0] + "".join(chain(*zip(translations, spaces[1:], strict=True)))


class TextSplitter:
    """Splits texts for one model."""

    def __init__(self, vocabulary: Vocabulary, lengths: SourceLengths, options: TextOptions) -> None:
        self.vocabulary, self.lengths, self.options = vocabulary, lengths, options
        self.sentence_splitter = SentenceSplitter(vocabulary.languages)

    def split(self, text: str, language: str | None = None) -> SplitText:
        """Split a text into sentences if the options say so."""
        if self.options.split == "never":
            return SplitText.unsplit(text)
        sentences = self.sentence_splitter.split(text, language)
        if self.options.split == "auto" and not self._is_long(text, sentences, language):
            return SplitText.unsplit(text)
        pieces = chain.from_iterable(wrap_text(sentence, self.options.max_chars) for sentence in sentences)
        split = SplitText.from_pieces(pieces)
        return split if len(split.sentences) > 1 else SplitText.unsplit(text)

    def _is_long(self, text: str, sentences: Sequence[str], language: str | None) -> bool:
        """Whether a text has more sentences, subwords or characters than should be translated at once."""
        if len(text) > self.options.max_chars or count_clear_sentences(sentences) > self.lengths.sentences_p99:
            return True
        if len(sentences) == 1:
            return False
        (ids,) = self.vocabulary.encode([text], [language])
        return len(ids) > self.lengths.subwords_p99


def wrap_text(text: str, max_chars: int) -> Iterator[str]:
    """Yield consecutive pieces of at most `max_chars` characters, cut before spaces where possible."""
    start = 0
    while len(text) - start > max_chars:
        end = start + cut_index(text[start : start + max_chars + 1], max_chars)
        yield text[start:end]
        start = end
    yield text[start:]


def cut_index(text: str, max_chars: int) -> int:
    """Return the index at which to cut a text to at most `max_chars` characters.

    It is the last space in the second half of the allowed length. Without one, it never separates a letter from its
    combining marks, unless they fill the whole half.
    """
    if len(text) <= max_chars:
        return len(text)
    space = next((i for i in range(max_chars, max_chars // 2, -1) if text[i].isspace()), None)
    if space is not None:
        return space
    letter = next(
        (i for i in range(max_chars, max_chars // 2, -1) if not unicodedata.category(text[i]).startswith("M")), None
    )
    return letter or max_chars
