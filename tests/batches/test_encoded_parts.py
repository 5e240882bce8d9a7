"""Joining prepared datasets gives the dataset of the mixture of their text, without tokenizing this text again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import manyglot
from manyglot.batches import prepare_dataset, tokenization
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.experiment import Experiment
from manyglot.corpus.base import Split
from manyglot.errors import ManyglotError
from manyglot.vocabulary.sentencepiece_model import SentencePieceModel
from tests.conftest import tiny_experiment

CLEANING = {"max_subwords": 12, "deduplicate_pairs": True, "drop_heldout_overlap": True, "max_length_ratio": 2}
TEXTS = {
    "first": {"train.en": 40, "train.de": 40, "dev.en": 6, "dev.de": 6, "test.en": 6, "test.de": 6},
    "second": {"train.en": 30, "train.deu": 30, "train.fr": 30, "dev.en": 4, "dev.deu": 4, "dev.fr": 4},
    "further": {"train.en": 20, "train.fr": 20},
}


def write_texts(folder: Path) -> dict[str, dict[str, Any]]:
    """Write text with long, missing and repeated sentences, and return the settings of each corpus."""
    for name, files in TEXTS.items():
        (folder / name).mkdir()
        for file, num_lines in files.items():
            words = ("house", "red", "tree", "sings", "old", "river")
            lines = [
                " ".join(words[(i * 5 + j * j) % 6] + file[-1] for j in range(1 + i % 7)) for i in range(num_lines)
            ]
            lines[3] = "" if file.endswith(("de", "deu", "fr")) else lines[3]
            (folder / name / file).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {name: {"kind": "multiway", "path": str(folder / name)} for name in TEXTS}


def make(folder: Path, corpus: dict[str, Any], model: Path | None, **changes: Any) -> Experiment:
    vocabulary = {"size": 80} if model is None else {"sentencepiece_model": str(model)}
    return tiny_experiment(folder, corpus=corpus, **{"vocabulary": vocabulary, "cleaning": CLEANING, **changes})


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return write_texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, texts: dict[str, dict[str, Any]]) -> Path:
    return manyglot.prepare(make(tmp_path_factory.mktemp("model"), texts["first"], None)).folder / "subwords.model"


@pytest.fixture(scope="module")
def prepared(
    tmp_path_factory: pytest.TempPathFactory, texts: dict[str, dict[str, Any]], model: Path
) -> dict[str, dict[str, Any]]:
    """Settings of the prepared corpora, one of which dropped more sentences than the joined one."""
    folders = {
        "first": make(tmp_path_factory.mktemp("first"), texts["first"], model),
        "second": make(tmp_path_factory.mktemp("second"), texts["second"], model, cleaning={"max_subwords": 8}),
    }
    return {name: {"kind": "prepared", "path": str(manyglot.prepare(e).folder)} for name, e in folders.items()}


def assert_equal_datasets(joined: PreparedDataset, at_once: PreparedDataset) -> None:
    joined.verify()
    assert joined.seals == at_once.seals, "all files have the same content"
    for key in ("languages", "directions", "rows", "dropped", "dropped_examples", "subwords"):
        assert joined.metadata[key] == at_once.metadata[key]


@pytest.mark.parametrize(
    ("mixture", "shares", "chunk_bytes"),
    [
        ({}, (None, None), 2**22),
        ({}, (0.4, 2.5), 300),
        ({"train_share": 0.7}, (3, None), 300),
        ({"code_style": "flores"}, (None, 1.5), 2**22),
    ],
)
def test_joined_datasets_equal_the_mixture_of_their_text(
    mixture: dict[str, Any],
    shares: tuple[float | None, float | None],
    chunk_bytes: int,
    texts: dict[str, dict[str, Any]],
    prepared: dict[str, dict[str, Any]],
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokenization, "CHUNK_BYTES", chunk_bytes)

    def join(name: str, parts: dict[str, dict[str, Any]], model: Path | None) -> PreparedDataset:
        weighted = [
            {**parts[part], "train_share": share} for part, share in zip(("first", "second"), shares, strict=True)
        ]
        corpus = {"kind": "mixture", "parts": [*weighted, texts["further"]], "central_language": None, **mixture}
        return manyglot.prepare(make(tmp_path / name, corpus, model))

    at_once = join("at_once", texts, model)
    encoded, encode = [], SentencePieceModel.encode
    monkeypatch.setattr(
        SentencePieceModel, "encode", lambda self, lines: (encoded.extend(lines), encode(self, lines))[1]
    )
    assert_equal_datasets(join("joined", prepared, None), at_once)
    num_sentences = sum(sum(1 for _ in at_once.sentences(split, code)) for split in Split for code in at_once.languages)
    assert len(list(filter(None, encoded))) < num_sentences / 2, "only new and formerly dropped sentences are encoded"


def test_one_dataset_is_prepared_again_with_other_settings(
    texts: dict[str, dict[str, Any]], prepared: dict[str, dict[str, Any]], model: Path, tmp_path: Path
) -> None:
    joined, at_once = (
        manyglot.prepare(make(tmp_path / name, {**corpus, "train_share": 0.5}, model, cleaning={"max_subwords": 9}))
        for name, corpus in (("joined", prepared["second"]), ("at_once", texts["second"]))
    )
    assert_equal_datasets(joined, at_once)


def join(prepared: dict[str, dict[str, Any]], folder: Path, **changes: Any) -> PreparedDataset:
    return manyglot.prepare(make(folder, {"kind": "mixture", "parts": [*prepared.values()]}, None, **changes))


def test_an_interrupted_join_resumes(
    prepared: dict[str, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = join(prepared, tmp_path / "expected")
    with monkeypatch.context() as broken:
        broken.setattr(prepare_dataset, "write_metadata", interrupt)
        with pytest.raises(KeyboardInterrupt):
            join(prepared, tmp_path / "joined")
    monkeypatch.setattr(tokenization, "tokenize_chunk", refuse_to_tokenize)
    assert_equal_datasets(join(prepared, tmp_path / "joined"), expected)


def interrupt(*arguments: object) -> None:
    raise KeyboardInterrupt


def refuse_to_tokenize(chunk: tokenization.TextChunk) -> None:
    raise AssertionError(f"{chunk.text_file} is tokenized already")


def test_other_subwords_are_refused(
    texts: dict[str, dict[str, Any]], prepared: dict[str, dict[str, Any]], model: Path, tmp_path: Path
) -> None:
    other = manyglot.prepare(make(tmp_path / "other", texts["first"], None, vocabulary={"size": 72})).folder
    for parts, given in (
        (prepared | {"other": {"kind": "prepared", "path": str(other)}}, {"size": 72}),
        (prepared, {"sentencepiece_model": str(other / "subwords.model")}),
    ):
        with pytest.raises(ManyglotError, match=r"have different subwords\. Prepare both with the same") as error:
            join(parts, tmp_path / "joined", vocabulary=given)
        assert str(other) in str(error.value)


@pytest.mark.parametrize("name", ["dataset.json", "text/train.en", "store/train/tokens.npy", "subwords.model"])
def test_damaged_parts_are_refused(name: str, prepared: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(prepared["second"]["path"], damaged)
    content = bytearray((damaged / name).read_bytes())
    content[-2] ^= 1
    (damaged / name).write_bytes(content)
    with pytest.raises(ManyglotError, match=f"{name} is damaged"):
        join({**prepared, "second": {"kind": "prepared", "path": str(damaged)}}, tmp_path)
    assert not (tmp_path / "data").exists()


def test_prepared_parts_come_first(
    texts: dict[str, dict[str, Any]], prepared: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    with pytest.raises(ManyglotError, match="list the parts of kind prepared before all others"):
        join({"further": texts["further"], **prepared}, tmp_path)
