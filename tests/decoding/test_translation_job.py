from __future__ import annotations

import gzip
import io
import json
import os
import signal
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manyglot.decoding.deferred_interrupt import defer_keyboard_interrupt
from manyglot.decoding.text_splitter import SplitMode, TextOptions
from manyglot.decoding.translation_job import JobOutcome, TranslationJob
from manyglot.decoding.translation_requests import parse_tsv_columns
from manyglot.errors import CorpusError, ManyglotError
from tests.decoding.stub import stub


def run(data: bytes = b"", **options: Any) -> tuple[list[str], JobOutcome]:
    """Return the lines that a job writes to standard output, and its outcome."""
    stdout = io.BytesIO()
    outcome = TranslationJob(**options).run(stub(), io.BytesIO(data), stdout)
    return stdout.getvalue().decode().splitlines(), outcome


def test_text_from_stdin_to_stdout() -> None:
    assert run(b"one\n\ntwo\n", targets=["German"]) == (["de:one", "", "de:two"], JobOutcome(3, 0))


def test_several_files_to_one_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"three\n"))
    files = [tmp_path / "a.txt", tmp_path / "b.txt.gz"]
    lines, outcome = run(files=files, targets=["de"], output=tmp_path / "out.txt")
    assert (lines, outcome) == ([], JobOutcome(3, 0))
    assert (tmp_path / "out.txt").read_text() == "de:one\nde:two\nde:three\n"
    run(files=files, targets=["de"], output=tmp_path / "out.gz")
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()) == b"de:one\nde:two\nde:three\n"


def test_a_dash_means_standard_input_and_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dash, file = Path("-"), tmp_path / "a.txt"
    file.write_text("file\n")
    assert run(b"one\n", files=[dash], targets=["de"], output=dash) == (["de:one"], JobOutcome(1, 0))
    assert run(b"one\n", files=[file, dash, file], targets=["de"])[0] == ["de:file", "de:one", "de:file"]
    assert len(run(b"one\n", files=[dash], targets=["de", "fr"], output=dash)[0]) == 3  # a TSV table with a header
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(ManyglotError, match=r"- is given twice\. Standard input can be read only once"):
        run(b"one\n", files=[dash, dash], targets=["de"])


def test_text_in_several_languages_becomes_tsv_or_one_file_each(tmp_path: Path) -> None:
    lines, _ = run(b"one\n", targets=["de", "fr"])
    assert lines[1:] == ["one\tde\tde:one\t\t\t\t", "one\tfr\tfr:one\t\t\t\t"]
    run(b"one\ntwo\n", targets=["de", "fr"], output=tmp_path / "out.txt")
    assert (tmp_path / "out.fr.txt").read_text() == "fr:one\nfr:two\n"


def test_lines_may_name_their_own_targets() -> None:
    lines, outcome = run(b"one\tfr\ntwo\t\n\nthree\tfr,de\n", targets=["de"], input_format="tsv")
    assert [line.split("\t")[2] for line in lines[1:]] == ["fr:one", "de:two", "", "fr:three", "de:three"]
    assert outcome == JobOutcome(4, 0)
    lines, outcome = run(b'{"text": "one", "to": "fr", "id": 7}\n{"text": "two"}\n', input_format="jsonl")
    assert json.loads(lines[0]) == {"id": 7, "number": 1, "text": "one", "to": "fr", "output": "fr:one"}
    assert "names no target language" in json.loads(lines[1])["problem"]
    assert outcome == JobOutcome(2, 1)
    lines, _ = run(b"id\tlang\tbody\n7\tfr\tone\n", input_format="tsv", columns=parse_tsv_columns("body, lang"))
    assert lines[1].startswith("one\tfr\tfr:one")


