"""The page in a real browser: it sorts, filters, shows tooltips and sentences, and complains of nothing."""

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

from manyglot.reports.page import Run, run_of, write_page
from tests.reports.made_up import SIX, SIXTY, about, made_up

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium here")

LISTEN = """<script>
window.complaints = [];
addEventListener("error", (event) => complaints.push(String(event.message)));
addEventListener("unhandledrejection", (event) => complaints.push(String(event.reason)));
console.error = console.warn = (...what) => complaints.push(what.join(" "));
</script>"""
"""Before all else in the page."""
ASK = """<script>
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
const asked = {};
try {
  STEPS
} catch (error) { complaints.push(String(error.stack)); }
const outcome = document.createElement("pre");
outcome.id = "outcome";
outcome.textContent = JSON.stringify({ ...asked, complaints });
document.body.append(outcome);
</script>"""


def ask(page: Path, steps: str, *options: str) -> dict[str, Any]:
    """Open a copy of a page in the browser, take steps there and read what they found out."""
    text = page.read_text("utf-8").replace("<head>", f"<head>{LISTEN}", 1)
    copy = page.with_name("asked.html")
    copy.write_text(text.replace("</body>", ASK.replace("STEPS", steps) + "</body>"), encoding="utf-8")
    assert BROWSER is not None
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000", *options]
    command += [f"--user-data-dir={page.parent / 'profile'}", "--dump-dom", copy.as_uri()]
    done = subprocess.run(command, capture_output=True, timeout=120, env={**os.environ, "HOME": str(page.parent)})
    found = re.search('<pre id="outcome">(.*?)</pre>', done.stdout.decode("utf-8"), re.DOTALL)
    assert found, done.stderr.decode("utf-8")[-2000:]
    outcome: dict[str, Any] = json.loads(unescape(found.group(1)))
    assert outcome.pop("complaints") == []
    return outcome


