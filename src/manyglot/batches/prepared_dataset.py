"""A prepared dataset: the folder that `manyglot prepare` writes and that training and evaluation read.

dataset.json   metadata: format, languages, central language, counts, and what cleaning dropped
subwords.model the SentencePiece model
text/          the text as read from the corpus, line-aligned: train.de, dev.de, test.de, …
store/         the token stores of the splits and the pair indices of train and dev
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from manyglot.batches.token_store import TokenStore
from manyglot.corpus.base import Split
from manyglot.corpus.languages import Direction, Languages, enumerate_directions
from manyglot.corpus.textfiles import read_aligned_rows, read_lines
from manyglot.errors import FolderError
from manyglot.vocabulary.subword_model import SubwordModel
from manyglot.vocabulary.vocabulary import Vocabulary

DATASET_FORMAT_VERSION = 2


class PreparedDataset:
    """A folder that `manyglot prepare` wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.metadata = _read_metadata(folder)
        self.languages = Languages(self.metadata["languages"])
        self.central_language: str | None = self.metadata["central_language"]
        self.vocabulary = Vocabulary(SubwordModel.load(folder / "subwords.model"), self.languages)

    def check_provenance(self, provenance: Mapping[str, Any]) -> None:
        """Raise an error if the dataset was prepared from other text or with other settings."""
        changed = [key for key in provenance if self.metadata["provenance"].get(key) != provenance[key]]
        if changed:
            raise FolderError(
                f"{self.folder} was prepared from other text or settings ({', '.join(changed)} changed). "
                f"Delete it and prepare again, or choose another `data` folder."
            )

    @property
    def train_directions(self) -> list[Direction]:
        """The directions to train on."""
        return [Direction(*codes) for codes in self.metadata["directions"]]

    @property
    def all_directions(self) -> list[Direction]:
        """All directions between the languages, zero-shot ones included."""
        return enumerate_directions(self.languages)

    def digest(self) -> str:
        """Hash everything that training depends on: the metadata, which identifies the text, and the subword model."""
        contents = [(self.folder / name).read_bytes() for name in ("dataset.json", "subwords.model")]
        return hashlib.sha256(b"".join(contents)).hexdigest()

    def token_store(self, split: Split) -> TokenStore:
        """Open the token store of a split."""
        return TokenStore(self.folder / "store" / split, self.languages)

    def sentences(self, split: Split, code: str) -> Iterator[str]:
        """Iterate over the sentences of one language; rows without a sentence are skipped."""
        return (line for line in read_lines(self.folder / "text" / f"{split}.{code}") if line)

    def rows(self, split: Split) -> list[dict[str, str]]:
        """Read the text of a split; each row maps language codes to translations of one sentence."""
        return list(read_aligned_rows({code: self.folder / "text" / f"{split}.{code}" for code in self.languages}))


def _read_metadata(folder: Path) -> dict[str, Any]:
    try:
        metadata: dict[str, Any] = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise FolderError(f"{folder} is not a prepared dataset. Run `manyglot prepare` first.") from None
    except (OSError, ValueError) as error:
        raise FolderError(
            f"{folder}/dataset.json cannot be read ({error}). Delete the dataset and prepare it again."
        ) from None
    if not isinstance(metadata, dict):
        raise FolderError(f"{folder}/dataset.json is damaged. Delete the dataset and prepare it again.")
    if metadata.get("format") != DATASET_FORMAT_VERSION:
        raise FolderError(
            f"{folder} has dataset format {metadata.get('format')}, but this manyglot reads {DATASET_FORMAT_VERSION}. "
            f"Prepare it again."
        )
    return metadata
