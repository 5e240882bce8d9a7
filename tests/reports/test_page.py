from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from manyglot.cli import main
from manyglot.corpus.languages import Direction
from manyglot.corpus.zero_shot import Leaks, ZeroShotTests, read_leaks, write_tests
from manyglot.errors import ManyglotError
from manyglot.evaluation.common import common_part
from manyglot.evaluation.results import Evaluation, Example, read_examples
from manyglot.reports import page_data
from manyglot.reports.learning import learning_html
from manyglot.reports.page import Run, embedded, part_of, read_run, run_of, write_page
from tests.corpus.test_zero_shot import TEST, TRAIN
from tests.evaluation.test_evaluate import ROWS
from tests.evaluation.test_evaluate import run as evaluate_rows
from tests.reports.made_up import SIX, about, made_up
from tests.reports.test_reports import EVALUATION


class Links(HTMLParser):
    """Everything a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("src", "href") and value and value[0] != "#"]


def page_of(folder: Path, *runs: Run) -> str:
    write_page(folder / "report.html", runs)
    return (folder / "report.html").read_text("utf-8")


def run(evaluation: Evaluation = EVALUATION, name: str = "a <run>", **about: object) -> Run:
    return run_of(name, evaluation, about)


def data_of(page: str) -> dict[str, object]:
    start = page.index("id=data>") + len("id=data>")
    found: dict[str, object] = json.loads(page[start : page.index("</script>", start)])
    return found


def test_the_page_is_whole_and_escapes_text(tmp_path: Path) -> None:
    single = replace(EVALUATION, directions=[replace(d, num_sentences=1) for d in EVALUATION.directions])
    page = page_of(tmp_path, run(single))
    links = Links()
    links.feed(page)
    assert links.found == [], "the page needs nothing from elsewhere"
    assert "&lt;b&gt;Hund &amp; Katze&lt;/b&gt;" in page
    assert "<b>Hund" not in page
    assert "<title>a &lt;run&gt;</title>" in page
    assert page.count("<em>English</em>") == 1, "a wrong language stands out, a right one does not"
    for text in ("German</b>", "German → French", "zero-shot", "tok:13a", "does not know fr", "beam: 5"):
        assert text in page
    assert "Learning" not in page, "there is no log"
    assert "about.json" in page


def test_no_text_ends_the_script_that_holds_it() -> None:
    text = "</script><!-- <script>"
    assert "<" not in embedded({"text": text})
    assert json.loads(embedded({"text": text})) == {"text": text}


def test_a_card_and_curves_are_shown_where_they_are_known(tmp_path: Path) -> None:
    page = page_of(tmp_path, Run("mine", made_up(SIX), lambda _: [], about(SIX)))
    for text in ("77,400,000 (embedding 16,400,000", "2 h 30 min", "6: Arabic (ar)", "the best by dev_bleu", "laa"):
        assert text in page
    assert page.count("<svg class=curve") == 3
    assert learning_html([("a", {"nll": []})]) == ""


def test_what_of_the_test_text_is_in_training_is_named(tmp_path: Path) -> None:
    tests = ZeroShotTests(TEST, "en")
    for name, drop in (("kept", False), ("dropped", True)):
        write_tests(tmp_path / name, tests, Leaks(tests, TRAIN[:1]), drop_leaked=drop)
        test = {"folder": name, "leaks": read_leaks(tmp_path / name)}
        write_page(tmp_path / "report.html", [run(**{**about(SIX), "test": test})])
        page = (tmp_path / "report.html").read_text("utf-8")
        said = "1 of 6 sentence pairs (16.7%) by source, target or pivot, most in de-fr 33%"
        assert f"<dd>{said}{'; they are left out' if drop else ''}</dd>" in page
    assert read_leaks(tmp_path) is None
    (tmp_path / "kept" / "leaks.json").write_text("[]")
    with pytest.raises(ManyglotError, match=r"leaks.json is damaged"):
        read_leaks(tmp_path / "kept")


def test_what_is_not_a_number_is_left_open(tmp_path: Path) -> None:
    known = replace(EVALUATION, directions=[replace(d, chrf=float("nan")) for d in EVALUATION.directions])
    assert "NaN" not in json.dumps(data_of(page_of(tmp_path, run(known))))


def test_sentences_are_spread_evenly_and_those_of_other_runs_stand_beside_them() -> None:
    one, other = made_up(SIX, 1), made_up(SIX, 2)
    data = page_data.page_data([run(one), run(other, "other")])
    worst = page_data.worst_directions(one)["zero_shot"][0].direction
    number = [d.direction for d in one.directions].index(worst)
    ours, theirs = ([e for e in each.examples if (e.source, e.target) == worst] for each in (one, other))
    texts = data["texts"]
    assert [texts[entry[0]] for entry in data["examples"][number]] == [ours[k].text for k in (1, 4, 6)]
    assert [texts[entry[4][0][0]] for entry in data["examples"][number]] == [theirs[k].output for k in (1, 4, 6)]
    assert len(data["examples"]) == 30, "a sentence of every other direction"


def test_sentences_that_need_too_much_room_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_data, "ROOM", 100)
    monkeypatch.setattr(page_data, "NUM_WORST", 2)
    data = page_data.page_data([run(made_up(SIX))])
    assert len(data["examples"]) == 4
    assert max(n for entries in data["examples"].values() for entry in entries for n in entry[:3]) < len(data["texts"])


def test_the_sentences_of_some_directions_are_read(tmp_path: Path) -> None:
    examples = [Example("de", "fr", True, "a", "b", "c", "fr"), Example("de", "fr-ca", True, "d", "e", "f", "en")]
    replace(EVALUATION, examples=examples).save(tmp_path / "results.json")
    assert list(read_examples(tmp_path, {Direction("de", "fr"): [0]})) == examples[:1]
    both = {Direction("de", "fr-ca"): [0], Direction("de", "fr"): [0]}
    assert list(read_examples(tmp_path, both)) == examples
    assert list(read_examples(tmp_path / "none", {Direction("de", "fr"): [0]})) == []
    with pytest.raises(ManyglotError, match=r"translations.jsonl is damaged"):
        list(read_examples(tmp_path, {Direction("de", "fr"): [1]}))
    for text in ('{"source": "de", "target": "fr", \n', "something else"):
        (tmp_path / "translations.jsonl").write_text(text)
        with pytest.raises(ManyglotError, match=r"translations.jsonl is damaged"):
            list(read_examples(tmp_path, {Direction("de", "fr"): [0]}))
    for text in ("[]", '{"training": 3}'):
        (tmp_path / "about.json").write_text(text)
        with pytest.raises(ManyglotError, match=r"about.json is damaged"):
            read_run("a", tmp_path)


def test_what_is_beside_a_results_json_is_read_with_it(tmp_path: Path) -> None:
    EVALUATION.save(tmp_path / "results.json")
    (tmp_path / "about.json").write_text(json.dumps(about(SIX)))
    found = read_run("a", tmp_path / "results.json")
    assert found.about["num_subwords"] == 32000
    first = EVALUATION.directions[0].direction
    assert len(list(found.examples({first: [0]}))) == 1


def test_sentences_of_a_common_part_are_of_that_part() -> None:
    runs = [run(evaluate_rows(rows)) for rows in (ROWS, ROWS[:0:-1])]
    parts = common_part([each.evaluation for each in runs])
    data = page_data.page_data([part_of(*each) for each in zip(runs, parts, strict=True)])
    shown = {data["texts"][entry[0]] for entries in data["examples"].values() for entry in entries}
    assert shown
    assert shown.isdisjoint(ROWS[0].values()), "which only one of them has"
    assert all(entry[4] != [None] for entries in data["examples"].values() for entry in entries)


def test_the_command_writes_a_page_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, seed in (("laa", 1), ("token", 2)):
        made_up(SIX, seed).save(tmp_path / name / "results.json")
    main(["report", str(tmp_path / "laa"), f"base={tmp_path / 'token'}", "-o", str(tmp_path / "page.html")])
    assert capsys.readouterr().out.strip() == str(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<title>laa · base</title>" in page
    assert "win rate against base" in page
    assert len(data_of(page)["examples"]) == 30  # type: ignore[arg-type]
    other = made_up(SIX, 3)
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
    main(["report", str(tmp_path / "laa"), str(tmp_path / "fewer"), "--common", "-o", str(tmp_path / "other.html")])
    assert "29 directions" in (tmp_path / "other.html").read_text("utf-8")
