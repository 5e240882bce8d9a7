"""Plot the languages of mix60: an MDS plane and a dendrogram for each stored representation.

python docs/results/languages.py                 # mix60/languages.png
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from manyglot.probing.language_distance_analysis import ClusterMerge
from manyglot.reports.html_language_map import representation_map_data
from manyglot.reports.language_similarity_plots import label_points, plot_dendrogram, plot_points
from manyglot.reports.learning_curve_plot import MATPLOTLIB_STYLE

STORED_RESULTS = Path(__file__).parent / "mix60"
PLOTTED = {
    ("token_tgt", "token"): "Token_tgt",
    ("token_src.s2", "token"): "Token_src",
    ("lee_2_5", "lee"): "LEE_2,5",
    ("adapter_dec", "adapter"): "Adapter_dec",
    ("laa_dec_self_lee_4_5", "laa"): "LAA_dec.self + LEE_4,5",
    ("laa_zero_dec_self_lee_4_5", "laa"): "LAA_dec.self (gain 0) + LEE_4,5",
}
"""The plotted representations, by system and method, with the display names of the systems."""
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
"""Color and languages of each family. Indo-European is split into branches, because it has half of the languages."""
OTHER_COLOR = "#8d949b"


def language_maps() -> list[dict[str, Any]]:
    """Return the map data of the plotted representations for which results are stored."""
    data = []
    for (system, method), name in PLOTTED.items():
        path = STORED_RESULTS / f"{system}.similarities.json"
        if path.exists():
            stored = json.loads(path.read_text("utf-8"))
            similarities = {"similarities": {method: stored["similarities"][method]}}
            data += representation_map_data([(name, stored | similarities)])
    return data


def plot_maps(output: Path) -> None:
    """Plot the maps of all stored representations side by side and save them to `output`."""
    plotted = language_maps()
    colors = {name: color for name, (color, _) in FAMILIES.items()}
    family = {code: name for name, (_, codes) in FAMILIES.items() for code in codes.split()}
    with matplotlib.rc_context(MATPLOTLIB_STYLE | {"axes.grid": False}):
        figure = Figure(figsize=(max(2.9 * len(plotted), 8), 11), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.08)
        grid = figure.subplots(2, len(plotted), height_ratios=(1, 2.6), squeeze=False)
        for (above, below), data in zip(grid.T, plotted, strict=True):
            codes, point_L2 = [language["code"] for language in data["languages"]], np.array(data["points"])
            members = {name: [i for i, code in enumerate(codes) if family.get(code) == name] for name in FAMILIES}
            members["other"] = [i for i, code in enumerate(codes) if code not in family]
            plot_points(above, point_L2, members, colors)
            above.set_title(
                f"{data['run']}: {data['method']}\nMDS, {100 * data['explained_variance']:.0f}% of the variance",
                fontsize=9,
            )
            plot_dendrogram(below, [ClusterMerge(*merge) for merge in data["merges"]], data["leaf_order"])
            for row, i in enumerate(data["leaf_order"]):
                color = colors.get(family.get(codes[i], ""), OTHER_COLOR)
                below.annotate(
                    codes[i],
                    (1, row),
                    (3, 0),
                    ("axes fraction", "data"),
                    "offset points",
                    fontsize=7.5,
                    va="center",
                    color=color,
                )
        figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
        for (above, _), data in zip(grid.T, plotted, strict=True):
            label_points(above, np.array(data["points"]), [language["code"] for language in data["languages"]], 6)
        figure.savefig(output, dpi=110)


if __name__ == "__main__":
    plot_maps(STORED_RESULTS / "languages.png")
