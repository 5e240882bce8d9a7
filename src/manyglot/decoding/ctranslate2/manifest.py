"""The manifest of an exported model: what an engine must know beside the weights, as JSON that cannot execute.

It lies beside the engine's own files and has a checksum of each, so that a folder is used whole or not at all.
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import Field, model_validator

import manyglot
from manyglot.config.settings import Settings, parse_settings
from manyglot.decoding.beam_search import DecodingSettings
from manyglot.errors import FolderError, SettingsError
from manyglot.files import file_checksum

MANIFEST_NAME, EXPORT_FORMAT_VERSION = "manyglot.json", 1
EXPORTED_FILES = ("config.json", "model.bin", "shared_vocabulary.json", "subwords.model")
"""What else is in the folder of an exported model, apart from a README."""


class TagSymbols(Settings):
    """The symbols that tell a target language inside the sequences, as the exported vocabulary spells them."""

    source: tuple[str, ...] = ()
    """Before the source sentence."""
    target: tuple[str, ...] = ()
    """Before the target sentence, forced when translating."""
    target_predicted: bool = True
    """Whether the target tags are part of the score."""


class Manifest(Settings):
    """What is exported, and how to translate with it."""

    format: int = EXPORT_FORMAT_VERSION
    """The version of this layout."""
    manyglot: str = manyglot.__version__
    """The version that wrote it."""
    languages: tuple[str, ...]
    """The languages of the model, in the order of their ids."""
    targets: dict[str, TagSymbols] = Field(min_length=1)
    """The languages that it translates into, each with its tags."""
    suppressed_tokens: tuple[str, ...]
    """Symbols that are never written, beside the unknown word."""
    num_positions: int = Field(ge=1)
    """How many tokens a sequence can have."""
    quantization: str | None
    """The type of the weights where it is not float32."""
    decoding: DecodingSettings
    """The search that the model was trained with."""
    files: dict[str, str]
    """The SHA-256 of each file."""

    @model_validator(mode="after")
    def _languages_are_in_order(self) -> Manifest:
        if list(self.languages) != sorted(set(self.languages)) or not self.targets.keys() <= set(self.languages):
            raise ValueError("the languages are not in order, or do not have the targets among them.")
        return self

    def referenced_symbols(self) -> set[str]:
        """All symbols that it speaks of."""
        tag_symbols = (symbol for tags in self.targets.values() for symbol in (*tags.source, *tags.target))
        return {*self.suppressed_tokens, *tag_symbols}

    def write(self, folder: Path) -> None:
        """Write it into the folder of the model."""
        text = json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False)
        (folder / MANIFEST_NAME).write_text(text + "\n", encoding="utf-8")


def is_export_folder(folder: Path) -> bool:
    """Whether a folder says that it is an exported model, or has folders below that do."""
    return (folder / MANIFEST_NAME).exists() or any(folder.glob(f"*/{MANIFEST_NAME}"))


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of an exported model and check the files it names."""
    try:
        values = json.loads((folder / MANIFEST_NAME).read_text("utf-8"))
        version = values["format"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        missing = f"is not an exported model (no readable {MANIFEST_NAME})" if folder.exists() else "does not exist"
        is_model = (folder / "format.json").exists()
        hint = f" Export the model in it first: `manyglot export {folder} -o FOLDER`." if is_model else ""
        raise FolderError(f"{folder} {missing}.{hint}") from None
    if not isinstance(version, int) or not 1 <= version <= EXPORT_FORMAT_VERSION:
        raise FolderError(
            f"{folder} has export format {version} and this manyglot reads up to {EXPORT_FORMAT_VERSION}. Upgrade manyglot to use it."
        )
    try:
        manifest = parse_settings(Manifest, values)
    except SettingsError as error:
        raise FolderError(f"{folder / MANIFEST_NAME}: {error}") from None
    for name in EXPORTED_FILES:
        if manifest.files.get(name) != checksum_exported_file(folder / name):
            raise FolderError(f"{folder / name} is not the file that was exported. Export the model again.")
    return manifest


def checksum_exported_file(path: Path) -> str:
    """The checksum of a file, which may be missing."""
    try:
        return file_checksum(path)
    except OSError as error:
        raise FolderError(f"Cannot read {path}: {error.strerror}.") from None
