"""Tokenizers in the file format `tokenizer.json` of the library `tokenizers`, as NLLB and MBart-50 have.

The library and its file format know many components. Only those of SentencePiece models are accepted, because a
tokenizer may come from an untrusted source.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from manyglot.errors import FolderError, ManyglotError
from manyglot.files import MAX_ERROR_CHARS, parse_json
from manyglot.vocabulary.subword_file import SPACE, PieceList, pack
from manyglot.vocabulary.subword_model import UNK, SubwordModel

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MODEL_TYPES = ("BPE", "Unigram")
NORMALIZERS = ("Precompiled", "Prepend", "Replace", "NFC", "NFD", "NFKC", "NFKD")
PRE_TOKENIZERS = ("Metaspace", "WhitespaceSplit")
REGULAR_EXPRESSIONS = (" {2,}", " +", "  +")
"""The regular expressions that a normalizer may replace: runs of spaces. Others might take very long."""
MAX_REPLACEMENT_CHARS = 8


class TokenizersModel(SubwordModel):
    """A tokenizer of the library `tokenizers`, with our numbering."""

    kind: ClassVar = "tokenizers"

    def __init__(self, piece_list: PieceList, tokenizer_json: bytes) -> None:
        """`tokenizer_json` is the result of `reduce_tokenizer_json`; anything else raises a ValueError."""
        self._piece_list = piece_list
        tokenizer_json = reduce_tokenizer_json(tokenizer_json)
        with _report_errors():
            self._tokenizer = _import_tokenizers().from_str(tokenizer_json.decode("utf-8"))
            self._tokenizer.encode_special_tokens = True  # split </s> in a text like any other text
            their_ids = [self._tokenizer.token_to_id(piece) for piece in piece_list.pieces]
        self._our_ids = {their_ids[our_id]: our_id for our_id in piece_list.text_ids}
        self.serialized = pack(self.kind, {"pieces.json": piece_list.to_json(), "tokenizer.json": tokenizer_json})

    def __len__(self) -> int:
        return len(self._piece_list.pieces)

    def pieces(self) -> list[str]:
        """All pieces in the order of our ids."""
        return list(self._piece_list.pieces)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Split sentences into ids without special symbols. A piece without an id of ours is unknown."""
        try:
            with _report_errors():
                encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        except ValueError as error:
            raise FolderError(f"The tokenizer of this model is damaged: it cannot split a text ({error}).") from None
        return [[self._our_ids.get(i, UNK) for i in encoding.ids] for encoding in encodings]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Join ids into sentences. Special symbols are left out."""
        sentences = self._piece_list.decodable_pieces(ids)
        return ["".join(pieces).replace(SPACE, " ").removeprefix(" ") for pieces in sentences]


@dataclass(frozen=True)
class TokenizerVocabulary:
    """The tokens of a tokenizer.json."""

    ids: Mapping[str, int]
    special: frozenset[str]
    """Tokens that are no text, such as </s> and language codes."""


def read_tokenizer_vocabulary(content: bytes) -> TokenizerVocabulary:
    """Return the tokens of a tokenizer.json; raise a ValueError if it is not suitable."""
    with _report_errors():
        tokenizer = _import_tokenizers().from_str(reduce_tokenizer_json(content).decode("utf-8"))
        special = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
        return TokenizerVocabulary(tokenizer.get_vocab(with_added_tokens=True), frozenset(special))


def reduce_tokenizer_json(content: bytes) -> bytes:
    """Return the part of a tokenizer.json that splits text; raise a ValueError if it has an unsuitable component."""
    values = parse_json(content.decode("utf-8"))
    model = values.get("model") if isinstance(values, Mapping) else None
    if not isinstance(model, Mapping):
        raise ValueError("it has no model")
    model = {"type": "Unigram" if isinstance(model.get("vocab"), list) else "BPE"} | dict(model)
    if model["type"] not in MODEL_TYPES or model.get("byte_fallback") or model.get("dropout"):
        raise ValueError(
            f"only models of the types {' and '.join(MODEL_TYPES)} without bytes and dropout are supported"
        )
    _check_components("normalizer", values.get("normalizer"), "normalizers", NORMALIZERS)
    _check_components("pre_tokenizer", values.get("pre_tokenizer"), "pretokenizers", PRE_TOKENIZERS)
    components = [values.get("normalizer"), values.get("pre_tokenizer")]
    if SPACE not in json.dumps(components, ensure_ascii=False):
        raise ValueError(f"it does not mark spaces by {SPACE}")
    reduced = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": values.get("added_tokens", []),
        "normalizer": values.get("normalizer"),
        "pre_tokenizer": values.get("pre_tokenizer"),
        "post_processor": None,
        "decoder": None,
        "model": model,
    }
    return json.dumps(reduced, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _check_components(role: str, component: Any, key: str, accepted: Sequence[str]) -> None:
    """Raise a ValueError if a component or a member of a sequence is not an accepted one."""
    if component is None:
        return
    if not isinstance(component, Mapping):
        raise ValueError(f"its {role} is damaged")
    if component.get("type") == "Sequence":
        members = component.get(key)
        if not isinstance(members, list) or any(
            isinstance(m, Mapping) and m.get("type") == "Sequence" for m in members
        ):
            raise ValueError(f"its {role} is damaged")
        for member in members:
            _check_components(role, member, key, accepted)
        return
    if component.get("type") not in accepted:
        raise ValueError(f"its {role} {str(component.get('type'))[:50]!r} is not supported")
    pattern = component.get("pattern")
    if isinstance(pattern, Mapping) and pattern.get("Regex") not in (None, *REGULAR_EXPRESSIONS):
        raise ValueError(f"its {role} has the pattern {str(pattern['Regex'])[:50]!r}, which is not supported")
    if any(len(str(component.get(name, ""))) > MAX_REPLACEMENT_CHARS for name in ("content", "prepend")):
        raise ValueError(f"its {role} inserts a long text")
    if component.get("type") == "Precompiled":
        _check_character_map(component.get("precompiled_charsmap"))


def _check_character_map(encoded: Any) -> None:
    """Raise a ValueError unless a normalizer's map has the layout of SentencePiece: a size, a trie and texts."""
    try:
        content = base64.b64decode(encoded, validate=True)
    except (TypeError, ValueError):
        content = b""
    trie_size = int.from_bytes(content[:4], "little")
    if len(content) < 4 + trie_size or trie_size % 4 or not trie_size:
        raise ValueError("the character map of its normalizer is damaged")
    content[4 + trie_size :].decode("utf-8")


@contextmanager
def _report_errors() -> Iterator[None]:
    """Convert an error or a panic of the library to a ValueError."""
    try:
        yield
    except (ManyglotError, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a panic in Rust is no Exception
        raise ValueError(str(error)[:MAX_ERROR_CHARS]) from None


def _import_tokenizers() -> type[Tokenizer]:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise ManyglotError(
            "This model's subwords need the library tokenizers. Run: pip install 'manyglot[tokenizers]'"
        ) from None
    return Tokenizer
