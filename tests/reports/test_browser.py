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

from manyglot.evaluation.scored_system import FileOrigin, ScoredSystem, SegmentMetric
from manyglot.reports.html_report import ReportRun, make_report_run, write_html_report
from tests.corpus.language_code_lists import FLORES_200
from tests.reports.synthetic_runs import (
    SIX,
    SIXTY,
    evaluation_without_text,
    make_system_facts,
    synthetic_evaluation,
    with_statistics,
)

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
if (parent === window) document.body.append(outcome);
else parent.postMessage([innerWidth, { ...result, problems }], "*");
</script>"""
WINDOWS = """<!doctype html><body><pre id="outcome"></pre><script>
const outcomes = {};
addEventListener("message", ({ data: [width, outcome] }) => {
  outcomes[width] = outcome;
  document.getElementById("outcome").textContent = JSON.stringify(outcomes);
});
</script>FRAMES</body>"""
"""Shows the page in frames of several widths, because the window of a headless browser has a minimum width."""
PHONE, LAPTOP, DESKTOP = 390, 1280, 1920
LAYOUT_STEPS = """
  const box = (node) => node.getBoundingClientRect();
  const visible = (node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (color) => rgba(color).slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a, b) => {
    const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (light + 0.05) / (dark + 0.05);
  };
  const color = (node) => getComputedStyle(node)[node instanceof SVGElement ? "fill" : "color"];
  const surface = (node) => node.tagName === "svg" ? "transparent"
    : getComputedStyle(node)[node instanceof SVGElement ? "fill" : "backgroundColor"];
  const textNodes = () => {
    const walker = document.createTreeWalker(document.querySelector("body"), NodeFilter.SHOW_TEXT), nodes = [];
    while (walker.nextNode()) {
      const parent = walker.currentNode.parentElement;
      if (!walker.currentNode.data.trim() || parent.closest("script, style, noscript, option, #tooltip")) continue;
      if (!visible(parent) || rgba(color(parent))[3] < 10 || parent.tagName === "title") continue;
      nodes.push(walker.currentNode);
    }
    return nodes;
  };
  const textBoxes = () => textNodes().flatMap((node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    const scroller = node.parentElement.closest(".scroll, .map, thead"), limit = scroller && box(scroller);
    return [...range.getClientRects()].map((rect) => ({ node, parent: node.parentElement, rect }))
      .filter(({ rect }) => rect.width > 1 && (!limit ||
        (rect.left >= limit.left - 1 && rect.right <= limit.right + 1 && rect.bottom <= limit.bottom + 1)));
  });
  const pale = () => textBoxes().flatMap(({ node, parent, rect }) => {
    const [x, y] = [rect.left + rect.width / 2, rect.top + rect.height / 2];
    const isOpaque = (other) => other.tagName !== "text" && rgba(surface(other))[3] > 250;
    const under = document.elementsFromPoint(x, y).find(isOpaque);
    const background = under ? surface(under) : getComputedStyle(document.body).backgroundColor;
    const ratio = contrast(color(parent), background);
    const name = parent.className.baseVal ?? parent.className;
    return ratio < 4.5 ? [`${node.data.trim().slice(0, 20)} ${name} ${ratio.toFixed(1)}`] : [];
  });
  const overlaps = () => {
    const boxes = textBoxes().sort((a, b) => a.rect.top - b.rect.top), found = [];
    boxes.forEach((one, i) => {
      for (let k = i + 1; k < boxes.length && boxes[k].rect.top < one.rect.bottom - 3; k++) {
        const other = boxes[k];
        const across = Math.min(one.rect.right, other.rect.right) - Math.max(one.rect.left, other.rect.left);
        const down = Math.min(one.rect.bottom, other.rect.bottom) - other.rect.top;
        if (across > 2 && down > 3 && one.node !== other.node) found.push([one.node.data, other.node.data]);
      }
    });
    return found;
  };
  const cut = () => $$("main *, header *").filter((node) => visible(node) && !node.closest(".narrow, .slim, thead") &&
    getComputedStyle(node).overflowX === "hidden" && node.scrollWidth > node.clientWidth + 1)
    .map((node) => node.outerHTML.slice(0, 80));
