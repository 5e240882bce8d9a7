"""Variants of the Transformer under test: each of its settings differs from the paper's model in one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "M2M100": {
        "norm": "pre", "embedding_norm": False, "position_offset": 2, "activation": "gelu", "scale_embeddings": False,
        "source_tag": True,
    },
    "MBart": {"norm": "pre", "positions": "learned", "max_positions": 128, "activation": "gelu", "source_tag": True},
    "Marian": {
        "embedding_norm": False, "positions": "learned", "max_positions": 128, "activation": "silu",
        "output_bias": True, "start_symbol": "pad",
    },
}  # fmt: skip
