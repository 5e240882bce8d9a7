"""The combinations of methods under test: each method alone, those of the paper, and more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from manyglot.model.guidance import METHODS, method_name, parse_method_settings
from manyglot.model.guidance.base import GuidanceMethod, MethodSettings

DECODER_SUBLAYERS = ["dec.self", "dec.cross", "dec.ffn"]
PAPER: dict[str, list[dict[str, Any]]] = {
    "Token_tgt": [{"method": "token", "side": "target"}],
    "clean Token_tgt": [{"method": "token", "side": "target", "mode": "clean"}],
    "LEE everywhere": [{"method": "lee", "sites": [1, 2, 3, 4, 5, 6]}],
    "LEE_2,5": [{"method": "lee", "sites": [2, 5]}],
    "LAA_enc.self": [{"method": "laa", "init_gain": 1.0, "sites": ["enc.self"]}],
    "LAA everywhere": [{"method": "laa", "init_gain": 1.0, "sites": ["enc.self", "dec.self", "dec.cross"]}],
    "LAA + Token_tgt": [{"method": "laa", "init_gain": 1.0}, {"method": "token", "side": "target"}],
    "LAA_dec.self,cros + LEE_4,5": [
        {"method": "laa", "init_gain": 1.0, "sites": ["dec.self", "dec.cross"]},
        {"method": "lee", "sites": ["dec.cross", "dec.self"]},
    ],
    "Adapter_enc,dec": [{"method": "adapter", "placement": "after_residual", "sites": ["enc.ffn", "dec.ffn"]}],
    "Adapter without residual + LEE_6": [
        {"method": "adapter", "placement": "after_residual", "residual": False},
        {"method": "lee", "sites": [6]},
    ],
    "Adapter before the residual": [
        {"method": "adapter", "placement": "before_residual", "sites": ["enc.self", "enc.ffn", *DECODER_SUBLAYERS]}
    ],
    "LAA + Adapter before the residual, without residual": [
        {"method": "laa", "init_gain": 1.0},
        {"method": "adapter", "placement": "before_residual", "residual": False, "sites": DECODER_SUBLAYERS},
    ],
    "LALN + LALT": [{"method": "laln"}, {"method": "lalt"}],
    "LALT + LEE + LAA": [
        {"method": "lalt", "residual": True},
        {"method": "lee", "sites": [1, 6]},
        {"method": "laa", "init_gain": 1.0, "sites": ["dec.cross"]},
    ],
    "LAA^R + Token_src": [{"method": "random_laa", "init_gain": 1.0}, {"method": "token"}],
    "LAA^R + Token_tgt": [
        {"method": "random_laa", "init_gain": 1.0, "sites": ["dec.cross"]},
        {"method": "token", "side": "target"},
    ],
}
LOW_RANK: dict[str, list[dict[str, Any]]] = {
    "Low-rank LAA + low-rank Adapter before the residual": [
        {"method": "laa", "rank": 3, "sites": ["enc.self", "dec.self", "dec.cross"]},
        {"method": "adapter", "rank": 2, "sites": ["dec.cross", "dec.ffn"]},
    ],
    "Low-rank Adapter after the residual": [{"method": "adapter", "rank": 2, "placement": "after_residual"}],
}


def _settings_without_zero_matrices(method: type[GuidanceMethod]) -> MethodSettings:
    """Return the default settings, except that matrices start at random values, so that they have an effect."""
    has_gain = "init_gain" in method.settings_type.model_fields
    return parse_method_settings({"method": method_name(method)} | ({"init_gain": 1.0} if has_gain else {}))


COMBINATIONS: dict[str, list[MethodSettings]] = {
    **{
        method_name(method): [
            _settings_without_zero_matrices(method),
            *([] if method.conveys_target_language else [parse_method_settings({"method": "token"})]),
        ]  # type: ignore[call-arg]
        for method in METHODS
    },
    **{name: [parse_method_settings(each) for each in methods] for name, methods in (PAPER | LOW_RANK).items()},
}


def with_slow_low_rank(names: Iterable[str] = COMBINATIONS) -> list[Any]:
    """Return combinations for a test in which the rank matters little: the default run omits those of low rank."""
    return [pytest.param(name, marks=pytest.mark.slow if name in LOW_RANK else ()) for name in names]
