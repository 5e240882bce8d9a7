"""Loading an identifier by its name in the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Literal

from manyglot.corpus.languages import Languages
from manyglot.langid.identifier import Identifier
from manyglot.langid.profile import Profile
from manyglot.langid.tools import TOOLS

IdentifierName = Literal["py3langid", "langid", "langdetect", "pycld2", "profile"]
PROFILE_SENTENCES = 2000
"""Training sentences of a language that are enough for its profile."""


def load_identifier(
    name: IdentifierName,
    languages: Languages,
    training_text: Callable[[str], Iterable[str]] | None = None,
    *,
    restrict: bool = True,
    merge_variants: bool = True,
) -> Identifier:
    """Load the identifier of some languages.

    A profile learns from `training_text`, which returns the sentences of a language. A general tool answers among these
    languages alone with `restrict`, and counts near variants as one language with `merge_variants`.
    """
    if name != "profile":
        return TOOLS[name](languages, restrict, merge_variants)
    assert training_text is not None, "a profile learns from training text"
    return Profile({code: list(islice(training_text(code), PROFILE_SENTENCES)) for code in languages})
