"""Match the languages that settings, files and columns name in different styles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from manyglot.corpus.language_codes import CodeStyle, ParsedLanguageCode, format_language_code, parse_language_code
from manyglot.corpus.language_lookup import best_matching_codes, possible_languages, usual_member
from manyglot.corpus.languages import english_language_name, find_language, looks_like_language_code
from manyglot.errors import LanguageError


def select_languages(
    sources: Mapping[str, str], listed: Sequence[str], style: CodeStyle, corpus_name: str
) -> dict[str, str]:
    """Map the names of the selected languages, as files or columns spell them, to the codes that the corpus shows.

    `sources` maps each name to its file or column, for error messages. `listed` selects languages in any style; all are
    selected if it is empty.
    """
    selected = dict.fromkeys(_find_listed(sources, listed, corpus_name) if listed else sources)
    check_spelled_once({name: sources[name] for name in selected})
    return {name: _code_of_name(name, style) for name in selected}


def check_spelled_once(sources: Mapping[str, str]) -> None:
    """Raise an error if two names mean the same language. `sources` maps each name to its file or column."""
    names: dict[ParsedLanguageCode, str] = {}
    for name in sources:
        other = names.setdefault(parse_language_code(_code_of_name(name, "as_given")).minimal, name)
        if other != name:
            raise LanguageError(
                f"{sources[other]} and {sources[name]} are in one language, {english_language_name(other)}, "
                f"spelled in two ways. Use one spelling."
            )


def match_languages(codes: Iterable[str], available: Iterable[str], owner: str) -> dict[str, str]:
    """Map each code to the available one of the same language; languages that are not available are left out.

    Each available code is used once. Equal languages take precedence over those that differ in script or region: pt is
    por_Latn even if por_Latn_braz1360 is available. A code without an equal one gets the only one that remains, such as
    zho_Hans for zh-cn; if several remain, an error names them and `owner`, which says whose languages they are.
    """
    wanted, remaining = list(dict.fromkeys(codes)), dict.fromkeys(available)
    matches: dict[str, str] = {}
    for is_equal in (str.__eq__, _are_minimally_equal, _are_equal_with_likely_subtags, _is_usual_member):
        for code in wanted:
            if code not in matches and (equal := [other for other in remaining if is_equal(code, other)]):
                matches[code] = equal[0]
                del remaining[equal[0]]
    for code in wanted:
        if code not in matches and (best := best_matching_codes(parse_language_code(code), remaining)):
            if len(best) > 1:
                raise LanguageError(
                    f"'{code}' is ambiguous among {owner}: it may be {' or '.join(best)}. Keep one of them."
                )
            matches[code] = best[0]
            del remaining[best[0]]
    return matches


def find_central_language(setting: str | None, codes: Sequence[str]) -> str | None:
    """Return the code of the language that `corpus.central_language` names in any style; None if it is null."""
    if setting is None:
        return None
    try:
        return find_language(setting, tuple(codes), "the corpus's languages")
    except LanguageError as error:
        raise LanguageError(
            f"corpus.central_language: {error} Name one of them, or use null to train on all pairs."
        ) from None


def _find_listed(sources: Mapping[str, str], listed: Sequence[str], corpus_name: str) -> list[str]:
    """Return the names of the listed languages; two that mean the same one are refused."""
    names_by_code = {name: name for name in sources if looks_like_language_code(name)}
    listed_by_name: dict[str, str] = {}
    for language in listed:
        try:
            code = find_language(language, tuple(names_by_code), corpus_name)
        except LanguageError:  # it may be named by another name, such as German; looking names up takes longer
            names_by_code = {_code_of_name(name, "as_given"): name for name in sources} | names_by_code
            try:
                code = find_language(language, tuple(names_by_code), corpus_name)
            except LanguageError as error:
                raise LanguageError(f"corpus.languages: {error}") from None
        name = names_by_code[code]
        other = listed_by_name.setdefault(name, language)
        if other != language:
            raise LanguageError(f"corpus.languages: {other} and {language} are one language, {name}. List it once.")
    return list(listed_by_name)


def _code_of_name(name: str, style: CodeStyle) -> str:
    """Return the code of a language in a style; a name that is not a code, such as German, becomes a BCP 47 code."""
    if looks_like_language_code(name):
        return format_language_code(name, style)
    meanings = possible_languages(name)
    if len(meanings) != 1:
        return name  # the error of `check_language_code` names it
    (meaning,) = meanings
    return format_language_code(str(meaning), "bcp47" if style == "as_given" else style)


def _are_minimally_equal(code: str, other: str) -> bool:
    return parse_language_code(code).minimal == parse_language_code(other).minimal


def _are_equal_with_likely_subtags(code: str, other: str) -> bool:
    return parse_language_code(code).with_likely_subtags() == parse_language_code(other).with_likely_subtags()


def _is_usual_member(code: str, other: str) -> bool:
    parsed = parse_language_code(code)
    member = ParsedLanguageCode(usual_member(parsed.language))
    return parsed.is_language_only and parse_language_code(other).minimal == member
