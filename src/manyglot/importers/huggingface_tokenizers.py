"""Reads the tokenizer of a folder of transformers: a subword model, and the order of its tokens.

The kind depends on the files:

tokenizer.json                              NLLB-200, MBart-50: as the library `tokenizers` reads it
sentencepiece.bpe.model and vocab.json      M2M100: SentencePiece splits, the table numbers
sentencepiece.bpe.model                     NLLB-200, MBart-50: numbered by SentencePiece, after the symbols of fairseq
source.spm, target.spm and vocab.json       Marian: two SentencePiece models, one table
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from manyglot.corpus.languages import looks_like_language_code, primary_subtag
from manyglot.errors import FolderError, ManyglotError
from manyglot.files import MAX_ERROR_CHARS, read_json_object, read_small_file
from manyglot.importers.huggingface_folder import HuggingFaceFolder, token_text
from manyglot.importers.m2m100_languages import M2M100_LANGUAGES
from manyglot.importers.token_table import TokenTable
from manyglot.progress import print_status
from manyglot.vocabulary.loading import MAX_MODEL_BYTES, MAX_PARTS_BYTES
from manyglot.vocabulary.piece_table_model import PieceTableModel
from manyglot.vocabulary.sentencepiece_model import read_pieces
from manyglot.vocabulary.subword_file import PieceList
from manyglot.vocabulary.subword_model import SubwordModel
from manyglot.vocabulary.tokenizers_model import TokenizersModel, read_tokenizer_vocabulary

FAIRSEQ_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
"""The first tokens of fairseq's vocabularies. SentencePiece has <unk>, <s> and </s> instead."""
MASK = "<mask>"
TAG_PATTERNS = {
    "nllb": re.compile(r"[a-z]{3}_[A-Z][a-z]{3}"),
    "mbart": re.compile(r"[a-z]{2,3}_[A-Z]{2}"),
    "m2m_100": re.compile(r"__([a-z]{2,3}(?:[-_][A-Za-z]+)*)__"),
    "marian": re.compile(r">>(.+)<<"),
}
"""The tokens that are language codes: deu_Latn, de_DE, __de__ and >>deu<<."""


@dataclass(frozen=True)
class ImportedTokenizer:
    """A tokenizer before the languages of the model are known."""

    table: TokenTable
    build: Callable[[PieceList], SubwordModel]
    """Makes the subword model, given the pieces in our order."""


def read_tokenizer(folder: HuggingFaceFolder) -> ImportedTokenizer:
    """Read the tokenizer of a folder; raise a FolderError if it is missing or damaged."""
    names = [path.name for path in folder.path.iterdir()]
    if folder.family == "marian":
        main, read = "vocab.json", _read_marian
    elif "tokenizer.json" in names:
        main, read = "tokenizer.json", _read_tokenizer_json
    elif "vocab.json" in names:
        main, read = "vocab.json", _read_m2m100
    else:
        main, read = "sentencepiece.bpe.model", _read_fairseq_sentencepiece
    try:
        return read(folder)
    except ManyglotError:
        raise
    except (ValueError, RuntimeError, LookupError, TypeError) as error:
        reason = " ".join(str(error).split())[:MAX_ERROR_CHARS].rstrip(".") or type(error).__name__
        raise FolderError(f"{folder.path / main} is not a supported tokenizer, or it is damaged: {reason}.") from None


def _read_tokenizer_json(folder: HuggingFaceFolder) -> ImportedTokenizer:
    """NLLB-200 and MBart-50 in the format of the library `tokenizers`."""
    content = _read_file(folder, "tokenizer.json", MAX_PARTS_BYTES)
    vocabulary = read_tokenizer_vocabulary(content)
    listed = {*vocabulary.special, *folder.special_tokens()}
    tags = _language_tags((token for token in vocabulary.ids if token in listed), _tag_pattern(folder))
    table = TokenTable(vocabulary.ids, special=frozenset({*vocabulary.special, *FAIRSEQ_SYMBOLS, MASK}), tags=tags)
    return ImportedTokenizer(table, lambda pieces: TokenizersModel(pieces, content))


def _read_m2m100(folder: HuggingFaceFolder) -> ImportedTokenizer:
    """M2M100: the language codes follow the table."""
    ids, model = _read_table(folder), _read_file(folder, "sentencepiece.bpe.model", MAX_MODEL_BYTES)
    name = folder.tokenizer_config.get("language_codes", "m2m100")
    if name not in M2M100_LANGUAGES:
        known = ", ".join(M2M100_LANGUAGES)
        raise folder.error(
            "tokenizer_config.json", f"language_codes {str(name)[:50]!r} is not supported. Supported values: {known}"
        )
    tags = {code: f"__{code}__" for code in M2M100_LANGUAGES[name]}
    ids = ids | {tag: len(ids) + i for i, tag in enumerate(tags.values())}
    table = TokenTable(ids, special=frozenset(FAIRSEQ_SYMBOLS), tags=tags)
    return ImportedTokenizer(table, lambda pieces: PieceTableModel(pieces, model))


