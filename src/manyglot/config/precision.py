"""The type of the precision settings of training and decoding."""

from __future__ import annotations

from typing import Literal

Precision = Literal["auto", "float32", "bfloat16"]
