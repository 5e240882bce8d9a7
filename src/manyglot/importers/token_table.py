"""The tokens of a checkpoint by id, and their order in a vocabulary of manyglot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from manyglot.corpus.languages import Languages
from manyglot.vocabulary.subword_file import PieceList


@dataclass(frozen=True)
class TokenTable:
    """The tokens of a checkpoint.

    Our vocabulary begins with <pad>, </s> and <unk> and ends with one tag per language; everything else keeps its
    order. Nothing is dropped, so that the output layer computes the same probabilities.
    """

    token_ids: Mapping[str, int]
    """The ids of all tokens."""
    pad: str = "<pad>"
    eos: str = "</s>"
    unk: str = "<unk>"
    special: frozenset[str] = frozenset()
    """Further tokens that are no text, such as <mask>."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """The token of each language code that has one."""

    def check(self, num_rows: int) -> None:
        """Raise a ValueError unless the special tokens exist and all ids have a row of the embeddings."""
        for name in (self.pad, self.eos, self.unk, *self.tags.values()):
            if name not in self.token_ids:
                raise ValueError(f"it has no token {name[:50]!r}")
        ids = self.token_ids.values()
        if len(set(ids)) < len(self.token_ids):
            raise ValueError("two tokens have the same id")
        if not all(0 <= i < num_rows for i in ids):
            raise ValueError(f"it has ids up to {max(ids):,}, but the weights have {num_rows:,} embeddings")

    def piece_list(self, num_rows: int) -> PieceList:
        """Return the subwords in our order; rows without a token get a name, and decode to nothing."""
        names = {i: token for token, i in self.token_ids.items()}
        order = self._subword_rows(num_rows)
        unused = {row: f"<unused {row}>" for row in order if row not in names}
        if clash := set(unused.values()) & self.token_ids.keys():
            raise ValueError(f"it has a token {clash.pop()!r}, a name that manyglot reserves")
        special_rows = {*unused, *(self.token_ids[token] for token in self.special if token in self.token_ids)}
        pieces = [unused.get(row) or names[row] for row in order]
        return PieceList(pieces, frozenset(i for i, row in enumerate(order) if i > 2 and row in special_rows))

    def row_order(self, num_rows: int, languages: Languages) -> list[int]:
        """Return the row of each of our ids. Languages without a tag get further rows, from `num_rows` on."""
        new_rows = iter(range(num_rows, num_rows + len(languages)))
        tag_rows = [self.token_ids[self.tags[code]] if code in self.tags else next(new_rows) for code in languages]
        return [*self._subword_rows(num_rows), *tag_rows]

    def _subword_rows(self, num_rows: int) -> list[int]:
        """Return the rows of all symbols except tags, in our order."""
        first = [self.token_ids[name] for name in (self.pad, self.eos, self.unk)]
        taken = {*first, *(self.token_ids[token] for token in self.tags.values())}
        return [*first, *(row for row in range(num_rows) if row not in taken)]
