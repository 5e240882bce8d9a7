"""A subword model that was extended for further languages.

The languages of the original model keep its subwords and their ids. Each further language has a subword model of its
own, which splits only sentences of that language. Its subwords follow those of the original model, even those with the
same text, so that they can be trained without any effect on the original languages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import ClassVar

from manyglot.vocabulary.subword_file import SPACE, pack
from manyglot.vocabulary.subword_model import EOS, UNK, LanguageSubwords, SubwordModel

ORIGINAL_PART, LANGUAGE_PREFIX = "original", "language "
"""Names of the parts of the file."""


class ExtendedModel(SubwordModel):
    """A subword model with further languages."""

    kind: ClassVar = "extended"

    def __init__(self, original: SubwordModel, models_by_language: Mapping[str, SubwordModel]) -> None:
        """Extend a model. If it was already extended, the new languages follow its further languages."""
        added = {code: subwords.model for code, subwords in original.further_languages.items()} | dict(
            models_by_language
        )
        self._original = original.original
        self._further_languages: dict[str, LanguageSubwords] = {}
        self._size = len(self.original)
        for code, model in added.items():
            self._further_languages[code] = LanguageSubwords(model, self._size)
            self._size = self._further_languages[code].ids.stop
        parts = {LANGUAGE_PREFIX + code: model.serialized for code, model in added.items()}
        self.serialized = pack(self.kind, {ORIGINAL_PART: self.original.serialized} | parts)

    @property
    def original(self) -> SubwordModel:
        """The model without its further languages."""
        return self._original

    @property
    def further_languages(self) -> Mapping[str, LanguageSubwords]:
        """The languages with subwords of their own, in the order of their ids."""
        return self._further_languages

    def __len__(self) -> int:
        return self._size

    def pieces(self) -> list[str]:
        """All subwords in the order of their ids. A language may repeat subwords of the original model."""
        added = [piece for subwords in self._further_languages.values() for piece in subwords.pieces()[UNK + 1 :]]
        return [*self.original.pieces(), *added]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Split sentences as the original model does."""
        return self.original.encode(texts)

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Split target sentences as the original model does."""
        return self.original.encode_targets(texts)

    @property
    def splits_targets_differently(self) -> bool:
        """Whether `encode_targets` differs from `encode`."""
        return self.original.splits_targets_differently

    def for_language(self, code: str | None) -> SubwordModel:
        """Return the model that splits sentences of a language."""
        return self._further_languages.get(code or "", self.original)

    def ids_of_language(self, code: str) -> Sequence[int]:
        """Return the ids that translations into a language may have."""
        subwords = self._further_languages.get(code)
        return range(len(self.original)) if subwords is None else (*range(EOS, UNK + 1), *subwords.ids)

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Join ids into sentences. A sentence may mix the subwords of several languages."""
        return ["".join(self._decode_runs(sentence)) for sentence in ids]

    def _decode_runs(self, ids: Sequence[int]) -> Iterator[str]:
        """Yield the text of each run of subwords from the same model."""
        pieces = self.pieces() if len(set(map(self._owner, ids))) > 1 else []
        for number, (code, group) in enumerate(groupby(ids, self._owner)):
            run = list(group)
            space = " " if number and pieces[run[0]].startswith(SPACE) else ""
            yield space + self.for_language(code).decode([run])[0]

    def _owner(self, subword: int) -> str | None:
        """Return the further language that a subword belongs to, or None if it is one of the original model."""
        if subword < len(self.original):
            return None
        return next(code for code, subwords in self._further_languages.items() if subword in subwords.ids)