def test_an_unknown_target_does_not_stop_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    request = {"text": "one", "to": ["German", "tlh", "fr", "xx"], "id": 7}
    lines, outcome = run(json.dumps(request).encode(), input_format="jsonl")
    outputs = [json.loads(line) for line in lines]
    assert [(each["to"], each["output"]) for each in outputs] == [
        ("de", "de:one"),
        ("tlh", ""),
        ("fr", "fr:one"),
        ("xx", ""),
    ]
    problem = "line 1 of stdin: Klingon (tlh) is not among the model's languages: de, en, fr."
    assert [each.get("problem", "")[:30] for each in outputs] == [
        "",
        problem[:30],
        "",
        "line 1 of stdin: Unknown langu",
    ]
    assert outputs[1]["problem"] == problem
    assert all(each["id"] == 7 for each in outputs)
    assert outcome == JobOutcome(1, 1)
    messages = capsys.readouterr().err.splitlines()
    assert messages[0] == f"manyglot: {problem}"
    assert len(messages) == 2
    lines, outcome = run(b"one\ttlh,de\n", input_format="tsv")
    assert [line.split("\t")[1:3] for line in lines[1:]] == [["tlh", ""], ["de", "de:one"]]


def test_a_request_with_invalid_text_keeps_its_fields() -> None:
    lines, outcome = run(b'{"id": 7, "text": 1.5, "to": "de"}\n', input_format="jsonl")
    outputs = json.loads(lines[0])
    assert (outputs["id"], outputs["to"], outputs["output"], outcome) == (7, "de", "", JobOutcome(1, 1))
    assert outputs["problem"].startswith('line 1 of stdin is not an object with a "text"')


def test_alternatives_and_scores() -> None:
    options: dict[str, Any] = {"targets": ["de"], "n_best": 2, "include_scores": True}
    lines, _ = run(b"one\n", output_format="jsonl", **options)
    assert json.loads(lines[0]) == {
        "number": 1,
        "text": "one",
        "to": "de",
        "output": "de:one",
        "score": 0.0,
        "alternatives": [{"output": "de:one.", "score": -1.0}],
    }
    lines, _ = run(b"one\n", output_format="tsv", **options)
    assert [line.split("\t")[2:4] for line in lines[1:]] == [["de:one", "0.0000"], ["de:one.", "-1.0000"]]


def test_failed_lines_are_listed_and_then_counted(capsys: pytest.CaptureFixture[str]) -> None:
    lines, outcome = run(b"fine\n" + b"\xff\n" * 12 + b"a\x00b\n", targets=["de"])
    assert lines == ["de:fine", *[""] * 12, "de:ab"]
    assert outcome == JobOutcome(14, 12)
    messages = capsys.readouterr().err.splitlines()
    assert messages[0] == "manyglot: line 2 of stdin is not valid UTF-8. Convert the input to UTF-8."
    assert messages[10:] == [
        "manyglot: line 14 of stdin: control characters removed: 1.",
        "manyglot: 12 lines could not be translated; the first 10 are listed above.",
    ]


def split(mode: SplitMode, **options: Any) -> dict[str, Any]:
    return {"text_options": TextOptions(split=mode, **options)}


def test_long_text_is_split_by_default() -> None:
    text = b"One one one. Two two two. Three."
    assert run(text, targets=["de"]) == (["de:One one one. de:Two two two. de:Three."], JobOutcome(1, 0))
    assert run(text, targets=["de"], **split("never"))[0] == ["de:One one one. Two two two. Three."]
    assert run(text, targets=["de"], **split("never", max_chars=15))[0] == ["de:One one one."]
    assert run(b"one. two", targets=["de"])[0] == ["de:one. two"]
    assert run(b"one. two", targets=["de"], **split("always"))[0] == ["de:one. de:two"]
    assert run(b"one one two", targets=["de"], **split("auto", max_chars=7))[0] == ["de:one one de:two"]


def test_the_source_language_selects_the_rules_for_splitting() -> None:
    text = b"See nr. 3. Two."
    assert run(text, targets=["de"], source="German", **split("always"))[0] == ["de:See nr. 3. Two."]
    assert run(text, targets=["de"], source="en", **split("always"))[0] == ["de:See nr. 3. de:Two."]
    request = json.dumps({"text": text.decode(), "from": "en", "to": "de"}).encode()
    lines, _ = run(request, input_format="jsonl", source="de", **split("always"))
    assert json.loads(lines[0])["output"] == "de:See nr. 3. de:Two."


