"""Untrusted model folders: whatever they contain, they load or are rejected with a one-line error."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from manyglot.config.experiment import Experiment
from manyglot.decoding.translator import Translator
from manyglot.errors import FolderError, ManyglotError
from manyglot.model.model_folder import SETTINGS_END, load_model
from manyglot.model.weights_file import is_all_finite
from tests.sealing import forge_model_seals

FILES = ("model.safetensors", "config.yaml", "languages.json", "training.json", "subwords.model", "format.json")
Damage = Callable[[Path], object]


@pytest.fixture
def folder(trained: Experiment, tmp_path: Path) -> Path:
    """A model folder. The tests forge its seals, as an attacker would."""
    shutil.copytree(trained.run / "model", tmp_path / "model")
    return tmp_path / "model"


def loads_or_is_refused(folder: Path) -> bool:
    """Return whether the model loads and is finite; otherwise check that the error is a FolderError."""
    message = ""
    try:
        model = load_model(folder)
    except FolderError as error:
        message = str(error)
    if message:
        assert len(message) < 1000
        assert message.isprintable()
        return False
    assert all(bool(parameter.isfinite().all()) for parameter in model.model.parameters())
    pieces = range(2, len(model.vocabulary))
    assert model.vocabulary.decode([*model.vocabulary.encode(["any text"]), pieces])
    return True


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Flip, delete, duplicate or insert bytes."""
    parts = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        place, length = rng.randrange(len(parts) + 1), rng.randrange(1, 20)
        match rng.randrange(5):
            case 0:
                parts[place : place + 1] = bytes([rng.randrange(256)])
            case 1:
                parts[place : place + 1] = bytes(byte ^ 1 << rng.randrange(8) for byte in parts[place : place + 1])
            case 2:
                del parts[place : place + length]
            case 3:
                parts[place:place] = rng.choice(
                    [rng.randbytes(length), parts[:length], b"9" * length, b"\x1b[2J", b"[{&*"]
                )
            case _:
                del parts[place:]
    return bytes(parts)


