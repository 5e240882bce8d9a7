"""Take screenshots of the figures of an HTML report, for a page of results.

    python docs/results/pictures.py -o docs/results/mix60 --baseline Adapter_dec    # the stored results of mix60
    python docs/results/pictures.py -o PICTURES Token_src=SCORES/token_src/mix60 LEE=SCORES/lee/mix60 …

Name the runs as for `manyglot report`, the reference first. Chromium opens the report, one figure at a time. The heat
maps show the run with the best zero-shot BLEU. The map of differences compares it with the run that --baseline names.
Without --baseline, it compares it with the reference, or with the second-best run if the reference is the best.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from manyglot.reports.html_report import write_html_report
from manyglot.workflows.report import report

WIDTH, MAX_HEIGHT, MARGIN = 1080, 6000, 16
"""Size of the browser window in pixels; screenshots are cropped to the figure plus a margin."""
PAGE_STYLE = """<style>
  main { max-width: none; padding: 0 !important; } body { width: WIDTHpx; padding: MARGINpx; }
</style></head>"""
SHOW_ONE_FIGURE = """<script>
  // Runs after the page's own script. Each change renders the page again, so the controls are looked up every time.
  const { runs, zero_shot: isZeroShot, language_maps: maps } = JSON.parse(document.getElementById("data").textContent);
  const means = runs.map(({ bleu }) => bleu.reduce((sum, value, i) => sum + isZeroShot[i] * value, 0));
  const order = means.map((_, i) => i).sort((a, b) => means[b] - means[a]), best = order[0];
  const bestMap = maps.findIndex(({ run }) => run === runs[best].name);
  const given = runs.findIndex(({ name }) => name === BASELINE);
  const values = { best, baseline: given >= 0 ? given : best ? 0 : order[1] ?? -1, best_map: Math.max(bestMap, 0) };
  const names = { best: runs[best].name, baseline: runs[values.baseline]?.name };
  const map = maps[values.best_map];
  if (map) names.best_map = `${map.run}, ${map.method}`;
  for (const [label, choice] of CHOICES) {
    const labels = [...document.querySelectorAll(".controls label")];
    const select = labels.find((node) => node.firstChild.textContent === label)?.querySelector("select");
    if (!select) continue; // there is nothing to choose from
    select.value = values[choice] ?? choice;
    select.dispatchEvent(new Event("change"));
  }
  const title = document.querySelector("#SECTION h2");
  title.textContent = TITLE.replace(/{(\\w+)}/g, (_, key) => names[key]);
</script>
<style>
  header, footer, section:not(#SECTION), .controls, #detail, h3, p.quiet, HIDDEN { display: none !important; }
  section { border: 0; margin: 0; } h2 { padding: 0; }
</style></body>"""


class Figure(NamedTuple):
    """A figure of the report and how to show it."""

    section: str
    title: str
    choices: dict[str, str]
    """Values to choose in the controls, by their labels."""
    hidden: str = "template"
    """CSS selector of elements to hide, so that the rest is legible."""


FIGURES = {
    "averages": Figure(
        "averages", "Averages", {}, "tr > :nth-child(10), tr > :nth-child(n + 12)"
    ),  # hides the share of empty outputs, which is not stored, and all win rates except those against the reference
    "bleu": Figure("heatmap", "{best}: BLEU", {"run": "best", "order": "data"}),
    "difference": Figure(
        "heatmap", "{best} minus {baseline}: BLEU", {"run": "best", "difference from": "baseline", "order": "data"}
    ),
    "off_target": Figure(
        "off_target", "{best}: languages of the zero-shot outputs", {"run": "best"}, ".off-target > :nth-child(n + 91)"
    ),  # the 30 target languages with the lowest LangAcc
    "similarities": Figure(
        "similarities",
        "{best_map}: language similarity",
        {"representation": "best_map"},
        ".swatches, .point-map",
    ),
}
"""The figures, by the file name of the picture."""


def main(runs: list[str], output: Path, baseline: str) -> None:
    """Write the report and take a screenshot of each figure."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("Install Chromium to take the screenshots; it was not found.")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        if runs:
            report(runs, page)
        else:
            from stored_results import report_runs

            write_html_report(page, report_runs())
        text = page.read_text("utf-8")
        if baseline and json.dumps(baseline) not in text:
            raise SystemExit(f"--baseline: no run is named {baseline}.")
        for name, figure in FIGURES.items():
            if f"<section id={figure.section}>" not in text:
                print(f"{name}: skipped, because the report does not contain this figure", file=sys.stderr)
                continue
            page.write_text(page_with_one_figure(text, figure, baseline), encoding="utf-8")
            path = output / f"{name}.png"
            take_screenshot(browser, page, path)
            print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


def page_with_one_figure(page: str, figure: Figure, baseline: str) -> str:
    """Return the page with everything but one figure hidden."""
    style = PAGE_STYLE.replace("WIDTH", str(WIDTH)).replace("MARGIN", str(MARGIN))
    script = SHOW_ONE_FIGURE.replace("CHOICES", json.dumps(list(figure.choices.items()))).replace(
        "SECTION", figure.section
    )
    script = script.replace("TITLE", json.dumps(figure.title)).replace("HIDDEN", figure.hidden)
    script = script.replace("BASELINE", json.dumps(baseline))
    return script.join(style.join(page.split("</head>", 1)).rsplit("</body>", 1))


def take_screenshot(browser: str, page: Path, path: Path) -> None:
    """Save a screenshot of a page, cropped to its content."""
    screenshot = page.with_suffix(".png")
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--force-color-profile=srgb",
    ]
    command += [f"--window-size={WIDTH},{MAX_HEIGHT}", "--virtual-time-budget=4000", f"--screenshot={screenshot}"]
    command += [f"--user-data-dir={page.parent / 'profile'}", page.as_uri()]
    subprocess.run(command, capture_output=True, timeout=300, check=True, env={**os.environ, "HOME": str(page.parent)})
    with Image.open(screenshot) as opened:
        picture = crop_to_content(opened.convert("RGB"))
    picture.save(path, optimize=True)


def crop_to_content(picture: Image.Image) -> Image.Image:
    """Crop to the pixels that differ from the bottom right corner, plus a margin."""
    values_HWC = np.asarray(picture)
    content_HW = (values_HWC != values_HWC[-1, -1]).any(axis=2)
    if not content_HW.any():
        raise SystemExit("The page is empty.")
    bottom, right = (int(np.flatnonzero(content_HW.any(axis=axis))[-1]) + 1 + MARGIN for axis in (1, 0))
    return picture.crop((0, 0, min(right, picture.width), min(bottom, picture.height)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Take screenshots of the figures of a report.")
    parser.add_argument("runs", nargs="*", metavar="NAME=FOLDER")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--baseline", default="", metavar="NAME", help="run to compute differences from")
    arguments = parser.parse_args()
    main(arguments.runs, arguments.output, arguments.baseline)
