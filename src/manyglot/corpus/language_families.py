"""The family of a language, by which a report of many languages groups its directions.

The table has the languages of FLORES-200, NTREX-128, OPUS-100 and TED-59. Large families are divided into branches.
"""

from __future__ import annotations

from functools import cache

from manyglot.corpus.languages import base_language

_LANGUAGES_BY_FAMILY = {
    "Germanic": "af da de en fo fy is lb li nb nl nn no sv yi",
    "Romance": "an ast ca es fr fur gl it lij lld lmo oc pt ro sc scn vec wa",
    "Celtic": "br cy ga gd",
    "Slavic": "be bg bs cnr cs hr mk pl ru sh sk sl sr szl uk",
    "Baltic": "lt ltg lv",
    "Other Indo-European": "el hy sq",
    "Iranian": "ckb fa ku ps tg",
    "Indo-Aryan": "as awa bho bn doi dv gu hi hne kok ks mag mai mr ne or pa sa sd si ur",
    "Uralic": "chm et fi hu myv se udm",
    "Turkic": "az azb ba crh cv kaa kk ky tk tr tt tyv ug uz uzs",
    "Mongolic": "mn",
    "Dravidian": "kn ml ta te",
    "Kartvelian": "ka",
    "Northeast Caucasian": "dar",
    "Basque": "eu",
    "Semitic": "acm acq aeb ajp am apc ar ars ary arz he mey mt ti",
    "Berber": "kab shi taq tzm zgh",
    "Other Afro-Asiatic": "ha om so",
    "Nilo-Saharan": "din kr luo nus",
    "Mande": "bm dyu nqo",
    "Bantu": "bem cjk kam kg ki kmb lg ln lua nd nso ny rn rw sn ss st sw tn ts tum umb ve vmw xh zu",
    "Other Atlantic-Congo": "ak ee ff fon fuv ig kbp mos tw wo yo",
    "Sino-Tibetan": "bo brx dz kac lus mni my wuu yue zh",
    "Tai-Kadai": "lo shn th",
    "Austroasiatic": "km sat vi",
    "Hmong-Mien": "hmn",
    "Austronesian": "ace ban bjn bug ceb fil fj id ilo jv mg mi min ms pag sm su tl to ty war",
    "Japonic": "ja",
    "Koreanic": "ko",
    "American": "ay gn qu",
    "Creole": "ht kea ktu pap sg tpi",
    "Constructed": "eo",
}
UNKNOWN_FAMILY = "Other"
FAMILIES = (*_LANGUAGES_BY_FAMILY, UNKNOWN_FAMILY)
"""All families; related branches and neighbours are next to each other."""


def language_family(code: str) -> str:
    """Return the family of a language code of any style, or `UNKNOWN_FAMILY`."""
    return _families_by_language().get(base_language(code), UNKNOWN_FAMILY)


@cache
def _families_by_language() -> dict[str, str]:
    return {language: family for family, languages in _LANGUAGES_BY_FAMILY.items() for language in languages.split()}
