"""Languages and directions: sorted codes with explicit ids, and errors that name the known ones."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import permutations
from typing import NamedTuple

from babel import Locale
from babel.core import get_global

from manyglot.corpus.lookup import candidates, fold, meanings, read_code, spelled
from manyglot.errors import MOST_NAMED, LanguageError, suggest

_CODE = re.compile(r"[a-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
_LONGEST_NAME = 100


class Direction(NamedTuple):
    """From one language into another."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}→{self.target}"

    def as_setting(self) -> str:
        """As it is written in settings, de>en."""
        return f"{self.source}>{self.target}"


class Languages:
    """The languages of a corpus or a model: sorted by code, numbered from 0, without repetition."""

    def __init__(self, codes: Iterable[str]) -> None:
        self.codes = tuple(sorted(set(codes)))
        for code in self.codes:
            check_code(code)
        self._ids = {code: i for i, code in enumerate(self.codes)}

    def id(self, code: str) -> int:
        """Return the number of a language, or say which ones are known."""
        if code not in self._ids:
            raise LanguageError(f"Unknown language '{code}'. {suggest(code, self.codes)}")
        return self._ids[code]

    def find(self, name: str) -> str:
        """The code of the language that a person calls so.

        It may be a code in another spelling or of another standard (PT_br, deu, iw), one with a script or region that
        is not told apart here (de-DE), or a name in English or in the language itself. It is never guessed: what could
        be two of the languages is refused with both.
        """
        return name if name in self._ids else _find(name, self.codes)

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.codes)

    def __contains__(self, code: object) -> bool:
        return code in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Languages) and self.codes == other.codes

    def __hash__(self) -> int:
        return hash(self.codes)

    def __repr__(self) -> str:
        return f"Languages({', '.join(self.codes)})"


def looks_like_code(name: str) -> bool:
    """Whether a name could be a language's."""
    return _CODE.fullmatch(name) is not None


def is_known(code: str) -> bool:
    """Whether CLDR has a name for a language, or its code is one of those for private use (qaa to qtz)."""
    language = primary(code)
    return (
        language in Locale("en").languages
        or language in get_global("language_aliases")
        or re.fullmatch("q[a-t][a-z]", language) is not None
    )


def check_code(code: str) -> str:
    """Refuse what does not look like a language code (`de`, `deu`, `pt-br`, `sr-Latn`)."""
    if not looks_like_code(code):
        raise LanguageError(f"'{code}' is not a language code such as de, deu or pt-br.")
    return code


def primary(code: str) -> str:
    """The code without region and script: pt of pt-br."""
    return code.replace("_", "-").split("-")[0]


@cache
def name_of(code: str) -> str:
    """The English name of a language, or its code where CLDR has none (private codes, say)."""
    names = Locale("en").languages
    language = primary(code)
    name = str(names.get(language, language))
    return f"{name} ({code[len(language) + 1 :]})" if language != code else name


@lru_cache(maxsize=4096)
def _find(name: str, codes: tuple[str, ...]) -> str:
    if len(name) > _LONGEST_NAME:
        raise LanguageError(f"Unknown language '{name[:_LONGEST_NAME]}…'.")
    known = meanings(name)
    fitting = {code for meaning in known or {read_code(name)} for code in candidates(meaning, codes)}
    found = spelled(name, codes) or sorted(fitting)
    if len(found) > 1:
        raise LanguageError(f"'{name}' can be {_listed(found, ' or ')}. Say which one.")
    if not found and known:
        missing = " or ".join(sorted(f"{name_of(str(meaning))} ({meaning})" for meaning in known))
        more = f" and {len(codes) - MOST_NAMED} more" if len(codes) > MOST_NAMED else ""
        raise LanguageError(f"{missing} is not among the model's languages: {', '.join(codes[:MOST_NAMED])}{more}.")
    if not found:
        raise LanguageError(f"Unknown language '{name}'. {_nearest(name, codes)}")
    return found[0]


def _nearest(name: str, codes: tuple[str, ...]) -> str:
    """The languages whose codes or names look like a name, or some of them where none does."""
    words = {**{fold(name_of(code)): code for code in codes}, **{fold(code): code for code in codes}}
    near = dict.fromkeys(words[word] for word in difflib.get_close_matches(fold(name), words, n=3))
    if near:
        return f"Did you mean {_listed(near, ' or ')}? {len(codes)} languages are known."
    rest = f" and {len(codes) - 10} more" if len(codes) > 10 else ""
    return f"Known: {_listed(codes[:10], ', ')}{rest}."


def _listed(codes: Iterable[str], last: str) -> str:
    """Codes with their names: de (German), nl (Dutch) or da (Danish)."""
    named = [f"{code} ({name_of(code)})" for code in codes]
    return last.join(filter(None, (", ".join(named[:-1]), *named[-1:])))


def parse_direction(text: str, languages: Languages) -> Direction:
    """Read `de>en` (or `de→en`)."""
    source, arrow, target = text.replace("→", ">").partition(">")
    if not arrow or source.strip() == target.strip():
        raise LanguageError(f"'{text}' is not a direction such as de>en.")
    for code in (source.strip(), target.strip()):
        languages.id(code)
    return Direction(source.strip(), target.strip())


def directions_of(languages: Languages, pivot: str | None = None) -> list[Direction]:
    """All directions between languages, or those to and from a pivot."""
    if pivot is not None:
        languages.id(pivot)
    every = (Direction(*pair) for pair in permutations(languages, 2))
    return [direction for direction in every if pivot is None or pivot in direction]
