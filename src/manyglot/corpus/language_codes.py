"""Language codes in all common styles: de, deu, ger, deu_Latn, de-DE, pt-BR, por_Latn_braz1360.

`parse_language_code` splits a code of any style into its parts, and `format_language_code` writes it in one style. Two
codes are spellings of one language if `ParsedLanguageCode.minimal` is equal. Unicode CLDR gives the equivalent codes
(deu and ger are de, cmn is zh) and the usual script of each language.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from babel.core import get_global

CodeStyle = Literal["as_given", "bcp47", "iso639-3", "flores"]
"""How to show language codes: as the corpus names them, or as in de, pt-BR / deu, por-BR / deu_Latn."""

_CANONICAL_LANGUAGES = {"ajp": "ajp", "pbt": "ps", "quy": "qu", "tw": "tw", "twi": "tw"}
"""Languages that CLDR replaces by another one of FLORES-200 (ajp, twi), and standard members of macrolanguages."""
_GLOTTOCODE_VARIETIES = {
    "apc-nort3139": "apc",
    "apc-sout3123": "ajp",
    "ca-vale1252": "ca-valencia",
    "oc-aran1260": "oc-aranes",
    "pt-braz1246": "pt-BR",
    "pt-braz1360": "pt-BR",
    "tw-akua1239": "ak",
    "tw-asan1239": "tw",
}
"""Glottocodes of FLORES+ with the equivalent BCP 47 codes; in FLORES-200, Akuapem Twi is ak and Asante Twi is tw."""
_STANDARD_MEMBERS = """adp als arb ayr azj cls cmn cwd drh ekk esk fat fuc gaz gug ike khk kmr knc kng kpv lvs mol npi
    ojg ory pbu pes plt prp quz src swh twi uzn ydd zsm zyb"""
"""Members of macrolanguages and retired codes that CLDR replaces by a two-letter code: arb by ar, ara in ISO 639-3."""
_BIBLIOGRAPHIC_CODES = "alb arm baq bur chi cze dut fre geo ger gre ice mac mao may per rum scc scr slo tib wel"
"""Codes of ISO 639-2 that ISO 639-3 does not have."""
_FLORES_LANGUAGES = {
    "ar": "arb",
    "ay": "ayr",
    "az": "azj",
    "din": "dik",
    "fa": "pes",
    "fil": "tgl",
    "kr": "knc",
    "ku": "kmr",
    "lv": "lvs",
    "mg": "plt",
    "mn": "khk",
    "ms": "zsm",
    "ne": "npi",
    "om": "gaz",
    "or": "ory",
    "ps": "pbt",
    "qu": "quy",
    "sq": "als",
    "sw": "swh",
    "uz": "uzn",
    "yi": "ydd",
}
"""Languages that FLORES-200 names by other codes than ISO 639-3 does, mostly by members of the macrolanguage."""
_REGIONAL_LANGUAGES = {("fa", "AF"): "prs"}
"""Languages with a code of their own in ISO 639-3 and a region in CLDR."""
ALSO_WRITTEN_IN_LATIN = frozenset({"crh", "kaa", "kk", "shi", "sr", "tt", "tzm", "zgh"})
"""Languages whose usual script in CLDR is another one, but which are not merely romanized in Latin script."""


class ParsedLanguageCode(NamedTuple):
    """The parts of a language code; absent parts are empty."""

    language: str
    script: str = ""
    region: str = ""
    variant: str = ""

    def __str__(self) -> str:
        return "-".join(filter(None, self))

    @property
    def minimal(self) -> ParsedLanguageCode:
        """The code without its script if that is the usual one: deu_Latn becomes de, zh-Hant-TW becomes zh-TW."""
        without_script = self._replace(script="")
        return without_script if without_script.with_likely_subtags().script == self.script else self

    @property
    def is_language_only(self) -> bool:
        """Whether the code has no region, no variant, and no script but the usual one."""
        return not any(self.minimal[1:])

    def with_likely_subtags(self) -> ParsedLanguageCode:
        """Fill in the likely script and region where they are absent: zh-tw becomes zh-Hant-TW."""
        likely, aliases = get_global("likely_subtags"), get_global("language_aliases")
        keys = ((self.language, self.script, self.region), (self.language, self.region), (self.language, self.script))
        full = next((likely[k] for k in ("_".join(filter(None, key)) for key in keys) if k in likely), None)
        language = self.language if self.language in likely else aliases.get(self.language, self.language)
        default = parse_language_code(full or likely.get(language, language))
        return self._replace(script=self.script or default.script, region=self.region or default.region)

    def contradicts(self, other: ParsedLanguageCode) -> bool:
        """Whether two codes of one language exclude each other, such as pt-pt and pt-br, or zh-cn and zh-Hant.

        A code without script and region excludes romanized text only: ar contradicts arb_Latn, but sr not sr-Latn.
        """
        if any(a and b and a != b for a, b in zip(self[2:], other[2:], strict=True)):
            return True
        if self._says_nothing_of_script or other._says_nothing_of_script:
            return self._is_romanized != other._is_romanized
        return self.with_likely_subtags().script != other.with_likely_subtags().script

    @property
    def _says_nothing_of_script(self) -> bool:
        return not self.script and not self.region

    @property
    def _is_romanized(self) -> bool:
        usual = ParsedLanguageCode(self.language).with_likely_subtags().script
        return self.script == "Latn" and usual not in ("", "Latn") and self.language not in ALSO_WRITTEN_IN_LATIN


@lru_cache(maxsize=4096)
def parse_language_code(code: str) -> ParsedLanguageCode:
    """Parse a code in any case and with `-` or `_`, and replace aliases of its language with CLDR's code."""
    first, *rest = code.replace("_", "-").casefold().split("-")
    alias = _CANONICAL_LANGUAGES.get(first) or get_global("language_aliases").get(first, first)
    language, *implied = alias.replace("_", "-").casefold().split("-")
    script = next((part for part in (*rest, *implied) if re.fullmatch("[a-z]{4}", part)), "")
    region = next((part for part in (*rest, *implied) if re.fullmatch("[a-z]{2}|[0-9]{3}", part)), "")
    variant = "-".join(part for part in rest if part not in (script, region))
    if variety := _GLOTTOCODE_VARIETIES.get(f"{language}-{variant}"):
        same = parse_language_code(variety)
        return same._replace(script=script.title(), region=same.region or region.upper())
    script = "kore" if script == "hang" else script  # FLORES names a part of the Korean script
    return ParsedLanguageCode(language, script.title(), region.upper(), variant)


