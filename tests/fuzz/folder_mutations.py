"""Mutations of a folder: one file gets other content, or becomes a special file, or changes places with another."""

from __future__ import annotations

import os
import random
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path

from tests.fuzz.byte_mutations import ByteMutation, mutate_bytes
from tests.fuzz.forging import forge_seals
from tests.fuzz.value_mutations import (
    mutate_json,
    mutate_json_line,
    mutate_npy,
    mutate_npz,
    mutate_safetensors,
    mutate_yaml,
)

FORMAT_MUTATIONS: Mapping[str, ByteMutation] = {
    ".json": mutate_json,
    ".jsonl": mutate_json_line,
    ".npy": mutate_npy,
    ".npz": mutate_npz,
    ".safetensors": mutate_safetensors,
    ".yaml": mutate_yaml,
}
"""Mutations that know a format, by the suffix of the file."""


def list_files(folder: Path) -> list[Path]:
    """Return the regular files of a folder in a fixed order. Links are left out, so that no other file is changed."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def mutate_folder(folder: Path, rng: random.Random, *, forge: bool = False) -> str:
    """Change one file, rarely two, and return a description.

    With `forge`, the seals are renewed after the damage.
    """
    originals = {path: path.read_bytes() for path in list_files(folder)} if forge else {}
    descriptions = []
    for _ in range(rng.choice((1, 1, 1, 1, 1, 2))):
        files = list_files(folder)
        if not files:
            break
        path = rng.choice(files)
        is_special = rng.random() < 0.12
        change = _replace_file(path, rng, files, outside_file(folder)) if is_special else mutate_file(path, rng)
        descriptions.append(f"{path.relative_to(folder)}: {change}")
    if forge:
        forge_seals(folder, originals)
        descriptions.append("forge the seals")
    return "; ".join(descriptions)


def mutate_file(path: Path, rng: random.Random) -> str:
    """Change the content of a file, by its format or by bytes."""
    content, mutate = path.read_bytes(), FORMAT_MUTATIONS.get(path.suffix)
    if mutate is not None and rng.random() < 0.65:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                changed, description = mutate(content, rng)
        except Exception:  # another mutation has damaged the format before
            changed, description = mutate_bytes(content, rng)
    else:
        changed, description = mutate_bytes(content, rng)
    path.write_bytes(changed)
    return description


def outside_file(folder: Path) -> Path:
    """Return the file beside the folder that links in it lead to. Nothing may change it."""
    return folder.with_name(folder.name + "-outside")


def _replace_file(path: Path, rng: random.Random, files: list[Path], outside: Path) -> str:
    """Delete a file, put something that is no regular file in its place, or exchange it with another."""
    other, content = rng.choice(files), path.read_bytes()
    path.unlink()
    match rng.randrange(10):
        case 0 | 1:
            return "delete"
        case 2:
            path.mkdir()
            return "replace by a folder"
        case 3:
            os.mkfifo(path)
            return "replace by a pipe"
        case 4:
            path.symlink_to("/dev/zero")
            return "replace by a link to /dev/zero"
        case 5:
            target = rng.choice((path, path.with_name("nowhere"), outside))
            path.symlink_to(target)
            return f"replace by a link to {target.name}"
        case 6:
            path.with_name(path.name + ".bak").write_bytes(content)
            return "rename to .bak"
        case 7:
            path.with_name("extra-" + path.name).write_bytes(content)
            path.write_bytes(content)
            return "add a copy with another name"
    if other == path:
        return "delete"
    path.write_bytes(other.read_bytes())
    if rng.randrange(2):
        return f"replace by a copy of {other.parent.name}/{other.name}"
    other.write_bytes(content)
    return f"exchange with {other.parent.name}/{other.name}"


def copy_folder(source: Path, target: Path) -> None:
    """Replace the target by a copy of the source."""
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(source, target)
