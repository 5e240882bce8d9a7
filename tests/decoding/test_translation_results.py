from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.corpus.languages import Languages
from manyglot.decoding.input_lines import remove_control_characters
from manyglot.decoding.scored_translation import TextWarning, Translation
from manyglot.decoding.translation_requests import (
    TextFormat,
    TranslationRequest,
    TsvColumns,
    group_into_blocks,
    read_requests,
)
from manyglot.decoding.translation_results import (
    StreamWriter,
    TranslationResult,
    failed_results,
    make_result,
    open_result_writer,
)
from manyglot.errors import ManyglotError
from tests.decoding.test_translation_requests import ANY_BYTES, TEXT_FORMATS, num_lines

RESULTS = st.lists(
    st.builds(
        TranslationResult,
        number=st.integers(1, 9),
        source=st.text(),
        target=st.sampled_from(["de", "pt-br"]),
        output=st.text(),
        score=st.none() | st.floats(),
        alternatives=st.lists(st.builds(Translation, st.text(), st.floats()), max_size=2).map(tuple),
        on_target=st.none() | st.booleans(),
        problem=st.just("") | st.text(),
        extra_fields=st.dictionaries(st.text(max_size=1), st.text(st.characters(exclude_categories=[])), max_size=2),
    )
)


def written(results: list[TranslationResult], text_format: TextFormat) -> bytes:
    stream = io.BytesIO()
    StreamWriter(stream, text_format).write(results)
    return stream.getvalue()


def plain(text: str) -> str:
    return remove_control_characters(text.replace("\t", " ").replace("\r", " ").replace("\n", " ").strip())[0]


@given(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufeff"))))
def test_text_round_trip(outputs: list[str]) -> None:
    data = written([TranslationResult(1, "", "de", output) for output in outputs], "text")
    assert [request.text for request in read_requests(io.BytesIO(data))] == [output.strip() for output in outputs]


@given(RESULTS)
def test_tsv_round_trip(results: list[TranslationResult]) -> None:
    data = written(results, "tsv")
    assert data.count(b"\n") == len(results) + 1
    requests = list(read_requests(io.BytesIO(data), "tsv", columns=TsvColumns("text", "to")))
    assert [(request.text, request.targets) for request in requests] == [
        (plain(r.source), (r.target,)) for r in results
    ]


@given(RESULTS)
def test_jsonl_round_trip(results: list[TranslationResult]) -> None:
    data = written(results, "jsonl")
    requests = list(read_requests(io.BytesIO(data), "jsonl"))
    assert [(r.problem, r.targets) for r in requests] == [("", (result.target,)) for result in results]
    for line, result in zip(data.decode().split("\n"), results, strict=False):
        value = json.loads(line)
        assert (value["text"], value["output"], value["number"]) == (result.source, result.output, result.number)
        alternatives = value.get("alternatives", [])
        assert [each["output"] for each in alternatives] == [each.text for each in result.alternatives]
        assert not any("score" in each for each in alternatives if result.score is None)
        assert value.get("problem", "") == result.problem
        assert result.extra_fields.items() <= value.items()


def test_a_result_has_the_translations_and_warnings_of_its_text() -> None:
    request = TranslationRequest("Eins. Zwei.", ("en",), 3, extra_fields={"id": 7})
    warning = TextWarning("too_long", "has a sentence of 9 subwords.")
    n_best = [Translation("One. Two.", -0.5, True, (warning,)), Translation("One. 2.", -0.75)]
    result = make_result(request, "en", n_best, include_scores=True)
    assert json.loads(written([result], "jsonl")) == {
        "id": 7,
        "number": 3,
        "text": "Eins. Zwei.",
        "to": "en",
        "output": "One. Two.",
        "score": -0.5,
        "alternatives": [{"output": "One. 2.", "score": -0.75}],
        "on_target": True,
        "warnings": ["The text has a sentence of 9 subwords."],
    }
    assert written([result], "tsv").splitlines()[1].endswith(b"\ttrue\t\tThe text has a sentence of 9 subwords.")


def test_a_failed_request_has_an_empty_output_and_a_problem() -> None:
    request = TranslationRequest("", None, 2, problem="line 2 of stdin is not UTF-8.")
    results = failed_results(request, ["de"])
    assert written(results, "text") == b"\n"
    assert written(results, "tsv").endswith(b"\tde\t\t\t\tline 2 of stdin is not UTF-8.\t\n")
    assert json.loads(written(results, "jsonl"))["problem"] == request.problem
    assert [result.target for result in failed_results(request)] == [""]


def test_several_languages_are_written_to_one_file_each(tmp_path: Path) -> None:
    results = [TranslationResult(number, "", to, f"{to}{number}") for number in (1, 2) for to in ("de", "fr")]
    with open_result_writer(tmp_path / "out.txt", "text", ["de", "fr"]) as writer:
        writer.write(results[:2])
        assert (tmp_path / "out.de.txt.unfinished").read_text() == "de1\n"  # complete lines after each write
        writer.write(results[2:])
        with pytest.raises(ManyglotError, match="no output file for sw"):
            writer.write([TranslationResult(3, "", "sw", "")])
    assert (tmp_path / "out.fr.txt").read_text() == "fr1\nfr2\n"
    with open_result_writer(tmp_path / "out.tsv", "tsv", ["de", "fr"]) as writer:
        writer.write(results)
    assert len((tmp_path / "out.tsv").read_text().splitlines()) == 5
    with pytest.raises(ManyglotError, match="Name an output"), open_result_writer(io.BytesIO(), "text", ["de", "fr"]):
        pass


@given(ANY_BYTES, st.sampled_from(TEXT_FORMATS))
def test_every_line_gets_a_result_in_order(data: bytes, text_format: TextFormat) -> None:
    languages, default, stream = Languages(["de", "fr"]), ["de"], io.BytesIO()
    writer = StreamWriter(stream, "jsonl")
    for block in group_into_blocks(read_requests(io.BytesIO(data), text_format, max_chars=20), max_requests=2):
        for request in (each.resolve_languages(languages, languages, default) for each in block):
            if request.problem:
                writer.write(failed_results(request, default))
            else:
                n_best = [Translation(request.text.upper(), 0.0)]
                writer.write(make_result(request, to, n_best) for to in request.targets or ())
    values = [json.loads(line) for line in stream.getvalue().split(b"\n")[:-1]]
    assert [value["number"] for value in values] == list(range(1, num_lines(data) + 1))
    assert all("problem" not in value or value["output"] == "" for value in values)
