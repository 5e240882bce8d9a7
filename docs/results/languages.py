"""The picture of the languages: a plane and a tree for each representation whose similarities are kept.

python docs/results/languages.py                 # mix60/languages.png
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from manyglot.probing.language_map import Join
from manyglot.reports.curves import STYLE
from manyglot.reports.language_map import draw_places, draw_tree, name_places
from manyglot.reports.language_places import language_places

KEPT = Path(__file__).parent / "mix60"
DRAWN = {
    ("token_tgt", "token"): "Token_tgt",
    ("token_src.s2", "token"): "Token_src",
    ("lee_2_5", "lee"): "LEE_2,5",
    ("adapter_dec", "adapter"): "Adapter_dec",
    ("laa_dec_self_lee_4_5", "laa"): "LAA_dec.self + LEE_4,5",
    ("laa_zero_dec_self_lee_4_5", "laa"): "LAA_dec.self (gain 0) + LEE_4,5",
}
"""The representations, by system and method, with the names of the systems."""
FAMILIES = {
    "Slavic": ("#0072b2", "be bg bs cs hr mk pl ru sk sl sr uk"),
    "Romance": ("#d55e00", "ca es fr gl it pt ro"),
    "Germanic": ("#009e73", "da de en is nb nl sv"),
    "Indo-Iranian": ("#cc79a7", "bn fa hi mr ur"),
    "Afro-Asiatic": ("#b09000", "ar ha he kab"),
    "Uralic": ("#6a3d9a", "et fi hu"),
    "Turkic": ("#56b4e9", "az kk tr"),
    "Austronesian": ("#8c564b", "id ms tl"),
}
"""With their colours. Of Indo-European the branches, or half of the languages would have one colour."""
OTHERS = "#8d949b"


def maps() -> list[dict[str, Any]]:
    """Of those that are kept."""
    found = []
    for (system, method), name in DRAWN.items():
        path = KEPT / f"{system}.alike.json"
        if path.exists():
            kept = json.loads(path.read_text("utf-8"))
            found += language_places([(name, kept | {"similarities": {method: kept["similarities"][method]}})])
    return found


def draw(output: Path) -> None:
    """Draw them side by side."""
    drawn = maps()
    shades = {name: shade for name, (shade, _) in FAMILIES.items()}
    family = {code: name for name, (_, codes) in FAMILIES.items() for code in codes.split()}
    with matplotlib.rc_context(STYLE | {"axes.grid": False}):
        figure = Figure(figsize=(max(2.9 * len(drawn), 8), 11), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.08)
        grid = figure.subplots(2, len(drawn), height_ratios=(1, 2.6), squeeze=False)
        for (above, below), each in zip(grid.T, drawn, strict=True):
            codes, place_L2 = [language["code"] for language in each["languages"]], np.array(each["plane"])
            kinds = {name: [i for i, code in enumerate(codes) if family.get(code) == name] for name in FAMILIES}
            kinds["other"] = [i for i, code in enumerate(codes) if code not in family]
            draw_places(above, place_L2, kinds, shades)
            above.set_title(
                f"{each['run']}: {each['method']}\nplane, {100 * each['spread']:.0f}% of the spread", fontsize=9
            )
            draw_tree(below, [Join(*join) for join in each["joins"]], each["order"])
            for row, i in enumerate(each["order"]):
                shade = shades.get(family.get(codes[i], ""), OTHERS)
                below.annotate(
                    codes[i],
                    (1, row),
                    (3, 0),
                    ("axes fraction", "data"),
                    "offset points",
                    fontsize=7.5,
                    va="center",
                    color=shade,
                )
        figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
        for (above, _), each in zip(grid.T, drawn, strict=True):
            name_places(above, np.array(each["plane"]), [language["code"] for language in each["languages"]], 6)
        figure.savefig(output, dpi=110)


if __name__ == "__main__":
    draw(KEPT / "languages.png")
