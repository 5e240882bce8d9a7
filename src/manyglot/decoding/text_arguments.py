"""Checks the texts and languages that callers of the `Translator` give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from manyglot.corpus.languages import Languages
from manyglot.errors import LanguageError, ManyglotError


@dataclass(frozen=True)
class LanguageArguments:
    """Finds the codes of the languages that callers name."""

    sources: Languages
    targets: Languages

    def find_target(self, to: str) -> str:
        """Return the code of the target language of all texts."""
        if to == "all" and to not in self.targets:
            raise LanguageError("`to` is one language. Use translate_to_all to translate into all of them.")
        return self.targets.find_code(to)

    def target_codes(self, to: str | Sequence[str], num_texts: int) -> list[str]:
        """Return the code of each text's target language."""
        if isinstance(to, str):
            return [self.find_target(to)] * num_texts
        if len(to) != num_texts:
            raise ManyglotError(f"There are {num_texts} texts and {len(to)} target languages.")
        return [self.targets.find_code(name) for name in to]

    def source_codes(self, source: str | Sequence[str | None] | None, num_texts: int) -> list[str | None]:
        """Return the code of each text's language, or None where it is unknown."""
        if source is None or isinstance(source, str):
            return [None if source is None else self.sources.find_code(source)] * num_texts
        if len(source) != num_texts:
            raise ManyglotError(f"There are {num_texts} texts and {len(source)} source languages.")
        return [None if name is None else self.sources.find_code(name) for name in source]


def reject_single_string(texts: Iterable[str]) -> Iterable[str]:
    """Return the texts. Raise if they are a single string, which would be split into characters."""
    if isinstance(texts, str):
        raise ManyglotError("Give a list of texts, not a string: [text].")
    return texts


def clean_text(text: str) -> str:
    """Return the text with lone surrogates replaced. Raise if it is not a string."""
    if not isinstance(text, str):
        raise ManyglotError(f"Texts must be str, but one is {type(text).__name__}: {text!r:.60}.")
    return text.encode("utf-8", "replace").decode("utf-8")
