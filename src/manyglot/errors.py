"""Errors that a user can correct. The command line shows them as one line, without a traceback, and exits with 2."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

MAX_QUOTED_CHARS = 80
"""Maximum length of a name that an error message quotes."""
MAX_LISTED_NAMES = 100
"""Maximum number of known names that an error message lists."""
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class ManyglotError(Exception):
    """Base class of all errors that a user can correct. Any other exception is a bug."""

    def __init__(self, message: str) -> None:
        # The message may quote another library: join its lines and remove what a terminal cannot show.
        super().__init__(_UNPRINTABLE.sub("\ufffd", " ".join(message.split())))


class StoppedByUser(ManyglotError):
    """The user asked to stop and all work is saved. The exit code is 75, because the work is not finished."""


class SettingsError(ManyglotError):
    """A YAML file, an override or an option has an unknown name or an invalid value."""


class CorpusError(ManyglotError):
    """Text cannot be read, or does not form a valid corpus."""


class LanguageError(ManyglotError):
    """A language is unknown to the corpus or the model."""


class FolderError(ManyglotError):
    """A folder is missing, is damaged, has an unsupported format, or already exists."""


class ChangedSettingsError(FolderError):
    """A folder holds data or a run of other text or settings."""

    def __init__(self, message: str, changed: Sequence[str]) -> None:
        super().__init__(message)
        self.changed = tuple(changed)
        """The names of what differs."""


class UnreadableFileError(FolderError):
    """The system cannot read a file that exists. The file need not be damaged: the error may be temporary."""


class EngineError(ManyglotError):
    """The command line of another translation engine failed, or its output cannot be used."""


class OutOfMemory(ManyglotError):
    """The memory of a device is too small for the task."""


class TranslationWarning(UserWarning):
    """Parts of a text may be missing in its translation."""


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return a hint that suggests the most similar known name, or lists the known names if none is similar."""
    known = list(known)
    similar = difflib.get_close_matches(wrong, known, n=1, cutoff=0.6)
    if similar:
        return f"Did you mean '{similar[0]}'?"
    more = f" and {len(known) - MAX_LISTED_NAMES} more" if len(known) > MAX_LISTED_NAMES else ""
    return f"Known: {', '.join(known[:MAX_LISTED_NAMES])}{more}."


def shorten(text: str, max_chars: int = MAX_QUOTED_CHARS) -> str:
    """Return the beginning of a text that may be long, for an error message."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}…"
