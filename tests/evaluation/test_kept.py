from __future__ import annotations

import json
from pathlib import Path

import pytest

from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.evaluation.kept import Kept

DE, FR = Direction("en", "de"), Direction("en", "fr")
OUTPUTS = {DE: ["x", ""], FR: ["y\u2028", "</z>\ud800"]}  # half a letter, as a tokenizer may leave it
ORIGIN = {"model": {"model.safetensors": "abc"}, "decoding": {"beam": 5}}


def test_what_is_kept_is_read_by_all_processes(tmp_path: Path) -> None:
    Kept(tmp_path, ORIGIN, 0).add({DE: OUTPUTS[DE]})
    Kept(tmp_path, ORIGIN, 3).add({FR: OUTPUTS[FR]})
    assert Kept(tmp_path, ORIGIN, 1).read() == OUTPUTS


def test_what_depends_on_something_else_is_not_used(tmp_path: Path) -> None:
    kept = Kept(tmp_path, ORIGIN)
    kept.add(OUTPUTS)
    assert Kept(tmp_path, {**ORIGIN, "decoding": {"beam": 1}}).read() == {}
    assert json.loads(kept.path.read_text().splitlines()[0]) == {"origin": ORIGIN}
    kept.clear()
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_was_cut_off_is_no_line_and_spoils_no_other(tmp_path: Path) -> None:
    kept = Kept(tmp_path, ORIGIN)
    kept.add(OUTPUTS)
    whole = kept.path.read_bytes()
    third = whole.rindex(b"\n", 0, -1) + 1
    for end in range(len(whole)):
        kept.path.write_bytes(whole[:end])
        found = kept.read()
        assert found.keys() == {d for d, last in ((DE, third - 1), (FR, len(whole) - 1)) if end >= last}
        kept.add({FR: ["1", "2"]})
        assert kept.read()[FR] == ["1", "2"]
        kept.path.unlink()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManyglotError, match=r"Cannot write .*translated-"):
        Kept(tmp_path / "none", ORIGIN).add(OUTPUTS)
