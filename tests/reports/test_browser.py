"""The HTML report in a real browser: sorting, filters, tooltips and examples, without any error or warning."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from manyglot.reports.html_report import ReportRun, make_report_run, write_html_report
from tests.reports.synthetic_runs import SIX, SIXTY, make_model_card, synthetic_evaluation

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")

COLLECT_PROBLEMS = """<script>
window.problems = [];
addEventListener("error", (event) => problems.push(String(event.message)));
addEventListener("unhandledrejection", (event) => problems.push(String(event.reason)));
console.error = console.warn = (...what) => problems.push(what.join(" "));
</script>"""
"""Runs before everything else in the page."""
RUN_STEPS = """<script>
const $ = (query) => document.querySelector(query), $$ = (query) => [...document.querySelectorAll(query)];
const column = (box, k) => $$(`${box} tbody tr`).map((row) => row.children[k].textContent);
const press = (box, k) => $$(`${box} thead button`)[k].click();
const type = (box, text) => {
  $(`${box} input`).value = text;
  $(`${box} input`).dispatchEvent(new Event("input"));
};
const choose = (box, k, value) => {
  const select = $$(`${box} select`)[k];
  select.value = value;
  select.dispatchEvent(new Event("change"));
};
const point = (rect) =>
  rect.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: 60, clientY: 60 }));
const result = {};
try {
  STEPS
} catch (error) { problems.push(String(error.stack)); }
const outcome = document.createElement("pre");
outcome.id = "outcome";
outcome.textContent = JSON.stringify({ ...result, problems });
document.body.append(outcome);
</script>"""


def run_in_browser(page: Path, steps: str, *options: str) -> dict[str, Any]:
    """Open a copy of a page in the browser, run JavaScript steps in it and return what they store in `result`."""
    text = page.read_text("utf-8").replace("<head>", f"<head>{COLLECT_PROBLEMS}", 1)
    copy = page.with_name("asked.html")
    copy.write_text(text.replace("</body>", RUN_STEPS.replace("STEPS", steps) + "</body>"), encoding="utf-8")
    assert BROWSER is not None
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000", *options]
    command += [f"--user-data-dir={page.parent / 'profile'}", "--dump-dom", copy.as_uri()]
    done = subprocess.run(command, capture_output=True, timeout=120, env={**os.environ, "HOME": str(page.parent)})
    match = re.search('<pre id="outcome">(.*?)</pre>', done.stdout.decode("utf-8"), re.DOTALL)
    assert match, done.stderr.decode("utf-8")[-2000:]
    outcome: dict[str, Any] = json.loads(unescape(match.group(1)))
    assert outcome.pop("problems") == []
    return outcome


def run(name: str, codes: tuple[str, ...], seed: int = 1, on_target: float = 0.5) -> ReportRun:
    evaluation = synthetic_evaluation(codes, seed, on_target)
    return make_report_run(name, evaluation, make_model_card(codes, seed))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two runs with six languages."""
    path = tmp_path_factory.mktemp("two") / "report.html"
    write_html_report(path, [run("LAA", SIX, on_target=0.9), run("token", SIX, 2)])
    return path


def test_tables_can_be_sorted_and_searched(two: Path) -> None:
    result = run_in_browser(
        two,
        """
        const box = "#direction-table";
        result.first = column(box, 2);
        press(box, 2); result.down = column(box, 2); result.arrow = $$(`${box} th`)[2].ariaSort;
        press(box, 0); result.names = column(box, 0);
        type(box, "german"); result.german = column(box, 0).map((from, i) => [from, column(box, 1)[i]]);
        type(box, "de>ja"); result.one = [column(box, 0), column(box, 1)].flat();
        type(box, ""); choose(box, 0, "supervised"); result.supervised = column(box, 0).length;
        result.note = $(`${box} .more span`).textContent;
        result.languages = column("#language-table", 0).length;
        type("#language-table", "sw"); result.swahili = column("#language-table", 0);
        """,
    )
    numbers = [float(text) for text in result["first"]]
    assert numbers == sorted(numbers), "the lowest BLEU comes first"
    assert [float(text) for text in result["down"]] == sorted(numbers, reverse=True)
    assert result["arrow"] == "descending"
    assert result["names"] == sorted(result["names"])
    assert len(result["german"]) == 10
    assert all("German (de)" in pair for pair in result["german"])
    assert result["one"] == ["German (de)", "Japanese (ja)"]
    assert (result["supervised"], result["note"], result["languages"]) == (10, "10 of 30 directions", 6)
    assert result["swahili"] == ["Swahili (sw)"]


