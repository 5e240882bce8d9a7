"""The manifest of an exported model: everything an engine needs besides the weights, as plain JSON.

It holds a checksum of each file in the folder, so a damaged or incomplete export is rejected.
"""

from __future__ import annotations

import json
import reprlib
from pathlib import Path

from pydantic import Field, model_validator

import manyglot
from manyglot.batches.source_lengths import DEFAULT_SOURCE_LENGTHS, SourceLengths
from manyglot.checksums import file_sha256
from manyglot.config.base_settings import Settings, parse_settings
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import FolderError, SettingsError
from manyglot.files import check_links, read_json_object
from manyglot.model.run_paths import is_run_folder

MANIFEST_NAME, EXPORT_FORMAT_VERSION = "manyglot.json", 1
EXPORTED_FILES = ("config.json", "model.bin", "shared_vocabulary.json", "subwords.model")
"""The other files of an exported model, apart from the README."""


class LanguageTagSymbols(Settings):
    """The language tags of one target language, as symbols of the exported vocabulary."""

    source: tuple[str, ...] = ()
    """Tags before the source sentence."""
    target: tuple[str, ...] = ()
    """Tags before the target sentence, forced during the search."""
    target_predicted: bool = True
    """Whether the model predicts the target tags, so that they count in the score."""


class Manifest(Settings):
    """Describes an exported model and how to translate with it."""

    format: int = Field(EXPORT_FORMAT_VERSION, ge=1, le=EXPORT_FORMAT_VERSION)
    """Version of the export format."""
    manyglot: str = manyglot.__version__
    """Version of manyglot that exported the model."""
    languages: tuple[str, ...]
    """Languages of the model, in the order of their ids."""
    targets: dict[str, LanguageTagSymbols] = Field(min_length=1)
    """Exported target languages, each with its tags."""
    suppressed_tokens: tuple[str, ...]
    """Symbols that are never generated, apart from the unknown token."""
    num_positions: int = Field(ge=1, le=2**24)
    """Maximum number of tokens in a sequence."""
    quantization: str | None
    """Type of the weights; None means float32."""
    decoding: DecodingSettings
    """Decoding settings stored with the model."""
    source_lengths: SourceLengths = DEFAULT_SOURCE_LENGTHS
    """The lengths of the training text on the source side."""
    files: dict[str, str]
    """SHA-256 checksum of each file."""

    @model_validator(mode="after")
    def _languages_are_in_order(self) -> Manifest:
        if list(self.languages) != sorted(set(self.languages)) or not self.targets.keys() <= set(self.languages):
            raise ValueError("the languages are not sorted, or a target is not among them.")
        return self

    def referenced_symbols(self) -> set[str]:
        """Return all symbols that the manifest refers to."""
        tag_symbols = (symbol for tags in self.targets.values() for symbol in (*tags.source, *tags.target))
        return {*self.suppressed_tokens, *tag_symbols}

    def write(self, folder: Path) -> None:
        """Write the manifest into the folder of the model."""
        text = json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False)
        (folder / MANIFEST_NAME).write_text(text + "\n", encoding="utf-8")


def is_export_folder(folder: Path) -> bool:
    """Return whether a folder, or a folder directly below it, has the manifest of an exported model."""
    return (folder / MANIFEST_NAME).exists() or any(folder.glob(f"*/{MANIFEST_NAME}"))


def read_and_verify_manifest(folder: Path) -> Manifest:
    """Read the manifest of an exported model and verify the checksums of its files."""
    check_links(folder, [MANIFEST_NAME])  # the others have checksums
    try:
        values = read_json_object(folder / MANIFEST_NAME)
        version = values["format"]
    except (FolderError, KeyError):
        missing = f"is not an exported model (no readable {MANIFEST_NAME})" if folder.exists() else "does not exist"
        is_model = (folder / "format.json").exists() or is_run_folder(folder)
        hint = f" Export the model in it first: `manyglot export {folder} -o FOLDER`." if is_model else ""
        raise FolderError(f"{folder} {missing}.{hint}") from None
    if not isinstance(version, int) or not 1 <= version <= EXPORT_FORMAT_VERSION:
        raise FolderError(
            f"{folder} has export format {reprlib.repr(version)}, but this manyglot reads up to "
            f"{EXPORT_FORMAT_VERSION}. Upgrade manyglot to use it."
        )
    try:
        manifest = parse_settings(Manifest, values)
    except SettingsError as error:
        raise FolderError(f"{folder / MANIFEST_NAME}: {error}") from None
    for name in EXPORTED_FILES:
        if manifest.files.get(name) != checksum_exported_file(folder / name):
            raise FolderError(f"{folder / name} differs from the exported file. Export the model again.")
    return manifest


def checksum_exported_file(path: Path) -> str:
    """Return the checksum of a file. Raise a `FolderError` if it cannot be read."""
    try:
        return file_sha256(path)
    except OSError as error:
        raise FolderError(f"Cannot read {path}: {error.strerror}.") from None