def format_language_code(code: str, style: CodeStyle) -> str:
    """Write a code in a style. All styles of a code have the same `minimal` form."""
    if style == "as_given":
        return code
    parsed = parse_language_code(code).minimal
    if style == "bcp47":
        return str(parsed)
    language = _three_letter_codes().get(parsed.language, parsed.language)
    if regional := _REGIONAL_LANGUAGES.get((parsed.language, parsed.region)):
        language, parsed = regional, parsed._replace(region="")
    elif style == "flores":
        language = _FLORES_LANGUAGES.get(parsed.language, language)
    if style == "flores":
        script = parse_language_code(code).with_likely_subtags().script
        return "_".join(filter(None, (language, "Hang" if script == "Kore" else script, *parsed[2:])))
    return "-".join(filter(None, (language, *parsed[1:])))


@cache
def _three_letter_codes() -> dict[str, str]:
    """Map the two-letter codes of ISO 639-1 to those of ISO 639-3."""
    replaced = {*_STANDARD_MEMBERS.split(), *_BIBLIOGRAPHIC_CODES.split()}
    aliases = {three: two for three, two in get_global("language_aliases").items() if (len(three), len(two)) == (3, 2)}
    return {"tw": "twi"} | {two: three for three, two in aliases.items() if three not in replaced}