def test_the_heat_map_has_tooltips_examples_and_differences(two: Path) -> None:
    result = run_in_browser(
        two,
        """
        const cell = () => $$("#direction-heatmap rect").find((node) => node.dataset.i === "5");
        result.cells = $$("#direction-heatmap rect[data-i]").length;
        result.trained = $$("#direction-heatmap rect.supervised").length;
        result.hidden = $("#tooltip").hidden;
        point(cell()); result.tip = $("#tooltip").textContent;
        result.shown = !$("#tooltip").hidden;
        result.marked = $$("#direction-heatmap text.on").map((node) => node.firstChild.data);
        $("#direction-heatmap .grid").dispatchEvent(new PointerEvent("pointerleave"));
        result.gone = $("#tooltip").hidden;
        cell().dispatchEvent(new MouseEvent("click", { bubbles: true }));
        result.detail = $("#detail h3").textContent; result.lines = $$("#detail dt").length;
        result.framed = $("#direction-heatmap .selected").getAttribute("x") === cell().getAttribute("x");
        result.arabic = $("#detail dd[lang=ar]").dir;
        $("#direction-heatmap .grid").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown" }));
        result.below = $("#detail h3").textContent;
        choose("#direction-heatmap", 2, "1"); result.difference = $("#direction-heatmap .scale").textContent;
        result.signs = [$$("#direction-heatmap .plus").length, $$("#direction-heatmap .minus").length];
        choose("#direction-heatmap", 1, "language_accuracy");
        result.accuracy = $$("#direction-heatmap .plus").length > 20;
        choose("#direction-heatmap", 3, "value"); choose("#direction-heatmap", 0, "1");
        result.still = $$("#direction-heatmap rect[data-i]").length;
        result.bars = $$("#off-target-chart .bar").length;
        """,
    )
    assert (result["cells"], result["trained"], result["still"], result["bars"]) == (30, 10, 30, 5)
    assert (result["hidden"], result["shown"], result["gone"]) == (True, True, True)
    assert result["tip"].startswith("German → Arabic, zero-shot\nBLEU ")
    assert "token: BLEU" in result["tip"]
    assert result["marked"] == ["de", "ar"]
    assert result["detail"] == "German → Arabic, zero-shot"
    assert result["lines"] in (4, 12)
    assert result["arabic"] == "auto"
    assert result["framed"]
    assert result["below"] == "English → Arabic, supervised"
    assert "better than token" in result["difference"]
    assert sum(result["signs"]) == 30
    assert result["accuracy"]


def test_the_language_map_has_tooltips(two: Path) -> None:
    result = run_in_browser(
        two,
        """
        result.points = $$("#language-map circle").length;
        result.named = $$("#language-map .point-map text").map((node) => node.textContent).sort();
        result.cells = $$("#language-map rect.cell").length;
        result.merges = $$("#language-map .dendrogram .hit-area").length;
        point($("#language-map circle")); result.point = $("#tooltip").textContent;
        point($("#language-map rect.cell")); result.cell = $("#tooltip").textContent;
        point($$("#language-map .hit-area")[4]); result.merge = $("#tooltip").textContent;
        point($("#language-map .grid")); result.gone = $("#tooltip").hidden;
        result.rows = $$("#language-map .rows text").map((node) => node.firstChild.data);
        result.maps = $$("#language-map select option").map((node) => node.textContent);
        choose("#language-map", 0, "1");
        result.other = $$("#language-map .rows text").map((node) => node.firstChild.data);
        """,
    )
    assert (result["points"], result["cells"], result["merges"]) == (6, 30, 5)
    assert result["named"] == list(SIX)
    assert result["point"].startswith("Arabic (ar)\n")
    assert "script: Arabic\nnearest:\n" in result["point"]
    assert " – " in result["cell"]
    assert "similarity " in result["cell"]
    assert all(name in result["merge"] for name in ("Arabic", "German", "English", "Hebrew", "Japanese", "Swahili"))
    assert result["gone"]
    assert sorted(result["rows"]) == sorted(result["other"]) == list(SIX)
    assert result["rows"] != result["other"], "the other run has another leaf order"
    assert result["maps"][:2] == ["LAA, token", "token, token"]


def test_text_from_the_data_is_never_html(tmp_path: Path) -> None:
    hostile = "</script><script>problems.push('run')</script><img src=x onerror=\"problems.push('img')\">&amp;\u2028"
    evaluation = synthetic_evaluation(SIX)
    evaluation = replace(
        evaluation, examples=[replace(e, output=hostile, source_text=hostile) for e in evaluation.examples]
    )
    write_html_report(tmp_path / "report.html", [make_report_run(hostile, evaluation, make_model_card(SIX))])
    result = run_in_browser(
        tmp_path / "report.html",
        """
        $("#direction-heatmap rect").dispatchEvent(new MouseEvent("click", { bubbles: true }));
        result.source = $("#detail dd").textContent;
        result.worst = $("#worst dd").textContent;
        result.title = document.title;
        result.images = document.images.length;
        """,
    )
    assert result["source"] == result["worst"] == hostile
    assert result["title"].startswith("</script><script>")
    assert result["images"] == 0


