"""format.json: the version of a model folder and the seals of its files.

Every file is sealed with its size and checksum, except config.yaml, which users may edit. Its sections have checksums:
a change of a section that decides what the model computes is refused, and a change of any other section is reported.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import manyglot
from manyglot.checksums import (
    FileSeal,
    checksum_sections,
    find_altered_sections,
    find_wrong_size,
    parse_seals,
    parse_section_checksums,
    seal_files,
)
from manyglot.errors import FolderError, UnreadableFileError
from manyglot.files import check_links, read_json_object, read_small_file, write_json
from manyglot.progress import print_status

MODEL_FORMAT_VERSION = 2
"""Format 1 has no placement of adapters: they come after the residual."""
FORMAT_NAME, CONFIG_NAME = "format.json", "config.yaml"
SEALED_FILES = ("model.safetensors", "subwords.model", "languages.json", "training.json")
REQUIRED_SECTIONS = ("model", "guidance")
"""The sections of config.yaml that rebuild the model."""
SEALED_SECTIONS = (*REQUIRED_SECTIONS, "vocabulary")
"""The sections of config.yaml that decide what the model computes."""
MAX_FORMAT_BYTES = 2**20


@dataclass(frozen=True)
class ModelSeals:
    """The seals of a model folder."""

    folder: Path
    version: int
    """The format version of the folder."""
    files: Mapping[str, FileSeal]
    sections: Mapping[str, str]
    """The checksums of the sections of config.yaml."""

    @classmethod
    def read(cls, folder: Path) -> ModelSeals:
        """Read format.json, check the version, and check the size of every file."""
        check_links(folder, (FORMAT_NAME, CONFIG_NAME))  # the others have checksums
        values = _read_format(folder)
        try:
            seals_by_name = parse_seals(values.get("files"), SEALED_FILES)
            files = {name: seals_by_name[name] for name in SEALED_FILES}
            sections = parse_section_checksums(values.get("settings"), REQUIRED_SECTIONS)
        except ValueError as error:
            raise FolderError(f"{folder / FORMAT_NAME} is damaged: {error}. {_remedy(folder)}") from None
        seals = cls(folder, values["format"], files, sections)
        if (name := find_wrong_size(folder, files)) is not None:
            raise seals.altered(name)
        return seals

    def check_file(self, name: str) -> None:
        """Raise a FolderError if a file differs from the one that was saved."""
        if FileSeal.of(self.folder / name) != self.files[name]:
            raise self.altered(name)

    def read_file(self, name: str, max_bytes: int) -> bytes:
        """Read a small file that must be the one that was saved."""
        content = read_small_file(self.folder / name, max_bytes)
        self.check_file(name)
        return content

    def check_settings(self, config: Mapping[str, Any]) -> None:
        """Raise a FolderError if a section of config.yaml that decides what the model computes was changed.

        A change of any other section is reported: its settings apply.
        """
        altered = find_altered_sections(config, self.sections)
        if sealed := [name for name in altered if name in SEALED_SECTIONS]:
            raise FolderError(
                f"{self.folder / CONFIG_NAME}: the section {', '.join(sealed)} was changed since the model was saved, "
                f"so its weights would compute something else. Undo the change. {_remedy(self.folder)}"
            )
        if altered:
            names = ", ".join(altered)
            print_status(f"{self.folder / CONFIG_NAME} was edited since the model was saved ({names:.200}).")

    def altered(self, name: str) -> FolderError:
        """Return the error of a file that is not the one that was saved."""
        path = self.folder / name
        problem = "was altered or damaged since it was saved" if path.exists() else "is missing"
        return FolderError(f"{path} {problem}. {_remedy(self.folder)}")


def write_seals(folder: Path, config: Mapping[str, Any], version: int = MODEL_FORMAT_VERSION) -> None:
    """Write format.json, with the seals of the other files of a model folder."""
    seals = {"files": seal_files(folder, SEALED_FILES), "settings": checksum_sections(config)}
    write_json(folder / FORMAT_NAME, {"format": version, "manyglot": manyglot.__version__, **seals})


def read_format_version(folder: Path) -> int:
    """Return the format version of a model folder."""
    version: int = _read_format(folder)["format"]
    return version


def _remedy(folder: Path) -> str:
    return (
        "Copy the model folder again; if you changed it on purpose, call "
        f"manyglot.model.model_folder.seal_model({str(folder)!r}) in Python."
    )


def _read_format(folder: Path) -> dict[str, Any]:
    """Read format.json and check the format version."""
    try:
        metadata = read_json_object(folder / FORMAT_NAME, MAX_FORMAT_BYTES)
        version = metadata["format"]
    except UnreadableFileError:
        raise
    except (FolderError, KeyError):
        nearby = folder / "model", folder.parent / "model"
        models = [path for path in nearby if (path / FORMAT_NAME).exists()]
        hint = f" Did you mean {models[0]}?" if models and models[0] != folder else ""
        if not models and (folder.parent / "checkpoints").is_dir():
            hint = f" The run is not finished. Give {folder.parent} to use its best checkpoint."
        if (folder / "encoder.onnx").exists():
            hint = f" It is an export to ONNX: run {folder / 'translate.py'}, or give the model that was exported."
        if (folder / "pack.json").exists():
            hint = f" It is a language pack: give the model that it was trained from, and --pack {folder}."
        missing = "is not a manyglot model folder (no readable format.json)" if folder.exists() else "does not exist"
        raise FolderError(f"{folder} {missing}.{hint}") from None
    if type(version) is not int or not 1 <= version <= MODEL_FORMAT_VERSION:
        raise FolderError(
            f"{folder} has model format {reprlib.repr(version)}, but this manyglot reads up to {MODEL_FORMAT_VERSION}. "
            f"Upgrade manyglot to use it."
        )
    return metadata