def test_the_number_of_split_lines_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    text = b"One one one. Two two two. Three.\nshort.\n"
    run(text, targets=["de", "fr"])
    assert capsys.readouterr().err == "manyglot: 1 line was split into 3 sentences.\n"
    run(text * 2 + b"Ab cd. Ef.", targets=["de"])
    assert capsys.readouterr().err == "manyglot: 3 lines were split into 8 sentences.\n"
    run(b"short.\n", targets=["de"])
    assert capsys.readouterr().err == ""


def test_lines_that_may_lose_text_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    long = "one two three four five six seven eight nine ten " * 4
    lines, outcome = run(
        f"one \U0001f389\n{long}\n".encode() + b"\xe2\x98\x83\n" * 12, targets=["de"], input_format="text"
    )
    assert (len(lines), outcome) == (14, JobOutcome(14, 0))
    messages = capsys.readouterr().err.splitlines()
    assert messages[0] == (
        "manyglot: line 1 of stdin has characters unknown to the model: \U0001f389 (U+1F389). They may be missing in "
        "the translation."
    )
    assert "line 2 of stdin has " in messages[1]
    run(b"one\ttwo\n", targets=["de"])
    assert "unknown to the model: tab (U+0009). " in capsys.readouterr().err
    assert "the longest training text has 100. Parts of it may be missing in the translation." in messages[1]
    assert messages[-1] == ("manyglot: 13 lines have characters unknown to the model; the first 10 are listed above.")


def test_unknown_characters_are_copied_on_request() -> None:
    text, options = "one. \U0001f389 two\n\u2603\n".encode(), split("auto", copy_unknown=True)
    assert run(text, targets=["de"], **options)[0] == ["de:one. two \U0001f389", "\u2603"]
    lines, _ = run(text, targets=["de"], output_format="jsonl", **options)
    assert json.loads(lines[1])["warnings"] == [
        "The text has characters unknown to the model: \u2603 (U+2603). Whole words and symbols are copied."
    ]


def test_text_into_all_languages(tmp_path: Path) -> None:
    lines, _ = run(b"one\n", targets=["all"])
    assert [line.split("\t")[1:3] for line in lines[1:]] == [["de", "de:one"], ["en", "en:one"], ["fr", "fr:one"]]
    run(b"one\n", targets=["fr", "all"], output=tmp_path / "out.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.de.txt", "out.en.txt", "out.fr.txt"]
    lines, _ = run(b"one\tall\n", input_format="tsv")
    assert len(lines) == 4


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("options", "prompt"),
    [
        ({"targets": ["de"]}, "Translating into German (de). Type a text and press Enter; "),
        (
            {"targets": ["de", "fr"], "source": "English"},
            "Translating from English (en) into German (de), French (fr).",
        ),
        ({"input_format": "jsonl"}, "Translating. Type a JSON object and press Enter; "),
    ],
)
def test_a_terminal_shows_what_to_type(
    options: dict[str, Any], prompt: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stdout = io.BytesIO()
    TranslationJob(**options).run(stub(), Terminal(b""), stdout)
    assert capsys.readouterr().err.startswith(prompt)
    (tmp_path / "in.txt").write_text("one\n")
    TranslationJob(files=[tmp_path / "in.txt"], **(options | {"targets": ["de"], "input_format": "text"})).run(
        stub(), Terminal(b""), stdout
    )
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Text input needs a target language"),
        ({"targets": ["de"], "input_format": "xml"}, "--format: 'xml' is not known. Known: text, tsv, jsonl"),
        ({"targets": ["de"], "output_format": "json"}, "--output-format: 'json' is not known. Did you mean 'jsonl'"),
        ({"targets": ["de"], "include_scores": True}, "need TSV or JSONL output"),
        ({"targets": ["de"], "n_best": 0}, "must be at least 1"),
        (
            {"targets": ["de"], "columns": parse_tsv_columns("1,2")},
            r"--columns needs TSV input, but the input is text\. Add --format tsv",
        ),
        (
            {"input_format": "jsonl", "columns": parse_tsv_columns("3")},
            "--columns needs TSV input, but the input is jsonl",
        ),
        ({"input_format": "tsv", "output_format": "text"}, "a line may have several targets"),
        ({"targets": ["de"], "source": "sw"}, r"Swahili \(sw\) is not among the model's languages: de, en, fr"),
        ({"targets": ["sw"]}, r"Swahili \(sw\) is not among the model's languages: de, en, fr"),
    ],
)
def test_invalid_options_are_rejected_before_reading(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ManyglotError, match=message):
        run(b"one\n", **options)


