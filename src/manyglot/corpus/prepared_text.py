"""Reader of the text of a prepared dataset, so that prepared corpora can be parts of a mixture.

`batches/encoded_parts.py` finds the subwords of this text in the dataset, so it is not tokenized again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from manyglot.checksums import FileSeal, parse_seals
from manyglot.config.base_settings import CHANGEABLE_ON_RESUME
from manyglot.corpus.base import BaseCorpusSettings, Row, Split
from manyglot.corpus.textfiles import read_aligned_rows
from manyglot.errors import FolderError
from manyglot.files import read_json_object
from manyglot.sealed_json import content_sha256, unseal

DATASET_KIND, DATASET_FORMAT_VERSION = "dataset", 3
MAX_METADATA_BYTES = 2**28
"""Maximum size of dataset.json; that of a million directions has about 40 MB."""
REPAIR_HINT = "Restore the dataset from a copy, or delete it and prepare it again."


class PreparedSettings(BaseCorpusSettings):
    """A dataset that `manyglot prepare` has written. Its text is not tokenized again."""

    kind: Literal["prepared"] = "prepared"
    """The kind of corpus: a prepared dataset, alone or in a mixture. Its subwords are those of the new dataset."""
    path: Annotated[Path, CHANGEABLE_ON_RESUME]
    """The folder of the dataset."""


class PreparedText:
    """The rows of a dataset, including those that its cleaning dropped."""

    def __init__(self, settings: PreparedSettings) -> None:
        self._folder = settings.path
        self._metadata = read_dataset_metadata(settings.path)
        try:
            self.languages = tuple(map(str, self._metadata["languages"]))
            names = [f"text/{split}.{code}" for split in Split for code in self.languages]
            self._seals = parse_seals(self._metadata["files"], names)
        except (KeyError, TypeError, ValueError) as error:
            raise damaged_data(settings.path / "dataset.json", str(error).rstrip(".")) from None

    def rows(self, split: Split) -> Iterator[Row]:
        """Verify the text of a split and read it."""
        names = {code: f"text/{split}.{code}" for code in self.languages}
        for name in names.values():
            if FileSeal.of(self._folder / name) != self._seals[name]:
                raise damaged_data(self._folder / name, "its checksum is wrong")
        return read_aligned_rows({code: self._folder / name for code, name in names.items()})

    def fingerprint(self) -> str:
        """The digest of the metadata, which has the checksums of all files."""
        return content_sha256(self._metadata)[:16]


def read_dataset_metadata(folder: Path) -> dict[str, Any]:
    """Read dataset.json. Raise a FolderError if it is missing, damaged or of another format."""
    path = folder / "dataset.json"
    if not path.exists():
        raise FolderError(
            f"{folder} is not a prepared dataset. Run `manyglot prepare` first, or give the folder that it wrote."
        )
    try:
        metadata = read_json_object(path, MAX_METADATA_BYTES)
    except FolderError as error:
        raise FolderError(f"{error} {REPAIR_HINT}") from None
    if (version := metadata.get("format")) != DATASET_FORMAT_VERSION:
        raise FolderError(
            f"{folder} has dataset format {version!r:.20}, but this manyglot reads {DATASET_FORMAT_VERSION}. "
            f"Prepare it again."
        )
    try:
        return unseal(metadata, DATASET_KIND, path)
    except FolderError as error:
        raise FolderError(f"{error} {REPAIR_HINT}") from None


def damaged_data(path: Path, reason: str) -> FolderError:
    """Return the error of a damaged file of a dataset."""
    return FolderError(f"{path} is damaged ({reason}). {REPAIR_HINT}")
