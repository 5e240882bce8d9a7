from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.corpus.languages import Languages
from manyglot.decoding.lines import without_controls
from manyglot.decoding.requests import Columns, Form, Request, in_blocks, read_requests
from manyglot.decoding.results import Result, StreamWriter, join_result, open_results, refusals
from manyglot.decoding.translation import Translation
from manyglot.errors import ManyglotError
from tests.decoding.test_requests import ANY_BYTES, FORMS, num_lines

RESULTS = st.lists(
    st.builds(
        Result,
        number=st.integers(1, 9),
        source=st.text(),
        to=st.sampled_from(["de", "pt-br"]),
        output=st.text(),
        score=st.none() | st.floats(),
        alternatives=st.lists(st.builds(Translation, st.text(), st.floats()), max_size=2).map(tuple),
        on_target=st.none() | st.booleans(),
        problem=st.just("") | st.text(),
        extra=st.dictionaries(st.text(max_size=1), st.text(st.characters(exclude_categories=[])), max_size=2),
    )
)


def written(results: list[Result], form: Form) -> bytes:
    stream = io.BytesIO()
    StreamWriter(stream, form).write(results)
    return stream.getvalue()


def plain(text: str) -> str:
    return without_controls(text.replace("\t", " ").replace("\r", " ").replace("\n", " ").strip())[0]


@given(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufeff"))))
def test_text_is_read_back(outputs: list[str]) -> None:
    data = written([Result(1, "", "de", output) for output in outputs], "text")
    assert [request.text for request in read_requests(io.BytesIO(data))] == [output.strip() for output in outputs]


@given(RESULTS)
def test_tables_are_read_back(results: list[Result]) -> None:
    data = written(results, "tsv")
    assert data.count(b"\n") == len(results) + 1
    requests = list(read_requests(io.BytesIO(data), "tsv", columns=Columns("text", "to")))
    assert [(request.text, request.to) for request in requests] == [(plain(r.source), (r.to,)) for r in results]


@given(RESULTS)
def test_objects_are_read_back(results: list[Result]) -> None:
    data = written(results, "jsonl")
    requests = list(read_requests(io.BytesIO(data), "jsonl"))
    assert [(r.problem, r.to) for r in requests] == [("", (result.to,)) for result in results]
    for line, result in zip(data.decode().split("\n"), results, strict=False):
        value = json.loads(line)
        assert (value["text"], value["output"], value["number"]) == (result.source, result.output, result.number)
        alternatives = value.get("alternatives", [])
        assert [each["output"] for each in alternatives] == [each.text for each in result.alternatives]
        assert not any("score" in each for each in alternatives if result.score is None)
        assert value.get("problem", "") == result.problem
        assert result.extra.items() <= value.items()


def test_the_sentences_of_a_request_become_one_output() -> None:
    request = Request("Eins. Zwei.", ("en",), 3, parts=("Eins.", "Zwei."), extra={"id": 7})
    hypotheses = [[Translation("One.", -0.25, True)], [Translation("Two.", -0.75, True)]]
    result = join_result(request, "en", hypotheses, scores=True)
    assert result == Result(3, "Eins. Zwei.", "en", "One. Two.", -0.5, (), True, extra={"id": 7})
    assert json.loads(written([result], "jsonl")) == {
        "id": 7,
        "number": 3,
        "text": "Eins. Zwei.",
        "to": "en",
        "output": "One. Two.",
        "score": -0.5,
        "on_target": True,
    }


def test_a_problem_is_an_empty_line_and_told_where_there_is_room() -> None:
    request = Request("", None, 2, problem="line 2 of stdin is not UTF-8.")
    results = refusals(request, ["de"])
    assert written(results, "text") == b"\n"
    assert written(results, "tsv").endswith(b"\tde\t\t\t\tline 2 of stdin is not UTF-8.\n")
    assert json.loads(written(results, "jsonl"))["problem"] == request.problem
    assert [result.to for result in refusals(request)] == [""]


def test_several_languages_have_a_file_each(tmp_path: Path) -> None:
    results = [Result(number, "", to, f"{to}{number}") for number in (1, 2) for to in ("de", "fr")]
    with open_results(tmp_path / "out.txt", "text", ["de", "fr"]) as writer:
        writer.write(results[:2])
        assert (tmp_path / "out.de.txt").read_text() == "de1\n"  # whole lines, whenever one looks
        writer.write(results[2:])
        with pytest.raises(ManyglotError, match="no file for sw"):
            writer.write([Result(3, "", "sw", "")])
    assert (tmp_path / "out.fr.txt").read_text() == "fr1\nfr2\n"
    with open_results(tmp_path / "out.tsv", "tsv", ["de", "fr"]) as writer:
        writer.write(results)
    assert len((tmp_path / "out.tsv").read_text().splitlines()) == 5
    with pytest.raises(ManyglotError, match="Name an output"), open_results(io.BytesIO(), "text", ["de", "fr"]):
        pass


@given(ANY_BYTES, st.sampled_from(FORMS), st.booleans())
def test_the_loop_of_a_command_answers_every_line_in_order(data: bytes, form: Form, split: bool) -> None:
    languages, default, stream = Languages(["de", "fr"]), ["de"], io.BytesIO()
    writer = StreamWriter(stream, "jsonl")
    for block in in_blocks(read_requests(io.BytesIO(data), form, limit=20, split=split), most=2):
        for request in (each.into(languages, default) for each in block):
            if request.problem:
                writer.write(refusals(request, default))
            else:
                hypotheses = [[Translation(sentence.upper(), 0.0)] for sentence in request.sentences]
                writer.write(join_result(request, to, hypotheses) for to in request.to or ())
    values = [json.loads(line) for line in stream.getvalue().split(b"\n")[:-1]]
    assert [value["number"] for value in values] == list(range(1, num_lines(data) + 1))
    assert all("problem" not in value or value["output"] == "" for value in values)
