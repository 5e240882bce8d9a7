from __future__ import annotations

import gzip
import io
import json
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.corpus.languages import Languages
from manyglot.decoding.input_lines import MAX_LINE_BYTES
from manyglot.decoding.translation_requests import (
    TextFormat,
    TranslationRequest,
    TsvColumns,
    expand_all,
    group_into_blocks,
    parse_tsv_columns,
    read_requests,
)
from manyglot.errors import CorpusError, ManyglotError

TEXT_FORMATS: list[TextFormat] = ["text", "tsv", "jsonl"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=8,
)
NEAR_JSON = st.lists(
    st.sampled_from(['{"text": "a"', ', "to": ', '"de"', "[]", "}", "1e999", "NaN", "\n", '"\\ud800"'])
)
ANY_LINE = st.binary(max_size=40) | st.text(max_size=40).map(str.encode) | NEAR_JSON.map("".join).map(str.encode)
ANY_BYTES = st.lists(ANY_LINE).flatmap(lambda lines: st.sampled_from([b"\n", b"\r\n"]).map(lambda end: end.join(lines)))


def read(data: bytes, text_format: TextFormat = "text", **options: Any) -> list[TranslationRequest]:
    return list(read_requests(io.BytesIO(data), text_format, **options))


def num_lines(data: bytes) -> int:
    return data.count(b"\n") + bool(data and not data.endswith(b"\n"))


@given(ANY_BYTES, st.sampled_from(TEXT_FORMATS), st.none() | st.integers(2, 30))
def test_each_line_of_any_bytes_is_one_request(data: bytes, text_format: TextFormat, max_chars: int | None) -> None:
    requests = read(data, text_format, max_chars=max_chars)
    assert [request.number for request in requests] == list(range(1, num_lines(data) + 1))
    for number, request in enumerate(requests, start=1):
        assert request.location == f"line {number} of stdin"
        assert max_chars is None or len(request.text) <= max_chars
        assert not (request.problem and request.text)
        assert all(request.location in note for note in (*request.notes, request.problem or request.location))


@given(st.lists(st.binary(max_size=20)), st.integers(1, 7))
def test_chunk_boundaries_do_not_matter(lines: list[bytes], size: int) -> None:
    data = b"\n".join(lines)

    class Slow(io.BytesIO):
        def read1(self, most: int | None = -1) -> bytes:
            return super().read1(size)

    assert list(read_requests(Slow(data))) == read(data)


def test_only_newlines_of_either_kind_end_a_line() -> None:
    texts = ["\ufeffone", "two\u2028and\x1da half", "", "  four ", "five"]
    requests = read("\r\n".join(texts).encode())
    assert [request.text for request in requests] == ["one", "two\u2028and a half", "", "  four ", "five"]


def test_a_line_that_is_not_utf8_does_not_stop_the_others() -> None:
    requests = read(b"one\ntw\xff\nthree\n")
    assert [request.text for request in requests] == ["one", "", "three"]
    assert requests[1].problem == "line 2 of stdin is not valid UTF-8. Convert the input to UTF-8."


def test_removed_control_characters_are_noted() -> None:
    (request,) = read(b"a\x00b\x07c\td\re\n")
    assert request.text == "abc\td e"
    assert request.notes == ("line 1 of stdin: control characters removed: 3.",)


def test_a_long_text_is_cut_at_a_space() -> None:
    text = b"One two three. Four five six. " * 10
    (cut,) = read(text, max_chars=40)
    assert cut.text == "One two three. Four five six. One two"
    assert cut.notes == ("line 1 of stdin has 300 characters and was cut after 37.",)
    (whole,) = read(text)
    assert (whole.text, whole.notes) == (text.decode(), ())


def test_memory_is_bounded_for_endless_lines() -> None:
    class Endless(io.RawIOBase):
        """64 MiB without a newline, and a short line."""

        pieces: Iterator[bytes] = iter([*[b"x" * 2**16] * 1024, b"\nshort"])

        def read(self, size: int = -1) -> bytes:
            return next(self.pieces, b"")

    tracemalloc.start()
    long, short = read_requests(Endless())  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "longer than 1,048,576 bytes" in long.problem
    assert short.text == "short"
    assert peak < 6 * MAX_LINE_BYTES


