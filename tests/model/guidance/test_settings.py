"""The validation of the guidance list: errors are one line that names the setting and the allowed values."""

from __future__ import annotations

from typing import Any

import pytest

from manyglot.errors import SettingsError
from manyglot.model.guidance import check_compatible_methods, check_target_language_conveyed, parse_method_settings
from manyglot.model.guidance.base import Site
from manyglot.model.guidance.lee import SITE_BY_PAPER_NUMBER, LEESettings


def read(*methods: dict[str, Any]) -> None:
    check_target_language_conveyed(check_compatible_methods(tuple(parse_method_settings(each) for each in methods)))


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ([{"method": "lea"}], "guidance.method: 'lea' is not known. Did you mean 'lee'?"),
        (
            [{"method": "laa", "sites": ["dec.selv"]}],
            "guidance.laa.sites: this method cannot act at dec.selv. Did you mean 'dec.self'? It",
        ),
        ([{"method": "laa", "sites": ["dec.ffn"]}], "act at dec.ffn. It can act at enc.self, dec.self, dec.cross."),
        ([{"method": "adapter", "sites": ["memory"]}], "act at memory. It can act at enc.self, enc.ffn, dec.self,"),
        (
            [{"method": "lee", "sites": []}],
            "guidance.lee.sites: an empty list has no effect. It can act at enc.ffn,",
        ),
        (
            [{"method": "lee", "sites": [7]}],
            "cannot act at 7. It can act at enc.ffn, enc.self, dec.ffn, dec.cross, dec.self, memory, or their numbers",
        ),
        (
            [{"method": "lee", "sites": [5, "dec.self"]}],
            "guidance.lee.sites: dec.self is listed twice in [5, 'dec.self'].",
        ),
        ([{"method": "lee", "sites": [["dec.self"]]}], "guidance.lee.sites: this method cannot act at ['dec.self']."),
        ([{"method": "laa", "sites": [5]}], "guidance.laa.sites: this method cannot act at 5. It can act at enc.self,"),
        ([{"method": "LAA"}], "guidance.method: 'LAA' is not known. Did you mean 'laa'?"),
        (
            [{"method": "laa", "sites": "dec.self"}],
            "guidance.laa.sites: this should be a list, such as [enc.self]; got 'dec.self'.",
        ),
        ([{"method": "lalt", "residuel": True}], "guidance.lalt.residuel is not a setting. Did you mean 'residual'?"),
        ([{"method": "token"}, {"method": "token", "side": "target"}], "guidance: token is listed twice."),
        ([{"method": "laa"}, {"method": "laa"}], "guidance: laa is listed twice. List each method once."),
        (
            [{"method": "random_laa", "init_gain": 1.0}],
            "random_laa alone does not tell the model its target language. Add one of token, lee, adapter",
        ),
        (
            [{"method": "laa", "rank": 4, "init_gain": 1.0}],
            "guidance.laa: rank: 4 needs init_gain: 0, because matrices of low rank start at zero. Remove one of them.",
        ),
        (
            [{"method": "adapter", "rank": 4, "residual": False}],
            "guidance.adapter: rank: 4 needs residual: true, because x W with a matrix of low rank loses most of x.",
        ),
        ([{"method": "adapter", "rank": 0}], "guidance.adapter.rank: input should be greater than or equal to 1, got"),
        *(
            ([{"method": name, "rank": 4}], f"guidance.{name}.rank is not a setting.")
            for name in ("token", "lee", "laln", "lalt")
        ),
        ([], "guidance: an empty list does not tell the model its target language."),
        (
            [{"method": "random_laa", "init_gain": 1.0}, {"method": "laa"}],
            "guidance: random_laa and laa cannot be combined: random_laa is the control experiment",
        ),
    ],
)
def test_mistakes_are_explained_in_one_line(methods: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(*methods)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_site_lists_the_possible_ones() -> None:
    with pytest.raises(SettingsError, match=r"dec\.self"):
        read({"method": "lee", "sites": ["decoder.self"]})


def test_the_numbers_of_the_paper_are_accepted_as_sites() -> None:
    """4 and 5 are cross-attention and the decoder's self-attention; the others are our reading of the paper."""
    assert LEESettings(sites=(4, "5")).sites == (Site.DEC_CROSS, Site.DEC_SELF)  # type: ignore[arg-type]
    assert SITE_BY_PAPER_NUMBER == {
        1: Site.ENC_FFN,
        2: Site.ENC_SELF,
        3: Site.DEC_FFN,
        4: Site.DEC_CROSS,
        5: Site.DEC_SELF,
        6: Site.MEMORY,
    }


def test_saved_settings_contain_site_names() -> None:
    assert parse_method_settings({"method": "lee", "sites": [4, 5]}).model_dump(mode="json") == {
        "method": "lee",
        "sites": ["dec.cross", "dec.self"],
    }


@pytest.mark.parametrize(
    "methods",
    [
        [{"method": "laa"}, {"method": "token", "side": "target"}],
        [{"method": "laa"}, {"method": "lee"}],
        [{"method": "random_laa", "init_gain": 1.0}, {"method": "token"}],
        [{"method": "adapter"}, {"method": "lee"}],
        [{"method": "adapter", "rank": 4}, {"method": "laa", "rank": 1, "init_gain": 0}],
        [{"method": "laln"}, {"method": "lalt"}, {"method": "laa"}, {"method": "adapter"}, {"method": "token"}],
    ],
)
def test_compatible_methods_are_accepted(methods: list[dict[str, Any]]) -> None:
    read(*methods)