"""
"""Functions for the layout: texts with little contrast, texts that overlap and texts that are cut off."""


def run_in_browser(page: Path, steps: str, *options: str) -> dict[str, Any]:
    """Open a copy of a page in the browser, run JavaScript steps in it and return what they store in `result`."""
    text = page.read_text("utf-8").replace("<head>", f"<head>{COLLECT_PROBLEMS}", 1)
    copy = page.with_name("asked.html")
    copy.write_text(text.replace("</body>", RUN_STEPS.replace("STEPS", steps) + "</body>"), encoding="utf-8")
    outcome = dump_outcome(copy, *options)
    assert outcome.pop("problems") == []
    return outcome


def run_at_widths(page: Path, steps: str, widths: tuple[int, ...], is_dark: bool) -> dict[int, dict[str, Any]]:
    """Run the steps in frames of the given widths, in light or dark mode, and return the results by width."""
    text = page.read_text("utf-8").replace("<head>", f"<head>{COLLECT_PROBLEMS}", 1)
    copy, windows = page.with_name("framed.html"), page.with_name("windows.html")
    copy.write_text(text.replace("</body>", RUN_STEPS.replace("STEPS", steps) + "</body>"), encoding="utf-8")
    frames = "".join(
        f'<iframe src="{copy.name}" style="border:0;width:{width}px;height:12000px"></iframe>' for width in widths
    )
    windows.write_text(WINDOWS.replace("FRAMES", frames), encoding="utf-8")
    scheme = f"--blink-settings=preferredColorScheme={0 if is_dark else 1}"
    outcomes = dump_outcome(windows, scheme, "--hide-scrollbars")
    assert sorted(map(int, outcomes)) == sorted(widths)
    assert [outcome.pop("problems") for outcome in outcomes.values()] == [[]] * len(widths)
    return {int(width): outcome for width, outcome in outcomes.items()}


def dump_outcome(page: Path, *options: str) -> dict[str, Any]:
    """Open a page in the browser and return the JSON of its outcome."""
    assert BROWSER is not None
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", *options]
    if "--timeout=20000" not in options:
        command.append("--virtual-time-budget=4000")
    command += [f"--user-data-dir={page.parent / 'profile'}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, timeout=120, env={**os.environ, "HOME": str(page.parent)})
    match = re.search('<pre id="outcome">(.*?)</pre>', done.stdout.decode("utf-8"), re.DOTALL)
    assert match, done.stderr.decode("utf-8")[-2000:]
    outcome: dict[str, Any] = json.loads(unescape(match.group(1)))
    return outcome


def run(name: str, codes: tuple[str, ...], seed: int = 1, on_target: float = 0.5) -> ReportRun:
    evaluation = synthetic_evaluation(codes, seed, on_target)
    evaluation = with_statistics(evaluation) if len(codes) < 20 else evaluation
    return make_report_run(name, evaluation, make_system_facts(codes, seed))


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
    assert result["lines"] in (8, 16)
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


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_the_page_is_legible_on_a_phone_a_laptop_and_a_desktop(two: Path, is_dark: bool) -> None:
    results = run_at_widths(
        two,
        LAYOUT_STEPS
        + """
        const cell = $$("#direction-heatmap rect[data-i]").find((node) => node.dataset.i === "12");
        const map = $("#direction-heatmap .map"), height = box(map).height;
        cell.dispatchEvent(new MouseEvent("click", { bubbles: true }));
        const detail = box($("#detail")), clicked = box(cell);
        const others = $$("#direction-heatmap rect[data-i]").filter((node) => box(node).top > clicked.bottom);
        result.sentences = $$("#detail .rank").map((node) => node.textContent);
        result.beside = detail.left - box(map).right;
        result.shared_height = Math.min(detail.bottom, clicked.bottom) - Math.max(detail.top, clicked.top);
        result.below = detail.top - clicked.bottom;
        result.next_row = Math.min(...others.map((node) => box(node).top)) - detail.bottom;
        result.map_growth = box(map).height - height;
        const topmost = document.elementFromPoint(detail.left + 8, detail.top + detail.height / 2);
        result.in_front = $("#detail").contains(topmost);
        result.wide = document.documentElement.scrollWidth - innerWidth;
        result.averages = $("#averages .scroll").scrollWidth - $("#averages .scroll").clientWidth;
        const accuracyCells = $$("#averages td[data-label=LangAcc]");
        result.accuracy = accuracyCells.map((node) => [box(node).left, box(node).right, node.textContent]);
        result.labels = getComputedStyle($("#averages td.number"), "::before").content;
        result.ticks = $$(".curve text").map((node) => node.textContent);
        $$("details").forEach((node) => { node.open = true; });
        result.pale = pale(); result.overlaps = overlaps(); result.cut = cut();
        result.texts = textBoxes().length;
        result.scheme = luminance(getComputedStyle(document.body).backgroundColor) < 0.2;
        $("#detail .close").click();
        result.closed = [$$("#detail h3").length, box(map).height - height];
        choose("#direction-heatmap", 2, "1"); result.pale_differences = pale();
        """,
        (PHONE, LAPTOP, DESKTOP),
        is_dark,
    )
    for width, result in results.items():
        assert result["scheme"] is is_dark
        assert result["wide"] <= 0, "no horizontal scrolling"
        assert result["averages"] <= 0
        assert all(0 < left < right <= width and text != "–" for left, right, text in result["accuracy"])
        assert len(result["accuracy"]) == 8, "four groups and two runs"
        assert result["texts"] > 500
        assert (result["pale"], result["overlaps"], result["cut"]) == ([], [], [])
        assert result["sentences"][0].startswith("Worst of 8 sentences, chrF++ ")
        assert result["pale_differences"] == []
        assert result["closed"] == [0, 0]
        assert {"0", "5,000", "20,000"} <= set(result["ticks"])
    assert results[PHONE]["labels"] == '"number"'
    assert 0 <= results[PHONE]["below"] < 10, "the sentences are right below the clicked row"
    assert 0 <= results[PHONE]["next_row"] < 10, "and push the next row down"
    assert results[PHONE]["map_growth"] > 100
    assert results[PHONE]["in_front"]
    for width in (LAPTOP, DESKTOP):
        assert 0 <= results[width]["beside"] < 40, "the sentences are beside the matrix"
        assert results[width]["shared_height"] > 0, "at the height of the clicked cell"
        assert results[width]["map_growth"] == 0


def test_the_keyboard_focus_marks_a_cell(two: Path) -> None:
    result = run_in_browser(
        two,
        """
        const grid = $("#direction-heatmap .grid"), frame = $("#direction-heatmap .frame");
        const key = (name) => grid.dispatchEvent(new KeyboardEvent("keydown", { key: name, cancelable: true }));
        const rect = (i) => $(`#direction-heatmap rect[data-i="${i}"]`);
        const isFramed = (node) => ["x", "y"].every((name) => node.getAttribute(name) === frame.getAttribute(name));
        const framed = () => $$("#direction-heatmap rect[data-i]").filter(isFramed).map((node) => node.dataset.i);
        result.before = frame.classList.contains("selected");
        grid.focus();
        result.outline = getComputedStyle(grid).outlineStyle;
        result.focused = [frame.classList.contains("focused"), framed(), $$("#detail h3").length];
        key("Enter"); result.entered = [framed(), $("#detail h3").textContent];
        key("ArrowDown"); result.moved = [framed(), $("#detail h3").textContent];
        const size = (node) => [node.getBoundingClientRect().width, node.getBoundingClientRect().height];
        result.sizes = [size(frame), size(rect(framed()[0]))];
        grid.blur(); result.blurred = [frame.classList.contains("focused"), frame.classList.contains("selected")];
        grid.focus(); key("Escape"); result.escaped = $$("#detail h3").length;
        """,
    )
    assert result["before"] is False
    assert result["outline"] == "none", "the frame marks a cell, not the whole map"
    assert result["focused"][0] is True
    assert len(result["focused"][1]) == 1
    assert result["focused"][2] == 0, "focus alone selects nothing"
    assert result["entered"] == [result["focused"][1], "Arabic → German, zero-shot"]
    assert result["moved"][1] == "English → German, supervised"
    assert len(result["moved"][0]) == 1
    for frame_side, cell_side in zip(*result["sizes"], strict=True):
        assert abs(frame_side - cell_side) <= 6
    assert result["blurred"] == [False, True]
    assert result["escaped"] == 0


def test_relative_accuracy_is_explained_where_it_is_shown(two: Path) -> None:
    result = run_in_browser(
        two,
        """
        const explained = (box) => $(box).textContent.includes("LangAcc of the references");
        result.tables = ["#averages", "#directions"].map(explained);
        result.before = explained("#heatmap");
        choose("#direction-heatmap", 1, "relative_language_accuracy");
        result.chosen = explained("#heatmap");
        result.verdict = $("main").firstElementChild.id;
        result.worst = $$("#worst details[open] dl.sentence").map((node) => Number(node.lastElementChild.textContent));
        """,
    )
    assert result["tables"] == [True, True]
    assert (result["before"], result["chosen"]) == (False, True)
    assert result["verdict"] == "verdict"
    assert len(result["worst"]) == 6, "three sentences of two directions"


def test_text_from_the_data_is_never_html(tmp_path: Path) -> None:
    hostile = "</script><script>problems.push('run')</script><img src=x onerror=\"problems.push('img')\">&amp;\u2028"
    evaluation = synthetic_evaluation(SIX)
    evaluation = replace(
        evaluation, examples=[replace(e, output=hostile, source_text=hostile) for e in evaluation.examples]
    )
    write_html_report(tmp_path / "report.html", [make_report_run(hostile, evaluation, make_system_facts(SIX))])
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


LARGE_STEPS = """
  const canvas = $(".large canvas"), area = canvas.getBoundingClientRect();
  const fire = (type, x, y, kind = PointerEvent) => canvas.dispatchEvent(new kind(type, {
    bubbles: true, pointerId: 1, pointerType: "mouse",
    clientX: area.left + x * area.width, clientY: area.top + y * area.height }));
  const key = (name) =>
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  const find = (text) => type("#direction-heatmap", text);
  const whole = () => $$(".zoom button")[2].disabled;
