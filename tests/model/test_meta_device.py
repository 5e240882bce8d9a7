"""Modules on the meta device cost neither memory nor time."""

from __future__ import annotations

import subprocess
import sys

from torch import nn

from manyglot.model.meta_device import meta_device

PROGRAM = """
import sys
from manyglot.model.guidance import parse_method_settings
from manyglot.model.meta_device import meta_device
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer

methods = [parse_method_settings({"method": name}) for name in ("laa", "lalt")]
with meta_device():
    Transformer(ModelSettings(), methods, 9, 2)
print("torch._dynamo" in sys.modules)
"""


def test_modules_have_shapes_but_no_weights() -> None:
    with meta_device():
        layers = nn.Linear(3, 4), nn.Embedding(5, 6), nn.LayerNorm(7)
    assert [tuple(layer.weight.shape) for layer in layers] == [(4, 3), (5, 6), (7,)]
    assert all(parameter.is_meta for layer in layers for parameter in layer.parameters())


def test_building_a_model_does_not_import_the_compiler() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
