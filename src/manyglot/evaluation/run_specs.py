"""Specifications of runs: `[NAME=]FOLDER[,FOLDER…]`, with one folder per seed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from manyglot.errors import ManyglotError, SettingsError
from manyglot.files import StrPath

Folders = StrPath | Sequence[StrPath] | Mapping[str, StrPath | Sequence[StrPath]]
"""One folder, several, or several by name. A name may stand for several folders, such as the seeds of a system."""


def to_run_specs(folders: Folders) -> list[str]:
    """Return the specifications of folders in any form that the Python API accepts."""
    if isinstance(folders, str | os.PathLike):
        return [os.fspath(folders)]
    if not isinstance(folders, Sequence | Mapping) or not all(isinstance(each, str | os.PathLike) for each in folders):
        raise SettingsError(f"Give folders as paths, a list of paths or a dictionary by name; got {folders!r:.100}.")
    if not folders:
        raise SettingsError("Give at least one folder.")
    if isinstance(folders, Mapping):
        return [f"{name}={','.join(to_run_specs(each))}" for name, each in folders.items()]
    return [os.fspath(folder) for folder in folders]


def name_systems(run_specs: Sequence[str], stored_names: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the display name of each run specification.

    This is the name it gives, else the name that its results have stored, else that of its first folder. If these are
    not unique, runs without a given name are called by their specification.
    """
    given_names = {spec: spec.partition("=")[0] for spec in run_specs if "=" in spec}
    names = {
        spec: given_names.get(spec) or stored_names.get(spec) or _folder_name(parse_run_folders(spec)[0])
        for spec in run_specs
    }
    if len(set(names.values())) < len(run_specs):
        names = {spec: given_names.get(spec) or spec for spec in run_specs}
    if len(set(names.values())) < len(run_specs):
        raise ManyglotError("Two systems have the same name. Give each a name of its own, as in a=FOLDER b=FOLDER.")
    return names


def parse_run_folders(run_spec: str) -> list[Path]:
    """Return the distinct folders of `[NAME=]FOLDER[,FOLDER…]`; an existing folder may have a comma in its name."""
    paths = run_spec.rpartition("=")[2]
    folders = [paths] if Path(paths).is_dir() else paths.split(",")
    if "" in folders or len(set(folders)) < len(folders):
        raise SettingsError(f"'{run_spec}' needs one or more different folders: NAME=FOLDER,FOLDER.")
    return [Path(folder) for folder in folders]


def _folder_name(path: Path) -> str:
    """Return the name of a folder, or of the folder that a file is in, such as results.json."""
    resolved = Path(os.path.realpath(path))
    return (resolved.parent if resolved.is_file() else resolved).name
