"""Tokenizers as transformers 4 wrote them, which transformers 5 does not write any more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from manyglot.errors import FolderError
from manyglot.importers.huggingface_folder import HuggingFaceFolder
from manyglot.importers.huggingface_tokenizers import read_tokenizer
from tests.vocabulary.tiny_models import TEXT, pieces_of, tiny_sentencepiece

TAGS = ["ar_AR", "de_DE", "en_XX", "zh_CN"]


def write_folder(folder: Path, model_type: str, **files: Any) -> HuggingFaceFolder:
    """Write a folder with a SentencePiece model and some JSON files."""
    (folder / "sentencepiece.bpe.model").write_bytes(tiny_sentencepiece())
    for name, content in {"config": {"model_type": model_type}, **files}.items():
        (folder / f"{name}.json").write_text(json.dumps(content), "utf-8")
    return HuggingFaceFolder.read(folder)


@pytest.mark.parametrize("with_ids", [False, True], ids=["listed", "with ids"])
def test_language_codes_follow_the_pieces_of_sentencepiece(with_ids: bool, tmp_path: Path) -> None:
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(tiny_sentencepiece())]
    added = {len(pieces) + i: {"content": token} for i, token in enumerate([*TAGS, "<mask>"])}
    folder = write_folder(
        tmp_path,
        "mbart",
        tokenizer_config={"added_tokens_decoder": added} if with_ids else {},
        special_tokens_map={} if with_ids else {"additional_special_tokens": TAGS},
    )
    tokenizer = read_tokenizer(folder)
    assert tokenizer.table.tags == {"ar": "ar_AR", "de": "de_DE", "en": "en_XX", "zh": "zh_CN"}
    assert [tokenizer.table.token_ids[tag] for tag in TAGS] == list(range(len(pieces), len(pieces) + 4))
    num_rows = len(pieces) + 6  # one row has no token
    order = tokenizer.table.row_order(num_rows, languages := tokenizer.table.tags.keys())  # type: ignore[arg-type]
    assert sorted(order) == list(range(num_rows))
    assert order[:3] == [1, 2, 3]
    assert order[-4:] == [tokenizer.table.token_ids[tokenizer.table.tags[code]] for code in languages]
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(tiny_sentencepiece())
    model = tokenizer.build(tokenizer.table.piece_list(num_rows))
    expected = [[i + 1 if i else 3 for i in ids] for ids in processor.EncodeAsIds(TEXT)]
    assert [[order[i] for i in ids] for ids in model.encode(TEXT)] == expected
    assert model.decode([range(len(model))])[0].count("mask") == 0


def test_a_tokenizer_without_languages_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, "mbart")
    with pytest.raises(FolderError, match=r"contains no language codes. Save the tokenizer again"):
        read_tokenizer(folder)


def test_m2m100_has_one_of_two_lists_of_languages(tmp_path: Path) -> None:
    table = {piece: i for i, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces_of(tiny_sentencepiece())])}
    folder = write_folder(tmp_path, "m2m_100", vocab=table, tokenizer_config={"language_codes": "wmt21"})
    tags = read_tokenizer(folder).table.tags
    assert sorted(tags) == ["cs", "de", "en", "ha", "is", "ja", "ru", "zh"]
    folder = write_folder(tmp_path, "m2m_100", vocab=table, tokenizer_config={"language_codes": "all"})
    with pytest.raises(FolderError, match=r"language_codes 'all' is not supported. Supported values: m2m100, wmt21"):
        read_tokenizer(folder)
