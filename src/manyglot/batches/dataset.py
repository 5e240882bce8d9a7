"""A prepared dataset: the folder that `manyglot prepare` writes and that training and evaluation read.

dataset.json   format, languages, pivot, counts, what was dropped and why
subwords.model the SentencePiece model
text/          train.de, dev.de, test.de, …: what was read, line-aligned
store/         train and dev as numbers
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from manyglot.batches.store import TokenStore
from manyglot.corpus.languages import Direction, Languages, directions_of
from manyglot.corpus.rows import Split
from manyglot.corpus.textfiles import read_aligned, read_lines
from manyglot.errors import FolderError
from manyglot.vocabulary.subwords import Subwords
from manyglot.vocabulary.vocabulary import Vocabulary

FORMAT = 2


class Dataset:
    """An open prepared folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.card = _read_card(folder)
        self.languages = Languages(self.card["languages"])
        self.pivot: str | None = self.card["pivot"]
        self.vocabulary = Vocabulary(Subwords.load(folder / "subwords.model"), self.languages)

    def check_origin(self, origin: Mapping[str, Any]) -> None:
        """Refuse a dataset that was prepared from something else than it is taken for."""
        changed = [key for key in origin if self.card["origin"].get(key) != origin[key]]
        if changed:
            raise FolderError(
                f"{self.folder} was prepared from something else ({', '.join(changed)} changed). "
                f"Delete it and prepare again, or choose another `data` folder."
            )

    @property
    def supervised(self) -> list[Direction]:
        """The directions to train on."""
        return [Direction(*codes) for codes in self.card["directions"]]

    @property
    def directions(self) -> list[Direction]:
        """All directions between its languages."""
        return directions_of(self.languages)

    def digest(self) -> str:
        """A fingerprint of what training depends on: the text it came from and the subwords."""
        parts = [(self.folder / name).read_bytes() for name in ("dataset.json", "subwords.model")]
        return hashlib.sha256(b"".join(parts)).hexdigest()

    def store(self, split: Split) -> TokenStore:
        """The numbers of a split."""
        return TokenStore(self.folder / "store" / split, self.languages)

    def sentences(self, split: Split, code: str) -> Iterator[str]:
        """The sentences of one language, without the rows it lacks."""
        return (line for line in read_lines(self.folder / "text" / f"{split}.{code}") if line)

    def rows(self, split: Split) -> list[dict[str, str]]:
        """The text of a split."""
        return list(read_aligned({code: self.folder / "text" / f"{split}.{code}" for code in self.languages}))


def _read_card(folder: Path) -> dict[str, Any]:
    try:
        card: dict[str, Any] = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise FolderError(f"{folder} is not a prepared dataset. Run `manyglot prepare` first.") from None
    except (OSError, ValueError) as error:
        raise FolderError(
            f"{folder}/dataset.json cannot be read ({error}). Delete the dataset and prepare it again."
        ) from None
    if not isinstance(card, dict):
        raise FolderError(f"{folder}/dataset.json is damaged. Delete the dataset and prepare it again.")
    if card.get("format") != FORMAT:
        raise FolderError(
            f"{folder} has dataset format {card.get('format')} and this manyglot reads {FORMAT}. Prepare it again."
        )
    return card
