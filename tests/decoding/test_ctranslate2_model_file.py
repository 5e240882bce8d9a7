"""Exports from strangers: a model.bin that would crash CTranslate2, or has weights that are no numbers, is refused."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from manyglot.decoding.ctranslate2.engine import CTranslate2Engine
from manyglot.decoding.ctranslate2.model_file import FIXED_SCALARS, FREE_SCALARS, check_model_files
from manyglot.decoding.engine import SearchRequest
from manyglot.errors import FolderError
from manyglot.exporters.ctranslate2 import NUM_POSITIONS, QUANTIZATION_TYPES, export_to_ctranslate2
from tests.exporters.test_ctranslate2 import COMBINATIONS, SETTINGS, random_model
from tests.sealing import forge_export_seals

pytest.importorskip("ctranslate2")

GAMMA = b"encoder/layer_0/ffn/layer_norm/gamma\0"
WEIGHT = b"encoder/layer_0/ffn/linear_0/weight\0"


@pytest.fixture(scope="module", params=[None, *QUANTIZATION_TYPES])
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports") / "model"
    export_to_ctranslate2(random_model(COMBINATIONS["laa"], norm="pre"), folder, ["de"], request.param)
    return folder


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    export_to_ctranslate2(random_model(COMBINATIONS["laa"]), tmp_path / "model", ["de"])
    return tmp_path / "model"


def data_offset(content: bytes, name: bytes) -> int:
    """Return where the values of a variable begin."""
    offset = content.index(name) + len(name)
    return offset + 1 + 4 * content[offset] + 1 + 4


def overwrite(folder: Path, offset: int, new: bytes) -> None:
    content = bytearray((folder / "model.bin").read_bytes())
    content[offset : offset + len(new)] = new
    (folder / "model.bin").write_bytes(content)


@pytest.mark.parametrize("bits", [0x7FC0, 0x7F80, 0xFF80], ids=["NaN", "infinity", "minus infinity"])
@pytest.mark.parametrize("kind", ["weight", "norm"])
def test_weights_that_are_no_numbers_are_refused(exported: Path, kind: str, bits: int) -> None:
    content = (exported / "model.bin").read_bytes()
    name = GAMMA if kind == "norm" else WEIGHT
    offset = content.index(name) + len(name)
    stored_type = content[offset + 1 + 4 * content[offset]]
    if stored_type in (1, 2):  # a quantized weight is infinite or NaN through its scale
        name = WEIGHT[:-1] + b"_scale\0"
        offset = content.index(name) + len(name)
        stored_type = content[offset + 1 + 4 * content[offset]]
    value = struct.pack("<f", np.uint32(bits << 16).view(np.float32))
    if stored_type == 4:
        value = np.float32(struct.unpack("<f", value)[0]).astype("<f2").tobytes()
    elif stored_type == 5:
        value = value[2:]
    try:
        overwrite(exported, data_offset(content, name), value)
        forge_export_seals(exported)
        with pytest.raises(FolderError, match=r"model\.bin cannot be used: .*NaN or infinity"):
            CTranslate2Engine.load(exported)
    finally:
        (exported / "model.bin").write_bytes(content)
    check_model_files(exported, NUM_POSITIONS)


def header(name: bytes, place: int, new: bytes) -> Callable[[Path], None]:
    """Overwrite bytes after the name of a variable."""

    def damage(folder: Path) -> None:
        content = (folder / "model.bin").read_bytes()
        overwrite(folder, content.index(name) + len(name) + place, new)

    return damage


def scalar(name: str, value: int) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        content = (folder / "model.bin").read_bytes()
        place = data_offset(content, b"\0" + name.encode() + b"\0")
        overwrite(folder, place, struct.pack("<b", value))

    return damage


def replaced(old: bytes, new: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        content = (folder / "model.bin").read_bytes()
        assert old in content
        (folder / "model.bin").write_bytes(content.replace(old, new))

    return damage


def config(**changes: object) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        values = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(values | changes))

    return damage


def vocabulary(change: Callable[[list[object]], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        names = json.loads((folder / "shared_vocabulary.json").read_text())
        change(names)
        (folder / "shared_vocabulary.json").write_text(json.dumps(names))

    return damage


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda folder: (folder / "model.bin").write_bytes(b""), "an empty file"),
    "another version": (lambda folder: overwrite(folder, 0, b"\x07"), "another version or kind"),
    "billions of variables": (replaced(b"Spec\0\x07\0\0\0", b"Spec\0\x07\0\0\0\xff\xff\xff"), "variables"),
    "a truncated file": (
        lambda folder: (folder / "model.bin").write_bytes((folder / "model.bin").read_bytes()[:-99]),
        "truncated",
    ),
    "more bytes": (
        lambda folder: (folder / "model.bin").write_bytes((folder / "model.bin").read_bytes() + b"x"),
        "bytes after the last variable",
    ),
    "many dimensions": (header(GAMMA, 0, b"\xff"), "255 dimensions"),
    "a huge dimension": (header(WEIGHT, 1, b"\xff\xff\xff\xff"), "contradicts its shape"),
    "a huge size": (header(GAMMA, 6, b"\xff\xff\xff\xff"), "contradicts its shape"),
    "an unknown type": (header(GAMMA, 5, b"\x09"), "contradicts its shape"),
    "exchanged dimensions": (header(WEIGHT, 1, struct.pack("<II", 16, 32)), "missing or has another shape"),
    "a weight of integers": (header(GAMMA, 5, b"\x03"), "wrong type"),
    "a variable less": (replaced(GAMMA, GAMMA[:-2] + b"x\0"), "missing or has another shape"),
    "a lost alias": (replaced(b"decoder/projection/weight", b"decoder/projection/weighs"), "missing or has"),
    "no heads": (scalar("encoder/num_heads", 0), "number of heads"),
    "negative heads": (scalar("decoder/num_heads", -4), "number of heads"),
    "heads that do not divide the width": (scalar("decoder/num_heads", 3), "number of heads"),
    "norms that differ": (scalar("decoder/pre_norm", 1), "kind of norms"),
    "an unknown activation": (scalar("decoder/activation", 99), "decoder/activation is 99"),
    "activations that differ": (scalar("decoder/activation", 3), "or the activation is wrong"),
    "an unknown scale of the embeddings": (scalar("encoder/scale_embeddings", 2), "encoder/scale_embeddings is 2"),
    "an unknown start symbol": (config(decoder_start_token="<2de>"), "not the configuration of an exported model"),
    "an alignment layer": (scalar("decoder/alignment_layer", 77), "decoder/alignment_layer is"),
    "a configuration of another kind": (config(quantization_type=1), "not the configuration of an exported"),
    "an unknown end symbol": (config(eos_token="?"), "not the configuration of an exported"),
    "a norm without epsilon": (config(layer_norm_epsilon=0.0), "not the configuration of an exported"),
    "a symbol more": (vocabulary(lambda names: names.append("<new>")), "missing or has another shape"),
    "a symbol twice": (vocabulary(lambda names: names.__setitem__(5, names[4])), "distinct symbols"),
    "a symbol that is a number": (vocabulary(lambda names: names.__setitem__(5, 5)), "distinct symbols"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_export_is_refused_in_one_line(plain: Path, name: str) -> None:
    damage, message = HOSTILE[name]
    damage(plain)
    forge_export_seals(plain)
    with pytest.raises(FolderError, match=message) as caught:
        CTranslate2Engine.load(plain)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_more_positions_than_the_table_has_are_refused(plain: Path) -> None:
    forge_export_seals(plain, num_positions=10**6)
    with pytest.raises(FolderError, match="fewer than 1,000,000 positions"):
        CTranslate2Engine.load(plain)


def test_subwords_that_do_not_fit_the_vocabulary_are_refused(plain: Path) -> None:
    forge_export_seals(plain, languages=["de", "en", "fr", "sw"])
    with pytest.raises(FolderError, match="the subwords do not fit the vocabulary"):
        assert CTranslate2Engine.load(plain).vocabulary


def test_all_scalars_of_an_export_are_known(plain: Path) -> None:
    content = (plain / "model.bin").read_bytes()
    assert all(b"\0" + name.encode() + b"\0" in content for name in (*FIXED_SCALARS, *FREE_SCALARS))


def test_flipped_bytes_are_refused_or_harmless(plain: Path) -> None:
    """CTranslate2 never crashes, whatever the file has."""
    content, rng = (plain / "model.bin").read_bytes(), random.Random(1)
    places = [content.index(b"layer_0/") + offset for offset in range(-200, 2000)]
    for _ in range(40):
        damaged = bytearray(content)
        damaged[rng.choice(places)] ^= 1 << rng.randrange(8)
        (plain / "model.bin").write_bytes(damaged)
        forge_export_seals(plain)
        with suppress(FolderError):
            engine = CTranslate2Engine.load(plain, inter_threads=1)
            engine.search(SearchRequest([[5, 6]], [engine.languages.id("de")], SETTINGS))