def run(name: str, codes: tuple[str, ...], seed: int = 1, on_target: float = 0.5) -> Run:
    evaluation = made_up(codes, seed, on_target)
    return run_of(name, evaluation, about(codes, seed))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two runs of six languages."""
    path = tmp_path_factory.mktemp("two") / "report.html"
    write_page(path, [run("LAA", SIX, on_target=0.9), run("token", SIX, 2)])
    return path


def test_tables_are_sorted_by_their_headings_and_cut_down_by_words(two: Path) -> None:
    found = ask(
        two,
        """
        const box = "#direction-table";
        asked.first = column(box, 2);
        press(box, 2); asked.down = column(box, 2); asked.arrow = $$(`${box} th`)[2].ariaSort;
        press(box, 0); asked.names = column(box, 0);
        type(box, "german"); asked.german = column(box, 0).map((from, i) => [from, column(box, 1)[i]]);
        type(box, "de>ja"); asked.one = [column(box, 0), column(box, 1)].flat();
        type(box, ""); choose(box, 0, "supervised"); asked.supervised = column(box, 0).length;
        asked.note = $(`${box} .more span`).textContent;
        asked.languages = column("#language-table", 0).length;
        type("#language-table", "sw"); asked.swahili = column("#language-table", 0);
        """,
    )
    numbers = [float(each) for each in found["first"]]
    assert numbers == sorted(numbers), "the worst come first"
    assert [float(each) for each in found["down"]] == sorted(numbers, reverse=True)
    assert found["arrow"] == "descending"
    assert found["names"] == sorted(found["names"])
    assert len(found["german"]) == 10
    assert all("German (de)" in pair for pair in found["german"])
    assert found["one"] == ["German (de)", "Japanese (ja)"]
    assert (found["supervised"], found["note"], found["languages"]) == (10, "10 of 30 directions", 6)
    assert found["swahili"] == ["Swahili (sw)"]


def test_the_heat_map_has_tooltips_sentences_and_differences(two: Path) -> None:
    found = ask(
        two,
        """
        const cell = () => $$("#heatmap rect").find((each) => each.dataset.i === "5");
        asked.cells = $$("#heatmap rect[data-i]").length;
        asked.trained = $$("#heatmap rect.trained").length;
        asked.hidden = $("#tip").hidden;
        point(cell()); asked.tip = $("#tip").textContent; asked.shown = !$("#tip").hidden;
        asked.marked = $$("#heatmap text.on").map((each) => each.firstChild.data);
        $("#heatmap .grid").dispatchEvent(new PointerEvent("pointerleave")); asked.gone = $("#tip").hidden;
        cell().dispatchEvent(new MouseEvent("click", { bubbles: true }));
        asked.detail = $("#detail h3").textContent; asked.lines = $$("#detail dt").length;
        asked.framed = $("#heatmap .picked").getAttribute("x") === cell().getAttribute("x");
        asked.arabic = $("#detail dd[lang=ar]").dir;
        $("#heatmap .grid").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown" }));
        asked.below = $("#detail h3").textContent;
        choose("#heatmap", 2, "1"); asked.minus = $("#heatmap .scale").textContent;
        asked.signs = [$$("#heatmap .plus").length, $$("#heatmap .minus").length];
        choose("#heatmap", 1, "accuracy"); asked.accuracy = $$("#heatmap .plus").length > 20;
        choose("#heatmap", 3, "value"); choose("#heatmap", 0, "1");
        asked.still = $$("#heatmap rect[data-i]").length;
        asked.bars = $$("#drifts .bar").length;
        """,
    )
    assert (found["cells"], found["trained"], found["still"], found["bars"]) == (30, 10, 30, 5)
    assert (found["hidden"], found["shown"], found["gone"]) == (True, True, True)
    assert found["tip"].startswith("German → Arabic, zero-shot\nBLEU ")
    assert "token: BLEU" in found["tip"]
    assert found["marked"] == ["de", "ar"]
    assert found["detail"] == "German → Arabic, zero-shot"
    assert found["lines"] in (4, 12)
    assert found["arabic"] == "auto"
    assert found["framed"]
    assert found["below"] == "English → Arabic, supervised"
    assert "better than token" in found["minus"]
    assert sum(found["signs"]) == 30
    assert found["accuracy"]


def test_languages_are_placed_with_tooltips(two: Path) -> None:
    found = ask(
        two,
        """
        asked.points = $$("#places circle").length;
        asked.named = $$("#places .plane text").map((each) => each.textContent).sort();
        asked.cells = $$("#places rect.cell").length;
        asked.joins = $$("#places .tree .reach").length;
        point($("#places circle")); asked.point = $("#tip").textContent;
        point($("#places rect.cell")); asked.cell = $("#tip").textContent;
        point($$("#places .reach")[4]); asked.join = $("#tip").textContent;
        point($("#places .grid")); asked.gone = $("#tip").hidden;
        asked.rows = $$("#places .rows text").map((each) => each.firstChild.data);
        asked.maps = $$("#places select option").map((each) => each.textContent);
        choose("#places", 0, "1");
        asked.other = $$("#places .rows text").map((each) => each.firstChild.data);
        """,
    )
    assert (found["points"], found["cells"], found["joins"]) == (6, 30, 5)
    assert found["named"] == list(SIX)
    assert found["point"].startswith("Arabic (ar)\n")
    assert "script: Arabic\nnearest:\n" in found["point"]
    assert " – " in found["cell"]
    assert "similarity " in found["cell"]
    assert all(name in found["join"] for name in ("Arabic", "German", "English", "Hebrew", "Japanese", "Swahili"))
    assert found["gone"]
    assert sorted(found["rows"]) == sorted(found["other"]) == list(SIX)
    assert found["rows"] != found["other"], "the other run has learnt another order"
    assert found["maps"][:2] == ["LAA, token", "token, token"]


def test_text_from_the_data_is_only_text(tmp_path: Path) -> None:
    hostile = (
        "</script><script>complaints.push('run')</script><img src=x onerror=\"complaints.push('img')\">&amp;\u2028"
    )
    evaluation = made_up(SIX)
    evaluation = replace(evaluation, examples=[replace(e, output=hostile, text=hostile) for e in evaluation.examples])
    write_page(tmp_path / "report.html", [run_of(hostile, evaluation, about(SIX))])
    found = ask(
        tmp_path / "report.html",
        """
        $("#heatmap rect").dispatchEvent(new MouseEvent("click", { bubbles: true }));
        asked.source = $("#detail dd").textContent;
        asked.worst = $("#worst dd").textContent;
        asked.title = document.title;
        asked.images = document.images.length;
        """,
    )
    assert found["source"] == found["worst"] == hostile
    assert found["title"].startswith("</script><script>")
    assert found["images"] == 0


def test_sixty_languages_fit(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_page(path, [run("LAA", SIXTY, on_target=0.8), run("token", SIXTY, 2)])
    assert path.stat().st_size < 3_000_000
    found = ask(
        path,
        """
        asked.cells = $$("#heatmap rect[data-i]").length;
        asked.rows = column("#direction-table", 0).length;
        $("#direction-table .more button").click(); asked.all = column("#direction-table", 0).length;
        asked.wide = document.documentElement.scrollWidth - innerWidth;
        asked.map = $("#heatmap .map").scrollWidth - $("#heatmap .map").clientWidth;
        asked.alike = $("#places .map").scrollWidth - $("#places .map").clientWidth;
        dispatchEvent(new Event("beforeprint")); asked.printed = $("#heatmap .grid").clientWidth;
        asked.places = $("#places .plane").clientWidth;
        asked.scale = $("#places .scale").textContent;
        asked.dark = $$("#places rect.cell").filter((each) => each.style.getPropertyValue("--p") === "100%").length;
        asked.tree = $$("#places .map svg").reduce((sum, each) => sum + each.clientWidth, 0);
        """,
        "--window-size=1400,900",
    )
    assert (found["cells"], found["rows"], found["all"]) == (3540, 50, 3540)
    assert found["wide"] <= 0, "nothing sticks out of the page"
    assert (found["map"], found["alike"]) == (0, 0)
    assert max(found["printed"], found["places"], found["tree"]) < 720, "a sheet of paper is not wider"
    assert found["scale"].endswith("or more")
    assert 35 <= found["dark"] <= 80, "about a hundredth of 3,540"


def test_every_run_is_seen_in_its_colour(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_page(path, [run(f"run {i}", SIX, i) for i in range(11)])
    found = ask(
        path,
        """
        asked.names = $$("#averages td.name").slice(0, 11).map((each) => getComputedStyle(each).color);
        asked.legend = $$(".legend li").map((each) => getComputedStyle(each).color);
        asked.lines = $$("figure:nth-child(2) polyline").map((each) => getComputedStyle(each).stroke);
        """,
    )
    assert found["names"] == found["legend"] == found["lines"]
    assert len(set(found["lines"])) == 11, "ten of their own, and that of the rest"


def test_pictures_show_one_figure(tmp_path: Path) -> None:
    pictures = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "results" / "pictures.py"))
    page = tmp_path / "report.html"
    write_page(page, [run("token", SIX, 2), run("LAA", SIX, on_target=0.9), run("LEE", SIX, 3, on_target=0.3)])
    text = page.read_text("utf-8")
    for name, minus, title in [
        ("averages", "", "Averages"),
        ("difference", "", "LAA minus token: BLEU"),
        ("difference", "LEE", "LAA minus LEE: BLEU"),
        ("alike", "", "LAA, token: similarity of the languages"),
    ]:
        figure = pictures["FIGURES"][name]
        page.write_text(pictures["alone"](text, figure, minus), encoding="utf-8")
        found = ask(
            page,
            """
            const seen = (each) => each.offsetHeight || each.clientHeight;
            const titled = (each) => [each.id, each.querySelector("h2").textContent];
            asked.sections = $$("section, header, footer").filter(seen).map(titled);
            asked.columns = $$("#averages thead th").filter(seen).map((each) => each.textContent);
            asked.scale = $("#heatmap .scale").textContent;
            """,
        )
        assert found["sections"] == [[figure.section, title]]
        assert name != "averages" or found["columns"][-1] == "win rate against token"
        assert name != "difference" or f"better than {minus or 'token'}" in found["scale"]
    page.write_text(pictures["alone"](text, pictures["FIGURES"]["bleu"], ""), encoding="utf-8")
    pictures["take"](BROWSER, page, tmp_path / "bleu.png")
    with Image.open(tmp_path / "bleu.png") as picture:
        assert 300 < picture.width < pictures["WIDTH"], "six languages do not fill the width"
        assert 300 < picture.height < 800
    with pytest.raises(SystemExit, match="nothing to be seen"):
        pictures["trimmed"](Image.new("RGB", (40, 30)))