@pytest.mark.parametrize("columns", ["", "1,", ",2", "1,2,", "1,2,3,4,5", "1,2,3,", "0", "1,2,0"])
def test_invalid_columns_are_rejected(columns: str) -> None:
    with pytest.raises(ManyglotError, match="column"):
        parse_tsv_columns(columns)


def test_no_file_is_overwritten_by_mistake(tmp_path: Path) -> None:
    text, out = tmp_path / "text.de.txt", tmp_path / "out.txt"
    text.write_text("one\n")
    out.write_text("precious")
    with pytest.raises(CorpusError, match=r"Cannot read .*nothing: there is no such file"):
        run(files=[text, tmp_path / "nothing"], targets=["de"], output=out)
    with pytest.raises(CorpusError, match="it is a folder"):
        run(files=[tmp_path], targets=["de"], output=out)
    assert out.read_text() == "precious"
    with pytest.raises(ManyglotError, match="would be overwritten"):
        run(files=[text], targets=["de", "fr"], output=tmp_path / "text.txt")
    with pytest.raises(ManyglotError, match=r"uncompressed or \.gz"):
        run(files=[text], targets=["de"], output=tmp_path / "out.xz")
    assert text.read_text() == "one\n"


def test_a_missing_column_is_reported_before_overwriting(tmp_path: Path) -> None:
    output = tmp_path / "out.tsv"
    output.write_text("keep")
    with pytest.raises(ManyglotError, match="no column 'lang'"):
        run(
            b"id\ttext\n7\tone\n",
            targets=["de"],
            input_format="tsv",
            columns=parse_tsv_columns("text,lang"),
            output=output,
        )
    assert output.read_text() == "keep"


def test_an_interrupted_job_reports_its_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def rule(text: str, code: str) -> list[str]:
        if text == "stop":
            raise KeyboardInterrupt
        return [f"{code}:{text}"]

    text, job = tmp_path / "in.txt", {"targets": ["de"]}
    text.write_text("One. A.\n" + "one\n" * 1099 + "stop\n")
    out, unfinished = tmp_path / "out.txt", tmp_path / "out.txt.unfinished"
    out.write_text("earlier")
    with pytest.raises(KeyboardInterrupt):
        TranslationJob(files=[text], output=out, **job).run(stub(rule), io.BytesIO(), io.BytesIO())  # type: ignore[arg-type]
    assert out.read_text() == "earlier", "a partial result must not look complete"
    assert unfinished.read_text() == "de:One. de:A.\n" + "de:one\n" * 1023
    messages = "manyglot: 1 line was split into 2 sentences.\nmanyglot: stopped after 1,024 of 1,101 lines."
    assert capsys.readouterr().err == f"{messages} Their results are in {unfinished}.\n"
    with pytest.raises(ManyglotError, match="is an input file and would be overwritten"):
        run(files=[unfinished], output=out, targets=["de"])
    run(files=[text], output=out, targets=["de"])
    assert out.read_text().count("\n") == 1101
    assert not unfinished.exists()