def test_tsv_columns_by_number_and_by_name() -> None:
    rows = b"7\tde, fr\thello\n8\t\tbye\n"
    by_number = read(rows, "tsv", columns=TsvColumns(text=3, target=2))
    assert [(r.text, r.targets) for r in by_number] == [("hello", ("de", "fr")), ("bye", None)]
    by_name = read(b"id\ttarget\tenglish\r\n" + rows, "tsv", columns=TsvColumns("english", "target"))
    assert [(r.text, r.targets) for r in by_name] == [("hello", ("de", "fr")), ("bye", None)]
    assert by_name[0].location == "line 2 of stdin"
    without = read(b"names\n" + rows, "tsv", columns=TsvColumns(3, None, header=True))
    assert [(r.text, r.targets) for r in without] == [("hello", None), ("bye", None)]
    assert read(b"", "tsv", columns=TsvColumns("english")) == []
    with_source = read(b"hello\tde\ten\nbye\tde\t\n", "tsv", columns=parse_tsv_columns("1,2,3"))
    assert [(r.text, r.targets, r.source) for r in with_source] == [("hello", ("de",), "en"), ("bye", ("de",), None)]
    (only_source,) = read(b"en\thello\n", "tsv", columns=parse_tsv_columns("2,,1"))
    assert (only_source.text, only_source.targets, only_source.source) == ("hello", None, "en")


def test_invalid_columns_are_rejected_and_invalid_rows_are_marked() -> None:
    with pytest.raises(ManyglotError, match=r"stdin has no column 'txt'\. Its header has: text, to"):
        read(b"text\tto\n", "tsv", columns=TsvColumns("txt"))
    with pytest.raises(ManyglotError, match="counted from 1"):
        TsvColumns(0)
    good, bad, empty, last = read(b"a\tde\nb\n\nc\tfr\n", "tsv")
    assert (good.text, last.text, last.targets) == ("a", "c", ("fr",))
    assert bad.problem == "line 2 of stdin has 1 column; expected 2, separated by tabs."
    assert (empty.text, empty.problem) == ("", "")


@given(st.text(), st.none() | st.lists(st.text(), min_size=1), st.dictionaries(st.text(min_size=5), JSON, max_size=3))
def test_other_fields_of_a_json_request_are_preserved(text: str, to: list[str] | None, extra: dict[str, Any]) -> None:
    (request,) = read(json.dumps({**extra, "text": text, "to": to}).encode(), "jsonl")
    assert request.targets == (tuple(to) if to else None)
    assert request.extra_fields == extra
    assert request.notes or request.text == text


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", r"is not valid JSON \(.* at character 2\)"),
        ('"text"', 'is not an object with a "text"'),
        ('{"to": "de"}', 'is not an object with a "text"'),
        ('{"text": 7}', 'is not an object with a "text"'),
        ('{"text": "a", "to": 7}', '"to" must be a language'),
        ('{"text": "a", "to": ["de", 7]}', '"to" must be a language'),
        ('{"text": "a", "to": "de", "from": 7}', '"from" must be a language'),
        ('{"text": "a", "x": NaN}', "NaN is not a finite number"),
        ('{"text": "a", "x": 1e999}', "1e999 is not a finite number"),
        ('{"text": "a", "x": ' + "[" * 100_000, "nested more than 100 levels deep"),
        ('{"text": "a", "x": ' + "9" * 5000 + "}", "a number has more than 100 digits"),
        ('{"text": "a", "x": 0x10}', "is not valid JSON"),
        ('{"text": "a", "text": "b"}', "'text' is given twice"),
        ('{"text": "a", "x": {"' + "y" * 5000 + '": 1, "' + "y" * 5000 + '": 1}}', "'y{80}…' is given twice"),
        ("[" * 101 + '"' + '\\"' * 2**18 + "\\", "nested more than 100 levels deep"),
        ("[]" * 101 + '"' + '\\"' * 2**18 + "\\", "is not valid JSON"),
    ],
)
def test_invalid_json_requests_are_marked(line: str, problem: str) -> None:
    bad, good = read(f'{line}\n{{"text": "b", "to": "de"}}'.encode(), "jsonl")
    assert re.search(f"^line 1 of stdin.*{problem}", bad.problem)
    assert len(bad.problem) < 300
    assert (good.text, good.targets, good.problem) == ("b", ("de",), "")


@pytest.mark.parametrize(
    ("value", "to"),
    [({"text": 7, "to": ["de"]}, ("de",)), ({"text": None}, None), ({}, None), ({"text": "a", "to": 7}, None)],
)
def test_an_invalid_json_request_keeps_its_other_fields(value: dict[str, Any], to: tuple[str, ...] | None) -> None:
    (request,) = read(json.dumps({"id": 5, **value, "meta": [1]}).encode(), "jsonl")
    assert request.problem
    assert (request.text, request.targets, request.extra_fields) == ("", to, {"id": 5, "meta": [1]})


def test_a_lone_surrogate_is_replaced() -> None:
    (request,) = read(b'{"text": "a\\ud800b"}', "jsonl")
    assert request.text == "a\ufffdb"
    assert request.notes