"""


def test_ninety_languages_have_a_map_with_groups_zoom_and_search(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    codes = FLORES_200[::2][:90]
    write_html_report(path, [make_report_run("first", evaluation_without_text(codes), {})])
    result = run_in_browser(
        path,
        LARGE_STEPS
        + """
        result.options = $$("#direction-heatmap select").map((node) => [...node.options].map((option) => option.value));
        const { data: image } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        result.colors = new Set(new Uint32Array(image.buffer)).size;
        fire("pointermove", 0.6, 0.7); result.tip = $("#tooltip").textContent.split("\\n");
        fire("click", 0.6, 0.7, MouseEvent); result.clicked = $("#detail h3").textContent;
        key("ArrowDown"); result.below = $("#detail h3").textContent;
        key("+"); result.zoomed = !whole(); key("0"); result.whole = whole();
        find("deu>French"); result.found = $("#detail h3").textContent; result.near = !whole();
        find("Klingon"); result.unknown = $("#direction-heatmap .controls").textContent.includes("No language matches");
        find(""); $$(".zoom button")[2].click();
        choose("#direction-heatmap", 2, "means"); fire("pointermove", 0.6, 0.7);
        result.mean = $("#tooltip").textContent.split("\\n");
        fire("click", 0.6, 0.7, MouseEvent); result.block = [!whole(), $$("#direction-heatmap select")[2].value];
        choose("#direction-heatmap", 1, "script"); choose("#direction-heatmap", 0, "chrf");
        choose("#direction-heatmap", 1, "value");
        result.selects = $$("#direction-heatmap select").length;
        key("Escape"); result.closed = $$("#detail h3").length;
        result.nodes = document.querySelectorAll("*").length;
        result.wide = document.documentElement.scrollWidth - innerWidth;
        $("#direction-table .more button").click(); result.rows = column("#direction-table", 0).length;
        """,
        "--window-size=1400,900",
    )
    assert result["options"][1][:2] == ["family", "script"]
    assert result["colors"] > 20
    assert result["tip"][0] == result["clicked"] != result["below"]
    assert result["clicked"].split(" → ")[1] == result["below"].split(" → ")[1], "the same target"
    assert result["tip"][-1].count(",") == 2, "family and script of both languages"
    assert (result["zoomed"], result["whole"], result["near"], result["unknown"]) == (True, True, True, True)
    assert result["found"] == "German → French"
    assert "mean BLEU" in result["mean"][1]
    assert "directions" in result["mean"][2]
    assert result["block"] == [True, "directions"]
    assert (result["selects"], result["closed"]) == (2, 0), "without groups there are no means"
    assert result["nodes"] < 5000
    assert result["wide"] <= 0
    assert result["rows"] == 5050


@pytest.mark.slow
def test_two_hundred_languages_open_within_three_seconds(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_html_report(path, [make_report_run("first", evaluation_without_text(FLORES_200), {})])
    assert path.stat().st_size < 4_000_000
    page = path.with_name("timed.html")
    report = """<script>addEventListener("load", () => {
      const outcome = document.createElement("pre"), mark = performance.getEntriesByName("report-ready")[0];
      outcome.id = "outcome";
      outcome.textContent = JSON.stringify({ ready: mark.startTime });
      document.body.append(outcome);
    });</script></body>"""
    page.write_text(path.read_text("utf-8").replace("</body>", report), "utf-8")
    assert dump_outcome(page, "--timeout=20000")["ready"] < 3000


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


def test_a_system_without_known_supervision_shows_other_metrics(tmp_path: Path) -> None:
    """Lower MetricX scores are better: the scale is reversed, and a lower score counts as a win."""
    origin = FileOrigin("scores", "0" * 64, "2025-01-01T00:00:00Z")
    runs = []
    for name, shift in (("a", 0.0), ("b", 0.5)):
        evaluation = synthetic_evaluation(SIX)
        results = [
            replace(d, zero_shot=None, metrics={"comet": d.bleu / 100, "metricx": 5 - d.bleu / 20 + shift})
            for d in evaluation.directions
        ]
        metrics = {"comet": SegmentMetric(False, origin), "metricx": SegmentMetric(True, origin)}
        system = ScoredSystem(name, origin)
        evaluation = replace(evaluation, directions=results, metrics=metrics, system=system, output_language_counts={})
        runs.append(make_report_run(name, evaluation, {}))
    write_html_report(tmp_path / "report.html", runs)
    result = run_in_browser(
        tmp_path / "report.html",
        """
        const option = $$("#direction-heatmap select")[1];
        result.metrics = [...option.options].map((each) => each.text).slice(-2);
        choose("#direction-heatmap", 1, "segment:metricx"); result.scale = $("#direction-heatmap .scale").textContent;
        result.shown = $("#direction-heatmap text.value").textContent;
        choose("#direction-heatmap", 2, "1"); result.difference = $("#direction-heatmap .scale").textContent;
        result.signs = [$$("#direction-heatmap .plus").length, $$("#direction-heatmap .minus").length];
        result.framed = $$("#direction-heatmap rect.supervised").length;
        result.headings = $$("#direction-table th").map((node) => node.textContent);
        point($("#direction-heatmap rect[data-i]")); result.tip = $("#tooltip").textContent;
        """,
    )
    assert result["metrics"] == ["comet", "metricx (lower is better)"]
    assert re.fullmatch(r"\d\.\d\d0.*rows: source, columns: target", result["scale"])
    assert re.fullmatch(r"\d\.\d", result["shown"])
    assert "+0.50 better than b" in result["difference"]
    assert "lower in 30 of 30 directions" in result["difference"]
    assert result["signs"] == [30, 0]
    assert result["framed"] == 0
    assert {"comet", "metricx ↓"} < set(result["headings"])
    assert "group" not in result["headings"]
    assert "comet 0." in result["tip"]