def _read_fairseq_sentencepiece(folder: HuggingFaceFolder) -> ImportedTokenizer:
    """NLLB-200 and MBart-50 without tokenizer.json: SentencePiece numbers the pieces, language codes follow."""
    model = _read_file(folder, "sentencepiece.bpe.model", MAX_MODEL_BYTES)
    ids = {piece: i for i, piece in enumerate([*FAIRSEQ_SYMBOLS, *read_pieces(model)[3:]])}
    pattern = _tag_pattern(folder)
    added = {**_added_tokens(folder), **folder.added_tokens}
    if not added:
        tags = [token for token in folder.special_tokens() if pattern.fullmatch(token)]
        added = {token: len(ids) + i for i, token in enumerate([*tags, MASK])}
    if not all(type(i) is int for i in added.values()):
        raise ValueError("the ids of its added tokens are damaged")
    tags_by_code = _language_tags(added, pattern)
    if not tags_by_code:
        raise folder.error(
            "special_tokens_map.json",
            "additional_special_tokens contains no language codes. Save the tokenizer again with transformers",
        )
    table = TokenTable(ids | added, special=frozenset({*FAIRSEQ_SYMBOLS, *added}), tags=tags_by_code)
    return ImportedTokenizer(table, lambda pieces: PieceTableModel(pieces, model))


def _read_marian(folder: HuggingFaceFolder) -> ImportedTokenizer:
    """Marian: two SentencePiece models and one table, which has the tags of the target languages."""
    source, target = (_read_file(folder, name, MAX_MODEL_BYTES) for name in ("source.spm", "target.spm"))
    ids = _read_table(folder)
    tags = _language_tags(ids, TAG_PATTERNS["marian"])
    table = TokenTable(ids, special=frozenset({"<s>"}), tags=tags)
    return ImportedTokenizer(table, lambda pieces: PieceTableModel(pieces, source, target))


def _read_table(folder: HuggingFaceFolder) -> dict[str, int]:
    """Read vocab.json, which maps pieces to ids."""
    if not (folder.path / "vocab.json").exists():
        raise _missing_file(folder.path / "vocab.json")
    table = read_json_object(folder.path / "vocab.json", MAX_MODEL_BYTES)
    if not all(type(i) is int for i in table.values()):
        raise ValueError("an id is not a number")
    return table


def _read_file(folder: HuggingFaceFolder, name: str, max_bytes: int) -> bytes:
    if not (folder.path / name).exists():
        raise _missing_file(folder.path / name)
    return read_small_file(folder.path / name, max_bytes)


def _missing_file(path: Path) -> FolderError:
    return FolderError(f"{path} is missing, but the tokenizer needs it. Copy it there, or save the tokenizer again.")


def _tag_pattern(folder: HuggingFaceFolder) -> re.Pattern[str]:
    return TAG_PATTERNS["mbart" if folder.family == "mbart" else "nllb"]


def _added_tokens(folder: HuggingFaceFolder) -> dict[str, int]:
    """Return the added tokens of tokenizer_config.json by their text."""
    added = folder.tokenizer_config.get("added_tokens_decoder", {})
    if not isinstance(added, Mapping):
        raise ValueError("added_tokens_decoder is damaged")
    return {text: int(i) for i, token in added.items() if (text := token_text(token)) is not None}


def _language_tags(tokens: Iterable[str], pattern: re.Pattern[str]) -> dict[str, str]:
    """Map language codes to their tags. MBart's de_DE becomes de if no other tag has the same language."""
    codes = {token: match[match.lastindex or 0] for token in tokens if (match := pattern.fullmatch(token))}
    if skipped := [token for token, code in codes.items() if not looks_like_language_code(code)]:
        print_status(f"Ignoring tags that are not language codes: {', '.join(skipped)[:200]}.")
        codes = {token: code for token, code in codes.items() if token not in skipped}
    if pattern is TAG_PATTERNS["mbart"]:
        languages = [primary_subtag(code) for code in codes.values()]
        codes = {t: lang if languages.count(lang) == 1 else t for t, lang in zip(codes, languages, strict=True)}
    return {code: token for token, code in codes.items()}
