"""Pictures of the report's figures, for a page of results.

    python docs/results/pictures.py -o docs/results/mix60 --minus Adapter_dec    # of what is kept of mix60
    python docs/results/pictures.py -o PICTURES Token_src=SCORES/token_src/mix60 LEE=SCORES/lee/mix60 …

Runs are given as to `manyglot report`, the reference first. The report is opened in chromium, one figure at a time. The
matrices are those of the best run by zero-shot BLEU, and differences are against the run that --minus names, the
reference, or the second best.
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

from manyglot.reports.page import write_page
from manyglot.workflows.evaluate import report

WIDTH, TALLEST, MARGIN = 1080, 6000, 16
"""Pixels, as of a page of documentation; what is below and beside a figure is cut off but for the margin."""
WIDE = """<style>
  main { max-width: none; padding: 0 !important; } body { width: WIDTHpx; padding: MARGINpx; }
</style></head>"""
ALONE = """<script>
  // After the page's own script. Every choice draws anew, so the controls are looked up again each time.
  const { runs, unseen, places } = JSON.parse(document.getElementById("data").textContent);
  const means = runs.map(({ bleu }) => bleu.reduce((sum, value, i) => sum + unseen[i] * value, 0));
  const order = means.map((_, i) => i).sort((a, b) => means[b] - means[a]), best = order[0];
  const own = places.findIndex(({ run }) => run === runs[best].name);
  const named = runs.findIndex(({ name }) => name === MINUS);
  const known = { best, reference: named >= 0 ? named : best ? 0 : order[1] ?? -1, own: Math.max(own, 0) };
  const names = { best: runs[best].name, reference: runs[known.reference]?.name };
  const place = places[known.own];
  if (place) names.own = `${place.run}, ${place.method}`;
  for (const [label, wanted] of CHOICES) {
    const labels = [...document.querySelectorAll(".controls label")];
    const select = labels.find((each) => each.firstChild.textContent === label)?.querySelector("select");
    if (!select) continue; // there is nothing to choose from
    select.value = known[wanted] ?? wanted;
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
    """A part of the report."""

    section: str
    title: str
    choices: dict[str, str]
    """What is chosen in the controls."""
    hidden: str = "template"
    """What is left out, so that the rest is legible."""


FIGURES = {
    "averages": Figure(
        "averages", "Averages", {}, "tr > :nth-child(10), tr > :nth-child(n + 12)"
    ),  # empty outputs are not kept; the win rate against the reference stays
    "bleu": Figure("map", "{best}: BLEU", {"run": "best", "order": "data"}),
    "difference": Figure(
        "map", "{best} minus {reference}: BLEU", {"run": "best", "minus": "reference", "order": "data"}
    ),
    "drift": Figure(
        "drift", "{best}: languages of its zero-shot outputs", {"run": "best"}, ".drift > :nth-child(n + 91)"
    ),  # into the 30 languages that it strikes most
    "alike": Figure("alike", "{own}: similarity of the languages", {"representation": "own"}, ".swatches, .plane"),
}
"""By the name of the picture."""


def main(runs: list[str], output: Path, minus: str) -> None:
    """Write the report and take its pictures."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("The pictures are taken by chromium, which is not there.")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        if runs:
            report(runs, page)
        else:
            from kept import runs as kept_runs

            write_page(page, kept_runs())
        text = page.read_text("utf-8")
        if minus and json.dumps(minus) not in text:
            raise SystemExit(f"--minus: there is no run {minus}.")
        for name, figure in FIGURES.items():
            if f"<section id={figure.section}>" not in text:
                print(f"{name}: the report has none", file=sys.stderr)
                continue
            page.write_text(alone(text, figure, minus), encoding="utf-8")
            path = output / f"{name}.png"
            take(browser, page, path)
            print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


def alone(page: str, figure: Figure, minus: str) -> str:
    """The page with one figure to be seen."""
    style = WIDE.replace("WIDTH", str(WIDTH)).replace("MARGIN", str(MARGIN))
    script = ALONE.replace("CHOICES", json.dumps(list(figure.choices.items()))).replace("SECTION", figure.section)
    script = script.replace("TITLE", json.dumps(figure.title)).replace("HIDDEN", figure.hidden)
    script = script.replace("MINUS", json.dumps(minus))
    return script.join(style.join(page.split("</head>", 1)).rsplit("</body>", 1))


def take(browser: str, page: Path, path: Path) -> None:
    """Save what is to be seen of a page, without the empty rest."""
    shot = page.with_suffix(".png")
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--force-color-profile=srgb",
    ]
    command += [f"--window-size={WIDTH},{TALLEST}", "--virtual-time-budget=4000", f"--screenshot={shot}"]
    command += [f"--user-data-dir={page.parent / 'profile'}", page.as_uri()]
    subprocess.run(command, capture_output=True, timeout=300, check=True, env={**os.environ, "HOME": str(page.parent)})
    with Image.open(shot) as opened:
        picture = trimmed(opened.convert("RGB"))
    picture.save(path, optimize=True)


def trimmed(picture: Image.Image) -> Image.Image:
    """What differs from the corner, with a margin."""
    values_HWC = np.asarray(picture)
    ink_HW = (values_HWC != values_HWC[-1, -1]).any(axis=2)
    if not ink_HW.any():
        raise SystemExit("There is nothing to be seen on the page.")
    bottom, right = (int(np.flatnonzero(ink_HW.any(axis=axis))[-1]) + 1 + MARGIN for axis in (1, 0))
    return picture.crop((0, 0, min(right, picture.width), min(bottom, picture.height)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Take pictures of a report's figures.")
    parser.add_argument("runs", nargs="*", metavar="NAME=FOLDER")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--minus", default="", metavar="NAME", help="the run that differences are against")
    given = parser.parse_args()
    main(given.runs, given.output, given.minus)
