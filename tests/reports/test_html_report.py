from __future__ import annotations

import json
import os
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from manyglot.cli import main
from manyglot.corpus.languages import Direction
from manyglot.corpus.zero_shot_sets import LeakDetector, ZeroShotSets, read_leak_statistics, write_zero_shot_sets
from manyglot.errors import ManyglotError
from manyglot.evaluation.comparability import restrict_to_common_sentences
from manyglot.evaluation.results import Evaluation
from manyglot.evaluation.translation_examples import TranslationExample, read_examples
from manyglot.reports import html_report_data
from manyglot.reports.html_report import (
    ReportRun,
    json_for_script,
    load_report_run,
    make_report_run,
    restrict_report_run,
    write_html_report,
)
from manyglot.reports.report_run import SYSTEM_FACTS_KIND
from manyglot.sealed_json import write_sealed_json
from tests.corpus.test_zero_shot_sets import TEST, TRAIN
from tests.evaluation.test_evaluator import ROWS
from tests.evaluation.test_evaluator import run as evaluate_rows
from tests.reports.synthetic_runs import SIX, make_system_facts, synthetic_evaluation
from tests.reports.test_result_parts import EVALUATION


class Links(HTMLParser):
    """Collects every URL that a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.urls += [value for name, value in attrs if name in ("src", "href") and value and value[0] != "#"]


def write_page_text(folder: Path, *runs: ReportRun) -> str:
    write_html_report(folder / "report.html", runs)
    return (folder / "report.html").read_text("utf-8")


def run(evaluation: Evaluation = EVALUATION, name: str = "a <run>", **system_facts: object) -> ReportRun:
    return make_report_run(name, evaluation, system_facts)


def read_page_data(page: str) -> dict[str, object]:
    start = page.index("id=data>") + len("id=data>")
    data: dict[str, object] = json.loads(page[start : page.index("</script>", start)])
    return data


def test_the_report_is_self_contained_and_escapes_text(tmp_path: Path) -> None:
    single = replace(EVALUATION, directions=[replace(d, num_sentences=1) for d in EVALUATION.directions])
    page = write_page_text(tmp_path, run(single))
    links = Links()
    links.feed(page)
    assert links.urls == [], "the page is self-contained"
    assert "&lt;b&gt;Hund &amp; Katze&lt;/b&gt;" in page
    assert "<b>Hund" not in page
    assert "<title>a &lt;run&gt;</title>" in page
    assert page.count("<em>English</em>") == 1, "only an off-target output is marked"
    assert "is shown too. Relative LangAcc is LangAcc of the outputs as a percentage" in page
    for text in ("German</b>", "German → French", "zero-shot", "tok:13a", "does not know: fr", "beam_size: 5"):
        assert text in page
    assert "Learning curves" not in page, "there is no log"
    assert "about.json" in page


def test_no_text_can_close_the_script_element() -> None:
    text = "</script><!-- <script>"
    assert "<" not in json_for_script({"text": text})
    assert json.loads(json_for_script({"text": text})) == {"text": text}


def test_facts_and_learning_curves_are_shown_if_available(tmp_path: Path) -> None:
    page = write_page_text(tmp_path, ReportRun("mine", synthetic_evaluation(SIX), lambda _: [], make_system_facts(SIX)))
    for text in ("77,400,000 (embedding 16,400,000", "2 h 30 min", "6: Arabic (ar)", "the best by dev_bleu", "laa"):
        assert text in page
    assert page.count("<svg class=curve") == 3


def test_leaked_test_sentences_are_reported(tmp_path: Path) -> None:
    tests = ZeroShotSets(TEST, "en")
    for name, drop in (("complete", False), ("dropped", True)):
        write_zero_shot_sets(tmp_path / name, tests, LeakDetector(tests, TRAIN[:1]), drop_leaked=drop)
        test = {"folder": name, "leaks": read_leak_statistics(tmp_path / name)}
        write_html_report(tmp_path / "report.html", [run(**{**make_system_facts(SIX), "test": test})])
        page = (tmp_path / "report.html").read_text("utf-8")
        text = "1 of 6 sentence pairs (16.7%) by source, target or central language, most in de-fr 33%"
        assert f"<dd>{text}{'; excluded from the test set' if drop else ''}</dd>" in page
    assert read_leak_statistics(tmp_path) is None
    (tmp_path / "complete" / "leaks.json").write_text("[]")
    with pytest.raises(ManyglotError, match=r"leaks.json is damaged"):
        read_leak_statistics(tmp_path / "complete")


def test_nan_is_not_written_as_json(tmp_path: Path) -> None:
    evaluation = replace(EVALUATION, directions=[replace(d, chrf=float("nan")) for d in EVALUATION.directions])
    assert "NaN" not in json.dumps(read_page_data(write_page_text(tmp_path, run(evaluation))))


def test_examples_of_selected_directions_are_read(tmp_path: Path) -> None:
    examples = [
        TranslationExample("de", "fr", True, "a", "b", "c", "fr"),
        TranslationExample("de", "fr-ca", True, "d", "e", "f", "en"),
    ]
    replace(EVALUATION, examples=examples).save(tmp_path / "results.json")
    seals = Evaluation.load(tmp_path).seals
    assert list(read_examples(tmp_path, {Direction("de", "fr"): [0]}, seals)) == examples[:1]
    both = {Direction("de", "fr-ca"): [0], Direction("de", "fr"): [0]}
    assert list(read_examples(tmp_path, both, seals)) == examples
    assert list(read_examples(tmp_path / "none", {Direction("de", "fr"): [0]}, {})) == []


def test_damaged_facts_are_refused_but_may_be_missing(tmp_path: Path) -> None:
    EVALUATION.save(tmp_path / "results.json")
    write_sealed_json(tmp_path / "about.json", SYSTEM_FACTS_KIND, make_system_facts(SIX) | {"loss": float("nan")})
    assert load_report_run("a", tmp_path).system_facts["loss"] is None, "JSON has no such numbers"
    whole = (tmp_path / "about.json").read_text("utf-8")
    for text in ("[]", '{"training": 3}', whole.replace("32000", "32001"), whole[:-3], "[" * 5000, "NaN"):
        (tmp_path / "about.json").write_text(text)
        with pytest.raises(ManyglotError, match=r"about.json is damaged.* or delete the file to get a report without"):
            load_report_run("a", tmp_path)
    (tmp_path / "about.json").unlink()
    os.mkfifo(tmp_path / "about.json")
    with pytest.raises(ManyglotError, match=r"about.json is not a file"):
        load_report_run("a", tmp_path)
    (tmp_path / "about.json").unlink()
    assert load_report_run("a", tmp_path).system_facts == {}


def test_a_results_file_is_loaded_with_the_files_beside_it(tmp_path: Path) -> None:
    EVALUATION.save(tmp_path / "results.json")
    write_sealed_json(tmp_path / "about.json", SYSTEM_FACTS_KIND, make_system_facts(SIX))
    loaded = load_report_run("a", tmp_path / "results.json")
    assert loaded.system_facts["num_subwords"] == 32000
    first = EVALUATION.directions[0].direction
    assert len(list(loaded.load_examples({first: [0]}))) == 1


def test_examples_of_a_restricted_run_are_from_the_common_sentences() -> None:
    runs = [run(evaluate_rows(rows)) for rows in (ROWS, ROWS[:0:-1])]
    parts = restrict_to_common_sentences([r.evaluation for r in runs])
    data = html_report_data.build_html_report_data(
        [restrict_report_run(*pair) for pair in zip(runs, parts, strict=True)]
    )
    shown = {data["texts"][entry[0]] for entries in data["examples"].values() for entry in entries}
    assert shown
    assert shown.isdisjoint(ROWS[0].values()), "only one run has this row"
    assert all(entry[4] != [None] for entries in data["examples"].values() for entry in entries)


def test_the_command_writes_a_report_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, seed in (("laa", 1), ("token", 2)):
        synthetic_evaluation(SIX, seed).save(tmp_path / name / "results.json")
    main(["report", str(tmp_path / "laa"), f"base={tmp_path / 'token'}", "-o", str(tmp_path / "page.html")])
    assert capsys.readouterr().out.strip() == str(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<title>laa · base</title>" in page
    assert "win rate against base" in page
    assert len(read_page_data(page)["examples"]) == 30  # type: ignore[arg-type]
    other = synthetic_evaluation(SIX, 3)
    replace(other, directions=other.directions[:-1]).save(tmp_path / "fewer" / "results.json")
    for arguments, message in (
        ([f"a={tmp_path / 'laa'}", str(tmp_path / "fewer")], "were not tested on the same sentences"),
        ([f"{tmp_path / 'laa'},{tmp_path / 'token'}"], "a report shows single runs"),
        ([str(tmp_path)], "Cannot read"),
    ):
        with pytest.raises(SystemExit):
            main(["report", *arguments, "-o", str(tmp_path / "other.html")])
        assert message in capsys.readouterr().err
    assert not (tmp_path / "other.html").exists()
    main(
        [
            "report",
            str(tmp_path / "laa"),
            str(tmp_path / "fewer"),
            "--common-test-only",
            "-o",
            str(tmp_path / "other.html"),
        ]
    )
    assert "29 directions" in (tmp_path / "other.html").read_text("utf-8")
