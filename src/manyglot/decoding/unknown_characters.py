"""Characters that are not in the vocabulary: reports them, and copies them from the source to the translation.

A run of unknown characters is copied if it is a whole word, a symbol or an emoji. Runs at the beginning of a sentence
stay there, with their white space, and so do runs at its end. A run in the middle is appended to the translation after
a space, because its place in the translation is unknown. The model does not see copied runs. A run next to a known
letter is not copied, because it is a part of a word or of a character sequence.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

MAX_LISTED_CHARACTERS = 10


@dataclass(frozen=True)
class CopiedRuns:
    """The runs of unknown characters to copy from a sentence."""

    before: str = ""
    """The runs at the beginning, with the white space around them."""
    inside: tuple[str, ...] = ()
    """The runs in the middle."""
    after: str = ""
    """The runs at the end, with the white space around them."""

    def add_to(self, translation: str) -> str:
        """Return the translation with the runs."""
        return self.before + " ".join(filter(None, (translation, *self.inside))) + self.after


def remove_unknown_runs(sentence: str, unknown: Collection[str]) -> tuple[str, CopiedRuns]:
    """Return a sentence without the runs of unknown characters that can be copied, and these runs."""
    is_copied = [False] * len(sentence)
    for start, stop in _runs(sentence, unknown):
        if _is_separate(sentence, start, stop):
            is_copied[start:stop] = [True] * (stop - start)
    others = [i for i, copied in enumerate(is_copied) if not copied and not sentence[i].isspace()]
    if not others:
        return "", CopiedRuns(before=sentence)
    first, last = others[0], others[-1] + 1
    if not any(is_copied[:first]):
        first = 0
    if not any(is_copied[last:]):
        last = len(sentence)
    parts = [
        (copied, "".join(sentence[i] for i in indices))
        for copied, indices in groupby(range(first, last), key=is_copied.__getitem__)
    ]
    inside = tuple(text for copied, text in parts if copied)
    rest = ""
    for copied, text in parts:
        if not copied and (stripped := text.strip()):
            needs_space = rest and (text[0].isspace() or text[0].isalnum())
            rest += f" {stripped}" if needs_space else stripped
    return (rest if inside else sentence[first:last]), CopiedRuns(sentence[:first], inside, sentence[last:])


def describe_characters(characters: Iterable[str]) -> str:
    """List characters with their code points, such as `🎉 (U+1F389)`. Names replace invisible ones."""
    characters = list(characters)
    listed = ", ".join(
        f"{_visible(character)} (U+{ord(character):04X})" for character in characters[:MAX_LISTED_CHARACTERS]
    )
    num_more = len(characters) - MAX_LISTED_CHARACTERS
    return f"{listed} and {num_more} more" if num_more > 0 else listed


def _visible(character: str) -> str:
    """Return a character, or its name if it is invisible."""
    if character.isprintable() and not character.isspace():
        return character
    return "tab" if character == "\t" else unicodedata.name(character, "control character").lower()


def _runs(sentence: str, unknown: Collection[str]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each run of unknown characters."""
    start = 0
    for is_unknown, run in groupby(sentence, key=unknown.__contains__):
        stop = start + sum(1 for _ in run)
        if is_unknown:
            yield start, stop
        start = stop


def _is_separate(sentence: str, start: int, stop: int) -> bool:
    """Whether a run is neither a part of a word nor attached to the character before or after it."""
    before, after = sentence[start - 1 : start], sentence[stop : stop + 1]
    if before and not before.isspace() and (_is_attached(sentence[start]) or sentence[start - 1] == "\u200d"):
        return False
    if after and _is_attached(after):
        return False
    first_in_word, last_in_word = _is_in_word(sentence[start]), _is_in_word(sentence[stop - 1])
    return not (first_in_word and before and _is_in_word(before)) and not (
        last_in_word and after and _is_in_word(after)
    )


def _is_attached(character: str) -> bool:
    """Whether a character modifies the one before it: combining marks, joiners, variation and skin tone selectors."""
    return unicodedata.category(character)[0] == "M" or unicodedata.category(character) in ("Cf", "Sk")


def _is_in_word(character: str) -> bool:
    return character.isalnum() or _is_attached(character)
