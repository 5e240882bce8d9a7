"""Loads a language identifier by its name in the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Literal

from manyglot.corpus.languages import Languages
from manyglot.langid.external_identifiers import EXTERNAL_IDENTIFIERS
from manyglot.langid.identifier import LanguageIdentifier
from manyglot.langid.ngram_profile import NgramProfileIdentifier

IdentifierName = Literal["py3langid", "langid", "langdetect", "pycld2", "profile"]
MAX_PROFILE_SENTENCES = 2000
"""A profile learns from at most this many training sentences per language."""


def load_identifier(
    name: IdentifierName,
    languages: Languages,
    training_text: Callable[[str], Iterable[str]] | None = None,
    *,
    restrict_to_data_languages: bool = True,
    merge_language_variants: bool = True,
) -> LanguageIdentifier:
    """Load an identifier for some languages.

    `profile` learns from `training_text`, which returns the sentences of a language. For the other identifiers,
    `restrict_to_data_languages` limits the predictions to these languages, and `merge_language_variants` treats
    near-identical languages as one.
    """
    if name != "profile":
        return EXTERNAL_IDENTIFIERS[name](languages, restrict_to_data_languages, merge_language_variants)
    assert training_text is not None, "a profile needs training text"
    return NgramProfileIdentifier(
        {code: list(islice(training_text(code), MAX_PROFILE_SENTENCES)) for code in languages}
    )
