"""A prepared dataset: the folder that `manyglot prepare` writes and that training and evaluation read.

dataset.json   metadata: format, languages, central language, counts, what cleaning dropped, and the seals of all files
subwords.model the subword model
text/          the text as read from the corpus, line-aligned: train.de, dev.de, test.de, …
store/         the token stores of the splits and the pair indices of train and dev

A seal is the size and the SHA-256 checksum of a file. dataset.json has a checksum of its own content too. Opening a
dataset checks all sizes. A file that is read as a whole is verified before it is read. Opening a token store or a pair
index checks its content; only the checksums of their large arrays need a separate pass (`verify`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from manyglot.batches.pair_index import PAIR_INDEX_FILES
from manyglot.batches.token_store import TOKEN_STORE_FILES, TokenStore
from manyglot.checksums import FileSeal, find_wrong_size, parse_seals, seal_files
from manyglot.config.base_settings import are_equal_settings
from manyglot.corpus.base import Split
from manyglot.corpus.languages import Direction, Languages, enumerate_directions
from manyglot.corpus.prepared_text import (
    DATASET_FORMAT_VERSION,
    DATASET_KIND,
    REPAIR_HINT,
    damaged_data,
    read_dataset_metadata,
)
from manyglot.corpus.textfiles import read_aligned_rows, read_lines
from manyglot.errors import ChangedSettingsError, FolderError, LanguageError
from manyglot.sealed_json import content_sha256, write_sealed_json
from manyglot.vocabulary.loading import load_subword_model
from manyglot.vocabulary.vocabulary import Vocabulary

INDEXED_SPLITS = (Split.DEV, Split.TRAIN)
"""The splits with a pair index. The test split is translated and scored as text."""
LARGE_FILES = ("tokens.npy", "offsets.npy", "rows.npy", "pairs.npy")
"""Files of a split whose checksums are not verified before they are read, because that would take too long."""


class PreparedDataset:
    """A folder that `manyglot prepare` wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.metadata = read_dataset_metadata(folder)
        try:
            self.languages = Languages(self.metadata["languages"])
            self.central_language: str | None = self.metadata["central_language"]
            self.train_directions = [Direction(*codes) for codes in self.metadata["directions"]]
            """The directions to train on."""
            names = dataset_files(self.languages)
            seals = parse_seals(self.metadata["files"], names)
            if not all(isinstance(self.metadata[key], dict) for key in ("provenance", "rows", "subwords")):
                raise ValueError("its settings or counts are missing")
        except (LanguageError, KeyError, TypeError, ValueError) as error:
            raise damaged_data(folder / "dataset.json", str(error).rstrip(".")) from None
        self.seals = {name: seals[name] for name in names}
        self._verified: set[str] = set()
        self._stores: dict[Split, TokenStore] = {}
        if name := find_wrong_size(folder, self.seals):
            raise damaged_data(folder / name, f"it is missing, or it does not have {self.seals[name].size:,} bytes")
        self.verify(["subwords.model"])
        self.vocabulary = Vocabulary(load_subword_model(folder / "subwords.model"), self.languages)

    def check_provenance(self, provenance: Mapping[str, Any]) -> None:
        """Raise an error if the dataset was prepared from other text or with other settings."""
        saved = self.metadata["provenance"]
        changed = [key for key in provenance if not are_equal_settings(saved.get(key), provenance[key])]
        if changed:
            raise ChangedSettingsError(
                f"{self.folder} was prepared from other text or settings ({', '.join(changed)} changed). "
                f"Delete it and prepare again, or choose another `data` folder.",
                changed,
            )

    @property
    def all_directions(self) -> list[Direction]:
        """All directions between the languages, zero-shot ones included."""
        return enumerate_directions(self.languages)

    @property
    def num_bytes(self) -> int:
        """The total size of all sealed files."""
        return sum(seal.size for seal in self.seals.values())

    def digest(self) -> str:
        """Return the checksum of the metadata, which has the checksums of all other files."""
        return content_sha256(self.metadata)

    def verify(
        self, names: Iterable[str] | None = None, on_bytes: Callable[[int], None] = lambda num_bytes: None
    ) -> None:
        """Raise an error if the checksum of a file is wrong. Verify all files, or some of them, each one only once.

        `on_bytes` is called with the number of bytes of each chunk that has been read.
        """
        for name in self.seals if names is None else names:
            if name in self._verified:
                on_bytes(self.seals[name].size)
            elif self._compute_seal(name, on_bytes) != self.seals[name]:
                raise damaged_data(self.folder / name, "its checksum is wrong")
            self._verified.add(name)

    def _compute_seal(self, name: str, on_bytes: Callable[[int], None]) -> FileSeal:
        try:
            return FileSeal.of(self.folder / name, on_bytes)
        except FolderError as error:
            raise FolderError(f"{error} {REPAIR_HINT}") from None

    def token_store(self, split: Split) -> TokenStore:
        """Open the token store of a split."""
        if split not in self._stores:
            self.verify(name for name in _store_files(split) if not name.endswith(LARGE_FILES))
            folder, num_subwords = self.folder / "store" / split, len(self.vocabulary.subword_model)
            self._stores[split] = TokenStore(folder, self.languages, num_subwords)
        return self._stores[split]

    def sentences(self, split: Split, code: str) -> Iterator[str]:
        """Iterate over the sentences of one language; rows without a sentence are skipped."""
        return (line for line in read_lines(self._verified_text(split, code)) if line)

    def rows(self, split: Split) -> list[dict[str, str]]:
        """Read the text of a split; each row maps language codes to translations of one sentence."""
        return list(read_aligned_rows({code: self._verified_text(split, code) for code in self.languages}))

    def _verified_text(self, split: Split, code: str) -> Path:
        name = f"text/{split}.{code}"
        self.verify([name])
        return self.folder / name


def text_files(languages: Languages) -> list[str]:
    """Return the names of the text files of a dataset."""
    return [f"text/{split}.{code}" for split in Split for code in languages]


def dataset_files(languages: Languages) -> list[str]:
    """Return the names of all files of a dataset except dataset.json."""
    return ["subwords.model", *text_files(languages), *(name for split in Split for name in _store_files(split))]


def write_metadata(folder: Path, metadata: Mapping[str, Any]) -> None:
    """Seal all files of a dataset and write its metadata."""
    seals = seal_files(folder, dataset_files(Languages(metadata["languages"])))
    write_sealed_json(
        folder / "dataset.json", DATASET_KIND, {"format": DATASET_FORMAT_VERSION, **metadata, "files": seals}
    )


def _store_files(split: Split) -> list[str]:
    names = TOKEN_STORE_FILES + (PAIR_INDEX_FILES if split in INDEXED_SPLITS else ())
    return [f"store/{split}/{name}" for name in names]
