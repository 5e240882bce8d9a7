"""Reads the file of a subword model of any kind."""

from __future__ import annotations

from pathlib import Path

from manyglot.errors import FolderError
from manyglot.files import MAX_ERROR_CHARS, read_small_file
from manyglot.vocabulary.extended_model import LANGUAGE_PREFIX, ORIGINAL_PART, ExtendedModel
from manyglot.vocabulary.piece_table_model import PieceTableModel
from manyglot.vocabulary.sentencepiece_model import SentencePieceModel
from manyglot.vocabulary.subword_file import FIRST_BYTE, PieceList, unpack
from manyglot.vocabulary.subword_model import SubwordModel
from manyglot.vocabulary.tokenizers_model import TokenizersModel

MAX_MODEL_BYTES = 2**25
"""Maximum size of a SentencePiece file; a model with a million pieces needs about half of it."""
MAX_PARTS_BYTES = 2**26
"""Maximum size of a file with several parts; that of NLLB-200, with 256,000 pieces, has a third of it."""


def load_subword_model(path: Path, max_bytes: int = MAX_PARTS_BYTES) -> SubwordModel:
    """Read the file of a subword model. `max_bytes` limits its size; loading takes up to fifty times as much memory."""
    content = read_small_file(path, max_bytes)
    if content.startswith(FIRST_BYTE):
        try:
            return _from_parts(*unpack(content))
        except (ValueError, RuntimeError, LookupError, TypeError) as error:
            raise FolderError(f"{path} is not a subword model, or it is damaged ({_one_line(error)}).") from None
    if len(content) > MAX_MODEL_BYTES:
        raise FolderError(f"{path} is too large: it has more than {MAX_MODEL_BYTES:,} bytes.")
    try:
        return SentencePieceModel(content)
    except (RuntimeError, ValueError):
        raise FolderError(f"{path} is not a SentencePiece model, or it is damaged.") from None


def _from_part(content: bytes) -> SubwordModel:
    """Build a model that is part of an extended model."""
    if not content.startswith(FIRST_BYTE):
        return SentencePieceModel(content)
    kind, parts = unpack(content)
    if kind == ExtendedModel.kind:
        raise ValueError("an extended model contains another one")
    return _from_parts(kind, parts)


def _from_parts(kind: str, parts: dict[str, bytes]) -> SubwordModel:
    """Build a model of a kind; raise one of the errors that `load_subword_model` catches if it is damaged."""
    match kind:
        case ExtendedModel.kind:
            original = _from_part(parts.pop(ORIGINAL_PART))
            return ExtendedModel(
                original, {name.removeprefix(LANGUAGE_PREFIX): _from_part(part) for name, part in parts.items()}
            )
        case PieceTableModel.kind:
            pieces = PieceList.from_json(parts["pieces.json"])
            return PieceTableModel(pieces, parts["source.spm"], parts.get("target.spm"))
        case TokenizersModel.kind:
            return TokenizersModel(PieceList.from_json(parts["pieces.json"]), parts["tokenizer.json"])
        case _:
            raise ValueError(f"its kind {kind[:50]!r} is not known; upgrade manyglot")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:MAX_ERROR_CHARS].rstrip(".") or type(error).__name__
