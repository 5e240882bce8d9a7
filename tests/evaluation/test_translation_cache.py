from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.evaluation.translation_cache import SentenceSpan, TranslationCache

DE, FR = SentenceSpan(Direction("en", "de"), 0, 2), SentenceSpan(Direction("en", "fr"), 7, 9)
OUTPUTS = {DE: ["x", ""], FR: ["y\u2028", "</z>\ud800"]}  # half a surrogate pair, as a tokenizer may leave it
CACHED = {span.direction: dict(enumerate(texts, span.start)) for span, texts in OUTPUTS.items()}
PROVENANCE = {"model": {"model.safetensors": "abc"}, "decoding": {"beam_size": 5}}


def test_all_processes_read_the_whole_cache(tmp_path: Path) -> None:
    TranslationCache(tmp_path, PROVENANCE, 0).add({DE: OUTPUTS[DE]})
    TranslationCache(tmp_path, PROVENANCE, 3).add({FR: OUTPUTS[FR]})
    assert TranslationCache(tmp_path, PROVENANCE, 1).read() == CACHED


def test_spans_of_a_direction_are_joined(tmp_path: Path) -> None:
    cache = TranslationCache(tmp_path, PROVENANCE)
    cache.add({SentenceSpan(DE.direction, 2, 3): ["z"]})
    cache.add({DE: OUTPUTS[DE]})
    assert cache.read() == {DE.direction: {0: "x", 1: "", 2: "z"}}


def test_outputs_of_another_provenance_are_ignored(tmp_path: Path) -> None:
    cache = TranslationCache(tmp_path, PROVENANCE)
    cache.add(OUTPUTS)
    assert TranslationCache(tmp_path, {**PROVENANCE, "decoding": {"beam_size": 1}}).read() == {}
    assert json.loads(cache.path.read_text().splitlines()[0]) == {"provenance": PROVENANCE}
    cache.clear()
    assert list(tmp_path.iterdir()) == []


def test_a_truncated_line_is_ignored_and_harms_no_other(tmp_path: Path) -> None:
    cache = TranslationCache(tmp_path, PROVENANCE)
    cache.add(OUTPUTS)
    whole = cache.path.read_bytes()
    third = whole.rindex(b"\n", 0, -1) + 1
    for end in range(len(whole)):
        cache.path.write_bytes(whole[:end])
        cached = cache.read()
        assert cached.keys() == {
            span.direction for span, last in ((DE, third - 1), (FR, len(whole) - 1)) if end >= last
        }
        cache.add({FR: ["1", "2"]})
        assert cache.read()[FR.direction] == {7: "1", 8: "2"}
        cache.path.unlink()


def test_damaged_lines_are_ignored(tmp_path: Path) -> None:
    cache = TranslationCache(tmp_path, PROVENANCE)
    cache.add(OUTPUTS)
    whole = cache.path.read_bytes()
    first = whole.index(b"\n") + 1
    for position in range(first, len(whole)):
        cache.path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        cached = cache.read()
        assert len(cached) < 2 or position == len(whole) - 1
        assert all(CACHED[direction] == texts for direction, texts in cached.items())
    odd = [b"[" * 5000, b"{}", b"3", b'{"digest": [], "outputs": 3}']
    cache.path.write_bytes(whole[:first] + b"\n".join(odd) + b"\n" + whole[first:])
    assert cache.read() == CACHED


def test_a_cache_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    cache = TranslationCache(tmp_path, PROVENANCE)
    os.mkfifo(cache.path)
    for use in (cache.read, lambda: cache.add(OUTPUTS)):
        with pytest.raises(ManyglotError, match="is not a file"):
            use()


def test_an_unwritable_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManyglotError, match=r"Cannot write .*translated-"):
        TranslationCache(tmp_path / "none", PROVENANCE).add(OUTPUTS)