@pytest.mark.parametrize("name", FILES)
def test_damaged_bytes_are_rejected_or_harmless(folder: Path, name: str) -> None:
    content, rng = (folder / name).read_bytes(), random.Random(name)
    loaded = 0
    for _ in range(100):
        (folder / name).write_bytes(damaged(content, rng))
        if name != "format.json":
            forge_model_seals(folder)
        loaded += loads_or_is_refused(folder)
    assert loaded < 100
    (folder / name).write_bytes(content)
    if name != "format.json":
        forge_model_seals(folder)
    assert loads_or_is_refused(folder)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([2**70, -1, "qaa", "token"]),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text() | st.just("method"), values, max_size=3),
    max_leaves=6,
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_arbitrary_values_are_rejected_or_harmless(folder: Path, trained: Experiment, data: st.DataObject) -> None:
    """Replace one value in one of the files."""
    name = data.draw(st.sampled_from([name for name in FILES if name.endswith(("json", "yaml"))]))
    values = yaml.safe_load((trained.run / "model" / name).read_text())
    inside: Any = values
    while True:
        keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(inside[key], dict | list) or not inside[key] or data.draw(st.booleans()):
            break
        inside = inside[key]
    inside[key] = data.draw(VALUES)
    try:
        text = json.dumps(values) if name.endswith("json") else yaml.safe_dump(values) + SETTINGS_END
        (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
        if name != "format.json":
            forge_model_seals(folder)
        loads_or_is_refused(folder)
    finally:
        for original in (name, "format.json"):
            shutil.copy(trained.run / "model" / original, folder / original)


def config(change: str) -> Damage:
    """Append lines to the settings."""
    return lambda folder: (folder / "config.yaml").write_text(
        (folder / "config.yaml").read_text() + change + SETTINGS_END
    )


def model(**changes: Any) -> Damage:
    """Change the settings of the model."""

    def write(folder: Path) -> None:
        values = yaml.safe_load((folder / "config.yaml").read_text())
        values["model"] |= changes
        (folder / "config.yaml").write_text(yaml.safe_dump(values) + SETTINGS_END)

    return write


def weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    """Change the weights."""

    def write(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        tensors = {name: tensor.clone() for name, tensor in tensors.items()}
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return write


def header(value: object, size: int | None = None) -> Damage:
    """Write a weights file with the given header."""
    text = json.dumps(value).encode()
    content = struct.pack("<Q", len(text) if size is None else size) + text
    return lambda folder: (folder / "model.safetensors").write_bytes(content)


def file(name: str, content: bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes(content)


BOMB = "\nbomb0: &b0 [1, 1]\n" + "".join(f"bomb{i}: &b{i} [{f'*b{i - 1}, ' * 9}]\n" for i in range(1, 20))

HOSTILE: dict[str, tuple[Damage, str]] = {
    "aliases that grow": (config(BOMB), "anchors are not allowed"),
    "an object of Python": (
        config("\nx: !!python/object/apply:os.system [exit]\n"),
        "tags are not allowed",
    ),
    "deep settings": (config("\nx: " + "[" * 20_000), "nesting is deeper than 50"),
    "a number without end": (config("\nx: 0x" + "f" * 100_000), "more than 4,096 characters"),
    "a huge number of layers": (model(num_encoder_layers=10**15), "num_encoder_layers"),
    "many layers": (model(num_encoder_layers=1000, num_decoder_layers=1000), "more layers than the weights"),
    "a wide model": (model(width=2**16, ffn_width=2**18), "do not fit config.yaml"),
    "a number of many digits": (model(width=int("9" * 4000)), "a number has more than 100 characters"),
    "a name of many letters": (model(**{"w" * 4000: 1}), "model.wwww"),
    "huge settings": (file("config.yaml", b"#" * (2**20 + 1)), "has more than 1,048,576 bytes"),
    "a huge format": (file("format.json", b" " * (2**20 + 1)), "no readable format.json"),
    "a deep format": (file("format.json", b"[" * 2**20), "no readable format.json"),
    "a format of many digits": (file("format.json", b'{"format": ' + b"9" * 4000 + b"}"), "no readable format.json"),
    "deep languages": (file("languages.json", b"[" * 2**20), "is damaged"),
    "deep training": (file("training.json", b'{"a":' * 2**17), "is damaged"),
    "lengths below 1": (
        file("training.json", b'{"source_lengths": {"max_subwords": 0}}'),
        "source_lengths.max_subwords",
    ),
    "lengths that are a list": (file("training.json", b'{"source_lengths": [1]}'), "training.json"),
    "training that is a list": (file("training.json", b"[1]"), "is damaged"),
    "huge languages": (file("languages.json", b" " * 2**21), "has more than 1,0"),
    "no languages": (file("languages.json", b'{"languages": [], "trained_directions": []}'), "is damaged"),
    "a language of control characters": (
        file("languages.json", b'{"languages": [{"code": "\\u001b[2J"}], "trained_directions": []}'),
        "is not a language code",
    ),
    "directions between other languages": (
        lambda folder: file(
            "languages.json",
            (folder / "languages.json")
            .read_bytes()
            .replace(b'"trained_directions": [', b'"trained_directions": [[[], {}],'),
        )(folder),
        "is damaged",
    ),
    "huge subwords": (file("subwords.model", b"\x0a\x00" * 2**20), "has more than"),
    "many empty subwords": (file("subwords.model", b"\x0a\x00" * 2**18), "is not a SentencePiece model"),
    "weights of another type": (weights(lambda t: t.update({n: x.half() for n, x in t.items()})), "F16 .*expected F32"),
    "whole numbers": (weights(lambda t: t.update({n: x.to(torch.int64) for n, x in t.items()})), "I64"),
    "a weight that is no number": (weights(lambda t: t["embedding.weight"][3].fill_(float("nan"))), "NaN or infinity"),
    "an infinite weight": (weights(lambda t: t["embedding.weight"][3, :1].fill_(-float("inf"))), "NaN or infinity"),
    "one weight more": (weights(lambda t: t.update({"\x1b[2J" + "x" * 5000: torch.zeros(1)})), "expected nothing"),
    "one weight less": (weights(lambda t: t.pop("embedding.weight")), "embedding.weight is missing"),
    "no weights": (weights(dict.clear), "more layers than the weights"),
    "a header without end": (header({}, size=2**63), "the header has 9,223,372,036,854,775,808 bytes"),
    "a header beyond the file": (header({}, size=2**23), "cannot be read"),
    "a tensor beyond the file": (
        header({"embedding.weight": {"dtype": "F32", "shape": [2**40, 2**20], "data_offsets": [0, 2**62]}}),
        "cannot be read",
    ),
    "a large empty tensor": (
        header({"embedding.weight": {"dtype": "F32", "shape": [2**62, 0], "data_offsets": [0, 0]}}),
        "is damaged",
    ),
    "a deep header": (file("model.safetensors", struct.pack("<Q", 2**20) + b"[" * 2**20), "cannot be read"),
    "eight bytes": (file("model.safetensors", b"\xff" * 8), "the header has"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_folder_is_rejected_cheaply(folder: Path, name: str) -> None:
    damage, message = HOSTILE[name]
    damage(folder)
    if "format" not in name:
        forge_model_seals(folder)
    tracemalloc.start()
    with pytest.raises(FolderError, match=message) as caught:
        load_model(folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000
    assert peak < 2**26


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["folder", "pipe", "lost link", "link to itself", "device"])
def test_special_files_are_rejected(folder: Path, name: str, kind: str) -> None:
    path = folder / name
    path.unlink()
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case _:
            path.symlink_to(folder / "nowhere" if kind == "lost link" else path)
    assert not loads_or_is_refused(folder)


@pytest.mark.parametrize(
    "line", ["beam_size: 0x" + "f" * 4000, "beam_size: 1000000000000", "max_batch_tokens: 1000000000000", "x: 1"]
)
def test_decoding_settings_are_checked_too(folder: Path, line: str) -> None:
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text[: text.index("decoding:")] + f"decoding: {{{line}}}\n# settings:end\n")
    with pytest.raises(ManyglotError):
        Translator.load(folder, device="cpu")


@given(st.lists(st.floats(width=32)))
def test_is_all_finite(values: list[float]) -> None:
    tensor = torch.tensor(values, dtype=torch.float32)
    assert is_all_finite(tensor) == bool(tensor.isfinite().all())


def test_shared_values_are_saved_without_aliases(folder: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    from manyglot.model.model_folder import save_model

    shared = {"a": 1}
    trained = load_model(folder)
    save_model(tmp_path / "again", replace(trained, config={**trained.config, "x": shared, "y": shared}))
    assert load_model(tmp_path / "again").config["y"] == shared


@pytest.mark.parametrize("name", ["config.yaml", "format.json"])
def test_settings_outside_the_folder_are_not_read(name: str, folder: Path, tmp_path: Path) -> None:
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FolderError, match=rf"{name} is a link to .*elsewhere, outside its folder"):
        load_model(folder)


def test_a_model_in_the_hugging_face_cache_and_weights_on_another_disk_are_read(folder: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "models--someone--model" / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (snapshot.parent.parent / "blobs").mkdir()
    for number, path in enumerate(folder.iterdir()):
        path.rename(snapshot.parent.parent / "blobs" / str(number))
        (snapshot / path.name).symlink_to(f"../../blobs/{number}")
    assert load_model(snapshot).vocabulary
    (snapshot / "model.safetensors").resolve().rename(tmp_path / "weights")
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").symlink_to(tmp_path / "weights")
    assert load_model(snapshot).vocabulary