def test_writing_is_not_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    class Interrupting(io.BytesIO):
        def write(self, data: Any) -> int:
            if not self.tell():
                os.kill(os.getpid(), signal.SIGINT)
            return super().write(data)

    stdout = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        TranslationJob(targets=["de"]).run(stub(), io.BytesIO(b"one\n" * 2000), stdout)
    assert stdout.getvalue() == b"de:one\n" * 1024
    assert capsys.readouterr().err == "manyglot: stopped after 1,024 lines.\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_is_not_deferred() -> None:
    steps = []

    def interrupted_twice() -> None:
        with defer_keyboard_interrupt():
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("after the first")
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("after the second")

    with pytest.raises(KeyboardInterrupt):
        interrupted_twice()
    assert steps == ["after the first"]


def test_an_ignored_interrupt_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with defer_keyboard_interrupt():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_memory_does_not_grow_with_the_text() -> None:
    """Twenty thousand lines need hardly more memory than two thousand."""

    class Lines(io.RawIOBase):
        def __init__(self, number: int) -> None:
            self.pieces: Iterator[bytes] = (b"line\n" * 64 for _ in range(number // 64))

        def read(self, size: int = -1) -> bytes:
            return next(self.pieces, b"")

    def peak(number: int) -> int:
        with open(os.devnull, "wb") as nowhere:
            tracemalloc.start()
            outcome = TranslationJob(targets=["de"]).run(stub(), Lines(number), nowhere)  # type: ignore[arg-type]
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert outcome.num_lines == number
        return most

    peak(64)  # warm up one-time allocations
    assert peak(20_480) < 2 * peak(2_048)


def test_suffixes_choose_the_formats(tmp_path: Path) -> None:
    table, requests, text = (tmp_path / name for name in ("in.tsv", "in.jsonl.gz", "in.txt"))
    table.write_text("one\tfr\n")
    requests.write_bytes(gzip.compress(b'{"text": "one", "to": "fr"}\n'))
    text.write_text("one\n")
    assert run(files=[table])[0][1] == "one\tfr\tfr:one\t\t\t\t"
    assert json.loads(run(files=[requests])[0][0])["output"] == "fr:one"
    assert run(files=[table], targets=["de"], input_format="text")[0][0].startswith("de:one")
    run(files=[text], targets=["de"], output=tmp_path / "out.jsonl")
    assert json.loads((tmp_path / "out.jsonl").read_text())["output"] == "de:one"
    run(files=[text], targets=["de", "fr"], output=tmp_path / "out.tsv.gz")
    assert len(gzip.decompress((tmp_path / "out.tsv.gz").read_bytes()).splitlines()) == 3
    mixed = r"in\.txt is text and .*in\.jsonl\.gz is jsonl\. Translate them separately, or give --format\."
    with pytest.raises(ManyglotError, match=mixed):
        run(files=[requests, text], targets=["de"])


def test_a_header_is_recognized(capsys: pytest.CaptureFixture[str]) -> None:
    run(b"body\tlang\none\tfr\n", input_format="tsv")
    assert "line 1 of stdin looks like a header. Name the columns to use, such as --columns body,lang." in (
        capsys.readouterr().err
    )
    run(b"one\tfr\ntwo\ttlh\n", input_format="tsv")
    assert "header" not in capsys.readouterr().err


def test_the_same_source_and_target_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    run(b"one\n", targets=["German", "fr"], source="de")
    assert "de is also a target language; no model is trained to translate it into itself." in capsys.readouterr().err


def test_a_terminal_shows_no_empty_columns() -> None:
    for options, header in (({}, "text\tto\toutput"), ({"include_scores": True}, "text\tto\toutput\tscore")):
        stdout = Terminal()
        TranslationJob(targets=["de", "fr"], **options).run(stub(), io.BytesIO(b"one\n"), stdout)  # type: ignore[arg-type]
        first, second, _ = stdout.getvalue().decode().splitlines()
        assert first == header
        assert second.startswith("one\tde\tde:one")
        assert len(second.split("\t")) == len(header.split("\t"))
