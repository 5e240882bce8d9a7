"""Match the languages that files name with those of a dataset: deu_Latn with de, eng and eng-US with en."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from manyglot.corpus.language_lookup import best_matching_codes, parse_language_code
from manyglot.errors import LanguageError, shorten

HOW_TO_STATE = "State the language with corpus.language_codes"


def match_languages(names: Iterable[str], codes: Iterable[str]) -> dict[str, str]:
    """Map the names that mean one of the codes to it, and omit the others.

    If several names mean one code, such as eng and eng-US for en, the most similar one is used.
    """
    codes = list(codes)
    names_by_code: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        matches = [name] if name in codes else best_matching_codes(parse_language_code(name), codes)
        if len(matches) > 1:
            example = f"{{{shorten(name)}: {matches[0]}}}"
            raise LanguageError(
                f"'{shorten(name)}' may mean {' or '.join(sorted(matches))}. {HOW_TO_STATE}, such as {example}."
            )
        for code in matches:
            names_by_code.setdefault(code, []).append(name)
    return {_best_name(code, some): code for code, some in names_by_code.items()}


def check_distinct(codes_by_name: Mapping[str, str]) -> None:
    """Raise an error if two names mean one language."""
    names: dict[str, str] = {}
    for name, code in codes_by_name.items():
        other = names.setdefault(code, name)
        if other != name:
            raise LanguageError(
                f"'{shorten(other)}' and '{shorten(name)}' are both text in {code}. {HOW_TO_STATE} of one of them only."
            )


def _best_name(code: str, names: list[str]) -> str:
    wanted = parse_language_code(code)
    best = [name for name in names if name == code] or best_matching_codes(wanted, names) or names
    if len(best) > 1:  # zh means zho_Hans rather than zho_Hant
        full = wanted.with_likely_subtags()
        best = [name for name in best if parse_language_code(name).with_likely_subtags() == full] or best
    check_distinct(dict.fromkeys(best, code))
    return best[0]
