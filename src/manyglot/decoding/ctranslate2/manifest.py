"""The manifest of an exported model: everything an engine needs besides the weights, as plain JSON.

It seals each file of the folder with its size and checksum, and itself with a checksum of each of its fields. A damaged
or incomplete export is rejected. Only the decoding settings may be edited.
"""

from __future__ import annotations

import reprlib
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

import manyglot
from manyglot.batches.source_lengths import DEFAULT_SOURCE_LENGTHS, SourceLengths
from manyglot.checksums import (
    checksum_sections,
    find_altered_file,
    find_altered_sections,
    find_wrong_size,
    parse_seals,
    parse_section_checksums,
)
from manyglot.config.base_settings import Settings, parse_settings
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import FolderError, SettingsError
from manyglot.files import check_links, read_json_object, write_json
from manyglot.model.run_paths import is_run_folder
from manyglot.progress import print_status

MANIFEST_NAME, EXPORT_FORMAT_VERSION = "manyglot.json", 1
EXPORTED_FILES = ("config.json", "model.bin", "shared_vocabulary.json", "subwords.model")
"""The other files of an exported model, apart from the README."""
EDITABLE_FIELD = "decoding"
"""The field of the manifest that users may edit."""


class LanguageTagSymbols(Settings):
    """The language tags of one target language, as symbols of the exported vocabulary."""

    source: tuple[str, ...] = ()
    """Tags before the source sentence."""
    target: tuple[str, ...] = ()
    """Tags before the target sentence, forced during the search."""
    target_predicted: bool = True
    """Whether the model predicts the target tags, so that they count in the length of a hypothesis."""

    @property
    def num_predicted(self) -> int:
        """Number of target tags that the model predicts."""
        return len(self.target) if self.target_predicted else 0


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
    source_language_tags: dict[str, str] = Field(default_factory=dict)
    """The tag of each source language, which begins the source; empty if the model does not read it."""
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
    files: dict[str, dict[str, Any]]
    """The size and SHA-256 checksum of each file."""
    checksums: dict[str, str] = Field(default_factory=dict)
    """The SHA-256 checksums of the other fields."""

    @model_validator(mode="after")
    def _languages_are_in_order(self) -> Manifest:
        if list(self.languages) != sorted(set(self.languages)) or not self.targets.keys() <= set(self.languages):
            raise ValueError("the languages are not sorted, or a target is not among them.")
        if self.source_language_tags and tuple(self.source_language_tags) != self.languages:
            raise ValueError("the source languages that have a tag are not the languages of the model.")
        return self

    def referenced_symbols(self) -> set[str]:
        """Return all symbols that the manifest refers to."""
        tag_symbols = (symbol for tags in self.targets.values() for symbol in (*tags.source, *tags.target))
        return {*self.suppressed_tokens, *self.source_language_tags.values(), *tag_symbols}

    def write(self, folder: Path) -> None:
        """Write the manifest into the folder of the model, with its checksums."""
        values = self.model_dump(mode="json", exclude={"checksums"})
        write_json(folder / MANIFEST_NAME, values | {"checksums": checksum_sections(values)})


OPTIONAL_FIELDS = (EDITABLE_FIELD, "source_language_tags", "checksums")
SEALED_FIELDS = tuple(name for name in Manifest.model_fields if name not in OPTIONAL_FIELDS)
"""The fields that must have a checksum."""


def is_export_folder(folder: Path) -> bool:
    """Return whether a folder, or a folder directly below it, has the manifest of an exported model."""
    return (folder / MANIFEST_NAME).exists() or any(folder.glob(f"*/{MANIFEST_NAME}"))


def read_and_verify_manifest(folder: Path) -> Manifest:
    """Read the manifest of an exported model, and verify it and the files."""
    path = folder / MANIFEST_NAME
    check_links(folder, [MANIFEST_NAME])  # the others have checksums
    values = _read_format(folder)
    checksums = values.get("checksums")
    fields = {name: value for name, value in values.items() if name != "checksums"}
    try:
        manifest = parse_settings(Manifest, values)
        altered = find_altered_sections(fields, parse_section_checksums(checksums, SEALED_FIELDS))
        seals = parse_seals(manifest.files, EXPORTED_FILES)
    except (SettingsError, ValueError) as error:
        raise FolderError(f"{path} is damaged: {str(error).rstrip('.')}. Export the model again.") from None
    if sealed := [name for name in altered if name != EDITABLE_FIELD]:
        raise FolderError(f"{path}: {', '.join(sealed):.200} was changed since the export. Export the model again.")
    if altered:
        print_status(f"{path} was edited since the export ({EDITABLE_FIELD}).")
    exported = {name: seals[name] for name in EXPORTED_FILES}
    name = find_wrong_size(folder, exported) or find_altered_file(folder, exported)
    if name is not None:
        raise FolderError(f"{folder / name} differs from the exported file. Export the model again.")
    return manifest


def _read_format(folder: Path) -> dict[str, Any]:
    """Read the manifest as plain values, and check the format version."""
    try:
        values = read_json_object(folder / MANIFEST_NAME)
        version = values["format"]
    except (FolderError, KeyError):
        missing = f"is not an exported model (no readable {MANIFEST_NAME})" if folder.exists() else "does not exist"
        is_model = (folder / "format.json").exists() or is_run_folder(folder)
        hint = (
            f" Export the model in it first: `manyglot export {folder} -o FOLDER --target LANGUAGES`."
            if is_model
            else ""
        )
        raise FolderError(f"{folder} {missing}.{hint}") from None
    if type(version) is not int or not 1 <= version <= EXPORT_FORMAT_VERSION:
        raise FolderError(
            f"{folder} has export format {reprlib.repr(version)}, but this manyglot reads up to "
            f"{EXPORT_FORMAT_VERSION}. Upgrade manyglot to use it."
        )
    return values
