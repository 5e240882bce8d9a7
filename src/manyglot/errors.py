"""Mistakes that a user can mend. Each is shown as one line that names what is wrong and what to do; exit code 2."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

MOST_NAMED = 100
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")


class ManyglotError(Exception):
    """The root: whatever derives from it is the user's to mend, anything else is a bug of ours."""

    def __init__(self, message: str) -> None:
        # One line, also where another library's words are part of it, and nothing that a terminal would obey.
        super().__init__(_CONTROLS.sub("\ufffd", " ".join(message.split())))


class Stopped(ManyglotError):
    """Not a mistake: somebody asked us to stop, and everything is saved; exit code 0."""


class SettingsError(ManyglotError):
    """A YAML file or an override says something that is not a setting or not allowed."""


class CorpusError(ManyglotError):
    """Text that cannot be read or that does not make a corpus."""


class LanguageError(ManyglotError):
    """A language that the corpus or the model does not know."""


class FolderError(ManyglotError):
    """A folder that is missing, damaged, of another format, or in the way."""


class MemoryIsFull(ManyglotError):
    """Something does not fit into the memory of a device, whatever it was asked to do."""


def suggest(wrong: str, known: Iterable[str]) -> str:
    """Name the nearest of the known words ("Did you mean 'x'?"), or all of them when none is near."""
    known = list(known)
    near = difflib.get_close_matches(wrong, known, n=1, cutoff=0.6)
    if near:
        return f"Did you mean '{near[0]}'?"
    more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    return f"Known: {', '.join(known[:MOST_NAMED])}{more}."