def test_files_are_read_in_order(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.txt", tmp_path / "b.txt.gz"
    plain.write_bytes(b"one\ntwo")
    packed.write_bytes(gzip.compress(b"three\nf\xffur\n"))
    requests = list(read_requests([plain, packed]))
    assert [(r.number, r.text) for r in requests] == [(1, "one"), (2, "two"), (3, "three"), (4, "")]
    assert requests[3].problem.startswith(f"line 2 of {packed} is not valid UTF-8")
    packed.write_bytes(gzip.compress(b"three\nfour\n")[:-4])
    with pytest.raises(CorpusError, match="truncated"):
        list(read_requests([packed]))
    with pytest.raises(CorpusError, match="Cannot read"):
        list(read_requests([tmp_path / "missing"]))


def test_languages_are_resolved_to_codes() -> None:
    languages = Languages(["de", "fr", "pt-br"])
    requests = read(b"a\tGerman,deu,pt_BR\nb\t\nc\tKlingon\nd\n", "tsv")
    german, default, unknown, bad = (
        request.resolve_languages(languages, languages, ["French"]) for request in requests
    )
    assert german.targets == ("de", "pt-br")
    assert default.targets == bad.targets == ("fr",)
    assert unknown.problem.startswith("line 3 of stdin: Klingon (tlh) is not among")
    assert "has 1 column" in bad.problem
    assert default.resolve_languages(languages, languages).targets == ("fr",)
    assert requests[1].resolve_languages(languages, languages).problem == "line 2 of stdin names no target language."


def test_all_stands_for_all_target_languages() -> None:
    targets, languages = Languages(["de", "fr"]), Languages(["de", "en", "fr"])
    (request,) = read(b'{"text": "a", "to": ["fr", "all"]}', "jsonl")
    assert request.resolve_languages(targets, languages).targets == ("fr", "de")
    assert expand_all(["all"], Languages(["all", "de"])) == ["all"]  # Allar


def test_the_source_language_of_a_request_may_differ_from_the_default() -> None:
    languages = Languages(["de", "en"])
    requests = read(b'{"text": "a", "from": "German"}\n{"text": "b"}\n{"text": "c", "from": "tlh", "id": 7}', "jsonl")
    german, default, unknown = (each.resolve_languages(languages, languages, ["de"], "en") for each in requests)
    assert (german.source, german.extra_fields) == ("de", {"from": "German"})
    assert default.source == "en"
    assert unknown.problem == "line 3 of stdin: Klingon (tlh) is not among the model's languages: de, en."
    assert (unknown.known_targets, unknown.extra_fields["id"]) == ([], 7)


@given(st.lists(st.integers(0, 10)), st.integers(1, 4), st.integers(1, 12))
def test_blocks_hold_every_request_once_within_their_limits(sizes: list[int], most: int, most_bytes: int) -> None:
    requests = [TranslationRequest("", None, number, num_bytes=size) for number, size in enumerate(sizes)]
    blocks = list(group_into_blocks(requests, most, most_bytes))
    assert [request for block in blocks for request in block] == requests
    assert all(0 < len(block) <= most for block in blocks)
    assert all(sum(request.num_bytes for request in block[:-1]) < most_bytes for block in blocks)


@pytest.mark.parametrize("text_format", ["tsv", "jsonl"])
def test_a_request_cannot_name_very_many_unknown_languages(text_format: TextFormat) -> None:
    names = ["de", *(f"x{number}" for number in range(50_000))]
    line = json.dumps({"text": "a", "to": names}) if text_format == "jsonl" else "a\t" + ",".join(names)
    (request,) = read(line.encode(), text_format)
    languages = Languages(["de", "en"])
    resolved = request.resolve_languages(languages, languages)
    assert resolved.problem == "line 1 of stdin names more than 100 unknown target languages."
    assert (resolved.known_targets, resolved.unknown_languages) == ([], {})


def test_a_language_named_often_counts_once() -> None:
    languages = Languages(["de", "en"])
    (request,) = read(json.dumps({"text": "a", "to": ["all", "de"] * 50_000}).encode(), "jsonl")
    assert request.resolve_languages(languages, languages).known_targets == ["de", "en"]
    assert expand_all(["all"] * 50_000, languages) == ["de", "en"]


def test_a_long_language_name_makes_a_short_problem() -> None:
    languages = Languages(["de", "en"])
    for languages_given in ({"to": "x" * 100_000}, {"to": "de", "from": "x" * 100_000}):
        (request,) = read(json.dumps({"text": "a", **languages_given}).encode(), "jsonl")
        assert len(request.resolve_languages(languages, languages).problem) < 300
