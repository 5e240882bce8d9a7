from __future__ import annotations

import json
from pathlib import Path

import pytest

from manyglot.errors import FolderError
from manyglot.sealed_json import read_sealed_json, write_sealed_json

VALUES = {"name": "größe", "sizes": [1, 2.5, None, True], "nested": {"b": {}, "a": ""}}


def test_values_are_read_back(tmp_path: Path) -> None:
    write_sealed_json(tmp_path / "values.json", "test", VALUES)
    assert read_sealed_json(tmp_path / "values.json", "test") == VALUES
    with pytest.raises(FolderError, match="does not match its checksum"):
        read_sealed_json(tmp_path / "values.json", "other")


def test_every_edit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "values.json"
    write_sealed_json(path, "test", VALUES)
    intact = path.read_bytes()
    for position in range(len(intact)):
        damaged = bytearray(intact)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        try:
            assert read_sealed_json(path, "test") == VALUES, "only white space may change"
        except FolderError as error:
            assert str(error).startswith(f"{path} is ")  # noqa: PT017
    values = json.loads(intact)
    path.write_text(json.dumps({**values, "more": 1}))
    assert read_sealed_json(path, "test") == VALUES
    for edited in ({**values, "name": "other"}, {"seal": values["seal"]}, {**values, "seal": []}, VALUES, {}):
        path.write_text(json.dumps(edited))
        with pytest.raises(FolderError, match="does not match its checksum"):
            read_sealed_json(path, "test")