def test_sixty_languages_fit(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_html_report(path, [run("LAA", SIXTY, on_target=0.8), run("token", SIXTY, 2)])
    assert path.stat().st_size < 3_000_000
    result = run_in_browser(
        path,
        """
        result.cells = $$("#direction-heatmap rect[data-i]").length;
        result.rows = column("#direction-table", 0).length;
        $("#direction-table .more button").click(); result.all = column("#direction-table", 0).length;
        result.wide = document.documentElement.scrollWidth - innerWidth;
        result.map = $("#direction-heatmap .map").scrollWidth - $("#direction-heatmap .map").clientWidth;
        result.similarities = $("#language-map .map").scrollWidth - $("#language-map .map").clientWidth;
        dispatchEvent(new Event("beforeprint")); result.printed = $("#direction-heatmap .grid").clientWidth;
        result.places = $("#language-map .point-map").clientWidth;
        result.scale = $("#language-map .scale").textContent;
        const share = (node) => node.style.getPropertyValue("--p");
        result.dark = $$("#language-map rect.cell").filter((node) => share(node) === "100%").length;
        result.tree = $$("#language-map .map svg").reduce((sum, node) => sum + node.clientWidth, 0);
        """,
        "--window-size=1400,900",
    )
    assert (result["cells"], result["rows"], result["all"]) == (3540, 50, 3540)
    assert result["wide"] <= 0, "no horizontal scrolling"
    assert (result["map"], result["similarities"]) == (0, 0)
    assert max(result["printed"], result["places"], result["tree"]) < 720, "it fits a sheet of paper"
    assert result["scale"].endswith("or more")
    assert 35 <= result["dark"] <= 80, "about one percent of 3,540"


def test_every_run_has_its_own_color(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_html_report(path, [run(f"run {i}", SIX, i) for i in range(11)])
    result = run_in_browser(
        path,
        """
        result.names = $$("#averages td.name").slice(0, 11).map((node) => getComputedStyle(node).color);
        result.legend = $$(".legend li").map((node) => getComputedStyle(node).color);
        result.lines = $$("figure:nth-child(2) polyline").map((node) => getComputedStyle(node).stroke);
        """,
    )
    assert result["names"] == result["legend"] == result["lines"]
    assert len(set(result["lines"])) == 11, "ten colors, and one for the rest"


def test_screenshots_show_one_figure(tmp_path: Path) -> None:
    pictures = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "results" / "pictures.py"))
    page = tmp_path / "report.html"
    write_html_report(page, [run("token", SIX, 2), run("LAA", SIX, on_target=0.9), run("LEE", SIX, 3, on_target=0.3)])
    text = page.read_text("utf-8")
    for name, baseline, title in [
        ("averages", "", "Averages"),
        ("difference", "", "LAA minus token: BLEU"),
        ("difference", "LEE", "LAA minus LEE: BLEU"),
        ("similarities", "", "LAA, token: language similarity"),
    ]:
        figure = pictures["FIGURES"][name]
        page.write_text(pictures["page_with_one_figure"](text, figure, baseline), encoding="utf-8")
        result = run_in_browser(
            page,
            """
            const seen = (node) => node.offsetHeight || node.clientHeight;
            const titled = (node) => [node.id, node.querySelector("h2").textContent];
            result.sections = $$("section, header, footer").filter(seen).map(titled);
            result.columns = $$("#averages thead th").filter(seen).map((node) => node.textContent);
            result.scale = $("#direction-heatmap .scale").textContent;
            """,
        )
        assert result["sections"] == [[figure.section, title]]
        assert name != "averages" or result["columns"][-1] == "win rate against token"
        assert name != "difference" or f"better than {baseline or 'token'}" in result["scale"]
    page.write_text(pictures["page_with_one_figure"](text, pictures["FIGURES"]["bleu"], ""), encoding="utf-8")
    pictures["take_screenshot"](BROWSER, page, tmp_path / "bleu.png")
    with Image.open(tmp_path / "bleu.png") as picture:
        assert 300 < picture.width < pictures["WIDTH"], "six languages do not fill the width"
        assert 300 < picture.height < 800
    with pytest.raises(SystemExit, match="The page is empty"):
        pictures["crop_to_content"](Image.new("RGB", (40, 30)))
