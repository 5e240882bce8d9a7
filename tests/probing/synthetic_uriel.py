"""A small synthetic URIEL database in the format of the real one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SOURCES = ["ETHNO", "WALS", "SSWL", "PHOIBLE_SPA"]
LETTERS = {"de": "deu", "pt": "por", "lv": "lav", "sk": "slk"}


def write_uriel(
    folder: Path, codes: list[str], value_LF: NDArray[np.float32], features: list[str] | None = None
) -> Path:
    """Write the files; WALS has all values, PHOIBLE the inventory."""
    folder.mkdir(parents=True, exist_ok=True)
    names = features or [f"{('S_', 'P_', 'INV_')[i % 3]}{i}" for i in range(value_LF.shape[1])]
    data = np.full((len(codes), len(names), len(SOURCES)), -1, np.float32)
    data[:, :, 1] = value_LF
    inventory = [i for i, name in enumerate(names) if name.startswith("INV_")]
    data[:, inventory, 3] = value_LF[:, inventory]
    rng = np.random.default_rng(1)
    family = rng.integers(0, 2, (len(codes), 7, 1)).astype(np.float32)
    place = rng.random((len(codes), 5, 1), np.float32)
    for name, array, feats, sources in (
        ("features", data, names, SOURCES),
        ("family_features", family, [f"F_{i}" for i in range(7)], ["FAM"]),
        ("geocoord_features", place, [f"GC_{i}" for i in range(5)], ["GEOCOORDS"]),
    ):
        langs = np.array(codes)
        np.savez(folder / f"{name}.npz", data=array, feats=np.array(feats), langs=langs, sources=np.array(sources))
    (folder / "letter_codes.json").write_text(json.dumps(LETTERS), encoding="utf-8")
    return folder
