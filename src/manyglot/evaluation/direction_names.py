"""Read translation directions from file names, as systems and shared tasks write them.

| file name | direction |
|---|---|
| de-en.hyp, out.deu_Latn-eng_Latn, newstest.de-en.hyp.en, hyp.de-en.en.gz | de→en |
| de_en.txt, de2en.txt, de-to-en.txt, newstest2019-de-en.txt | de→en |
| en/de-en.txt, de-en/output.txt | de→en |
| en.txt | all directions into en, in the order of the source codes |

Codes are matched with the languages of the test set, whatever their style. A code that is spelled as in the test set
takes precedence over one that only means the same language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path, PurePath
from typing import NamedTuple

from manyglot.corpus.decompression import uncompressed_name
from manyglot.corpus.languages import Direction, Languages, is_known_language_code, looks_like_language_code
from manyglot.errors import LanguageError

_SEPARATOR = re.compile(r"(?:[-_]to[-_]|2|→|>|[-_])")
_WORDS_OF_NO_LANGUAGE = frozenset(("", "hyp", "hyps", "out", "mt", "pred", "sys", "txt", "tok", "tsv", "csv", "json"))
"""Parts of file names that are never read as the language of a file; `mt` is Maltese only in a pair of languages."""
_MAX_NAME_CHARS = 200


class FileRole(StrEnum):
    """What the lines of a file are."""

    OUTPUT = "output"
    SOURCE = "source"
    REFERENCE = "reference"


_ROLES = {
    **dict.fromkeys(("src", "source", "sources"), FileRole.SOURCE),
    **dict.fromkeys(("ref", "refs", "reference", "references"), FileRole.REFERENCE),
}


class NamedFile(NamedTuple):
    """What the name of a file says about its lines."""

    direction: Direction | None = None
    language: str | None = None
    """The only language in the name; unless options say more, the file has all directions into it."""
    role: FileRole = FileRole.OUTPUT
    is_absent_language: bool = False
    """Whether the name has a known language that the test set lacks."""


class DirectionNames:
    """Finds directions between some languages in file names."""

    def __init__(self, languages: Languages) -> None:
        self._languages = languages
        self._codes_by_spelling = {_normalize(code): code for code in languages}
        self._found: dict[str, str | None] = {}

    def parse(self, path: PurePath) -> NamedFile:
        """Read the name of a file, and of its folders if the name has no direction."""
        name = uncompressed_name(Path(path))[:_MAX_NAME_CHARS]
        segments = name.split(".")
        role = next((_ROLES[word] for word in reversed(re.split("[._-]", name)) if word in _ROLES), FileRole.OUTPUT)
        for candidates in (segments, *(parent.name.split(".") for parent in path.parents)):
            if direction := self._find_direction(candidates, path):
                is_source = role is FileRole.OUTPUT and self._spelled(segments[-1]) == direction.source
                return NamedFile(direction, None, FileRole.SOURCE if is_source else role)
        if self._names_absent_language(segments, path):
            return NamedFile(None, None, role, is_absent_language=True)
        targets = {code for word in segments if word not in _WORDS_OF_NO_LANGUAGE and (code := self.find(word))}
        return NamedFile(None, targets.pop() if len(targets) == 1 else None, role)

    def find(self, code: str) -> str | None:
        """Return the language of the test set that a code or name means, or None."""
        if code not in self._found:
            self._found[code] = self._spelled(code) or self._find_other_spelling(code)
        return self._found[code]

    def _spelled(self, code: str) -> str | None:
        return self._codes_by_spelling.get(_normalize(code))

    def _find_other_spelling(self, code: str) -> str | None:
        if not looks_like_language_code(code) and not (code.isalpha() and len(code) > 3):
            return None
        try:
            return self._languages.find_code(code)
        except LanguageError:
            return None

    def _find_direction(self, segments: list[str], path: PurePath) -> Direction | None:
        for find in (self._spelled, self.find):
            directions = {d for segment in segments if (d := self._direction_in(segment, find))}
            if len(directions) > 1:
                found = " and ".join(sorted(map(str, directions)))
                raise LanguageError(f"The file name {path} may mean {found}. Rename the file, such as de-en.txt.")
            if directions:
                return directions.pop()
        return None

    def _direction_in(self, segment: str, find: object) -> Direction | None:
        """Return the direction in a part of a name: the one nearest to its end, with the longest codes."""
        assert callable(find)
        for left, right in _splits(segment):
            source, target = find(left), find(right)
            if source and target and source != target:
                return Direction(source, target)
        return None

    def _names_absent_language(self, segments: list[str], path: PurePath) -> bool:
        """Whether a part of a name is a pair of codes of which the test set has not both.

        Raises an error if one of them is a language of the test set and nobody knows the other.
        """
        for segment in segments:
            for separator in _SEPARATOR.finditer(segment):
                pair = segment[: separator.start()], segment[separator.end() :]
                if not all(map(looks_like_language_code, pair)):
                    continue
                unknown = [code for code in pair if not self.find(code)]
                if all(map(is_known_language_code, unknown)):
                    return True
                if len(unknown) == 1:
                    raise LanguageError(f"Unknown language '{unknown[0]}' in the file name {path}. Rename the file.")
        return False


def _splits(segment: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of adjacent parts of a name, those at its end and the longest ones first."""
    pairs = []
    for separator in _SEPARATOR.finditer(segment):
        left, right = segment[: separator.start()], segment[separator.end() :]
        starts = [0, *(match.end() for match in re.finditer("[-_]", left))]
        ends = [*(match.start() for match in re.finditer("[-_]", right)), len(right)]
        pairs += [(len(right) - end, start, left[start:], right[:end]) for start in starts for end in ends]
    for _, _, source, target in sorted(pairs):
        yield source, target


def _normalize(code: str) -> str:
    return code.replace("_", "-").casefold()
