"""Loads a language identifier by its name in the settings, or chooses one by its coverage of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from manyglot.corpus.languages import Languages
from manyglot.errors import ManyglotError, did_you_mean, shorten
from manyglot.langid.external_identifiers import EXTERNAL_IDENTIFIERS, ExternalIdentifier
from manyglot.langid.fasttext import FASTTEXT_PREFIX, FastTextIdentifier
from manyglot.langid.identifier import LanguageIdentifier
from manyglot.langid.ngram_profile import NgramProfileIdentifier
from manyglot.progress import print_status

MAX_PROFILE_SENTENCES = 2000
"""A profile learns from at most this many training sentences per language."""
MIN_COVERAGE = 0.5
"""`auto` learns a profile if every installed identifier knows less than this share of the languages."""
IDENTIFIER_NAMES = ("auto", *EXTERNAL_IDENTIFIERS, "profile", f"{FASTTEXT_PREFIX}PATH")

TrainingText = Callable[[str], Iterable[str]]
"""Returns the training sentences of a language."""


def _check_identifier_name(name: str) -> str:
    is_path = name.startswith(FASTTEXT_PREFIX) and name != FASTTEXT_PREFIX
    if not is_path and name not in IDENTIFIER_NAMES:
        raise ValueError(f"{shorten(name)!r} is not a language identifier. {did_you_mean(name, IDENTIFIER_NAMES)}")
    return name


IdentifierName = Annotated[str, AfterValidator(_check_identifier_name)]
"""auto, the name of an external identifier, profile, or fasttext:PATH."""


def load_identifier(
    name: IdentifierName,
    languages: Languages,
    training_text: TrainingText | None = None,
    *,
    restrict_to_data_languages: bool = True,
    merge_language_variants: bool = True,
) -> LanguageIdentifier:
    """Load an identifier for some languages.

    `profile` learns from `training_text`. For the other identifiers, `restrict_to_data_languages` limits the
    predictions to these languages, and `merge_language_variants` treats near-identical languages as one.
    """
    options = (restrict_to_data_languages, merge_language_variants)
    if name == "auto":
        return _choose_by_coverage(languages, training_text, options)
    if name == "profile":
        assert training_text is not None, "a profile needs training text"
        return _learn_profile(languages, training_text)
    if name.startswith(FASTTEXT_PREFIX):
        return FastTextIdentifier(Path(name.removeprefix(FASTTEXT_PREFIX)), languages, *options)
    return EXTERNAL_IDENTIFIERS[name](languages, *options)


def _choose_by_coverage(
    languages: Languages, training_text: TrainingText | None, options: tuple[bool, bool]
) -> LanguageIdentifier:
    """Choose the installed identifier that knows the most languages; the first one among equals.

    All candidates have permissive licences. Logs the choice and the languages that the identifier does not know.
    """
    chosen: ExternalIdentifier | None = None
    unknown = list(languages)
    for identifier_class in EXTERNAL_IDENTIFIERS.values():
        try:
            identifier = identifier_class(languages, *options)
        except ManyglotError:  # not installed, or it knows no language
            continue
        if len(its_unknown := [code for code in languages if identifier.label_for(code) is None]) < len(unknown):
            chosen, unknown = identifier, its_unknown
        if not unknown:
            break
    num_known = len(languages) - len(unknown)
    if num_known < MIN_COVERAGE * len(languages) and training_text is not None:
        print_status(
            f"Language identifier: profile, learned from the training text. Installed identifiers know at most "
            f"{num_known} of {len(languages)} languages."
        )
        return _learn_profile(languages, training_text)
    if chosen is None:
        raise ManyglotError(
            "No installed language identifier knows any language of the data. "
            f"Set evaluation.language_identifier to {FASTTEXT_PREFIX}PATH, a model that knows them."
        )
    but_not = f", not {', '.join(unknown)}" if unknown else ""
    print_status(
        f"Language identifier: {chosen.package_name}, which knows {num_known} of {len(languages)} languages{but_not}."
    )
    return chosen


def _learn_profile(languages: Languages, training_text: TrainingText) -> NgramProfileIdentifier:
    return NgramProfileIdentifier(
        {code: list(islice(training_text(code), MAX_PROFILE_SENTENCES)) for code in languages}
    )
