"""Trims a subword model to the subwords that some text uses.

The trimmed model has these subwords:

- the subwords of the text;
- the subwords that the model needs to form them (`tokenizer_files.py`);
- all bytes;
- all characters of the text, of the scripts of the remaining languages, and of no script, such as digits.

It splits any text that uses only these subwords exactly as before, and other text into these subwords.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import dataclass
from itertools import chain

from manyglot.corpus.scripts import language_script_code, may_occur_in
from manyglot.errors import FolderError
from manyglot.vocabulary.extended_model import ExtendedModel
from manyglot.vocabulary.piece_table_model import PieceTableModel
from manyglot.vocabulary.sentencepiece_model import SentencePieceModel
from manyglot.vocabulary.subword_file import SPACE, PieceList, unpack
from manyglot.vocabulary.subword_model import UNK, SubwordModel
from manyglot.vocabulary.tokenizer_files import SentencePieceTokenizerFile, TokenizerFile, TokenizerJsonFile
from manyglot.vocabulary.tokenizers_model import TokenizersModel


@dataclass(frozen=True)
class TrimmedSubwords:
    """A subword model without some of the subwords that it had."""

    model: SubwordModel
    old_ids: Sequence[int]
    """The id that each of its subwords had."""


@dataclass(frozen=True)
class _Parts:
    """The parts of a subword model."""

    text_pieces: Set[str]
    """The pieces that text is split into."""
    files: Sequence[TokenizerFile]
    build_without: Callable[[Set[str]], SubwordModel]
    """Builds the model without some pieces."""


def trim_subword_model(model: SubwordModel, used_ids: Set[int] | None, codes: Collection[str]) -> TrimmedSubwords:
    """Trim a model to some languages and the subwords that their text uses. None keeps all subwords.

    A language with subwords of its own keeps all of them, or is dropped with them.
    """
    original = model.original
    trimmed = TrimmedSubwords(original, range(len(original)))
    if used_ids is not None:
        trimmed = _trim_original(original, {i for i in used_ids if UNK < i < len(original)}, codes)
    further = {code: subwords for code, subwords in model.further_languages.items() if code in codes}
    if not further:
        return trimmed
    extended = ExtendedModel(trimmed.model, {code: subwords.model for code, subwords in further.items()})
    return TrimmedSubwords(extended, [*trimmed.old_ids, *chain(*(subwords.ids for subwords in further.values()))])


def _trim_original(model: SubwordModel, used_ids: Set[int], codes: Collection[str]) -> TrimmedSubwords:
    pieces, parts = model.pieces(), _parse_parts(model)
    kept = {pieces[i] for i in used_ids}
    characters, scripts = set(chain(*kept)), {script for code in codes if (script := language_script_code(code))}
    kept |= {
        piece
        for piece in parts.text_pieces
        if len(piece) == 1 and (piece in characters or may_occur_in(piece, scripts))
    }
    while missing := set().union(*(file.required_pieces(kept) for file in parts.files)) - kept:
        kept |= missing
    trimmed = parts.build_without(parts.text_pieces - kept)
    old_ids = {piece: i for i, piece in enumerate(pieces) if i > UNK}
    result = TrimmedSubwords(trimmed, [*range(UNK + 1), *(old_ids[piece] for piece in trimmed.pieces()[UNK + 1 :])])
    _check_same_segmentation(model, result)
    return result


def _parse_parts(model: SubwordModel) -> _Parts:
    if isinstance(model, SentencePieceModel):
        file = SentencePieceTokenizerFile(model.serialized)
        return _Parts(
            frozenset(model.pieces()[UNK + 1 :]),
            [file],
            lambda removed: SentencePieceModel(file.without(removed)),
        )
    kind, files = unpack(model.serialized)
    table = PieceList.from_json(files.pop("pieces.json"))
    text_pieces = frozenset(table.pieces[i] for i in table.text_ids)

    def table_without(removed: Set[str]) -> PieceList:
        kept = text_pieces - removed
        return PieceList([*table.pieces[: UNK + 1], *(piece for piece in table.pieces if piece in kept)])

    if kind == PieceTableModel.kind:
        models = [SentencePieceTokenizerFile(part) for part in files.values()]
        return _Parts(
            text_pieces,
            models,
            lambda removed: PieceTableModel(table_without(removed), *(each.without(removed) for each in models)),
        )
    assert kind == TokenizersModel.kind, kind
    tokenizer = TokenizerJsonFile(files["tokenizer.json"])
    return _Parts(
        text_pieces,
        [tokenizer],
        lambda removed: TokenizersModel(table_without(removed), tokenizer.without(removed)),
    )


def _check_same_segmentation(model: SubwordModel, trimmed: TrimmedSubwords) -> None:
    """Raise an error unless the remaining subwords are found in their own text as before.

    Subword models of other projects may have rules that the trimming does not know.
    """
    new_ids = {old_id: new_id for new_id, old_id in enumerate(trimmed.old_ids)}
    texts = [piece.replace(SPACE, " ") for piece in trimmed.model.pieces()[UNK + 1 :]]
    before, after = (
        [*each.encode(texts), *(each.encode_targets(texts) if each.splits_targets_differently else ())]
        for each in (model, trimmed.model)
    )
    for old, new in zip(before, after, strict=True):
        if new_ids.keys() >= set(old) and [new_ids[i] for i in old] != new:
            raise FolderError(
                "The subword model of this model has rules that manyglot does not know, so its subwords cannot be "
                "trimmed. Trim the languages only, without --text and --data."
            )
