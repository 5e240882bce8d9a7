from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import manyglot
from manyglot.batches.pair_index import PairIndex
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.corpus.base import Split
from manyglot.errors import CorpusError, FolderError
from manyglot.vocabulary.word_counts import sample_evenly
from tests.conftest import tiny_experiment

MULTIWAY = {"vocabulary": {"size": 64}}


def write_text(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return folder


def test_the_dataset_contains_the_corpus(dataset: PreparedDataset) -> None:
    assert list(dataset.languages) == ["qaa", "qab", "qac"]
    assert [len(dataset.rows(split)) for split in (Split.TRAIN, Split.DEV, Split.TEST)] == [60, 8, 8]
    assert len(dataset.train_directions) == 4
    assert len(dataset.all_directions) == 6
    store = dataset.token_store(Split.TRAIN)
    texts = dataset.vocabulary.decode([store[i].tolist() for i in store.sentence_range("qab")])
    assert texts == [row["qab"] for row in dataset.rows(Split.TRAIN)]


def test_preparing_again_reuses_the_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = tiny_experiment(tmp_path)
    manyglot.prepare(experiment)
    before = {path: path.stat().st_mtime_ns for path in experiment.data.rglob("*")}
    manyglot.prepare(experiment)
    assert "already prepared" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in experiment.data.rglob("*")} == before


def test_a_dataset_of_other_settings_or_text_is_refused(tmp_path: Path) -> None:
    manyglot.prepare(tiny_experiment(tmp_path))
    with pytest.raises(FolderError, match=r"prepared from other text or settings \(vocabulary changed\)"):
        manyglot.prepare(tiny_experiment(tmp_path, vocabulary={"size": 130}))
    with pytest.raises(FolderError, match=r"\(corpus changed\)"):
        manyglot.prepare(tiny_experiment(tmp_path, corpus={"kind": "synthetic", "train_rows": 61}))


def test_changed_text_is_detected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "\n".join(f"word{i} and{i} more{i}" for i in range(50)) + "\n"
    text = write_text(tmp_path / "text", train_en=lines, train_de=lines)
    experiment = tiny_experiment(tmp_path, corpus={"kind": "multiway", "path": text}, **MULTIWAY)
    manyglot.prepare(experiment)
    write_text(text, train_de=lines.upper() + "\n")
    with pytest.raises(FolderError, match=r"\(text changed\)"):
        manyglot.prepare(experiment)
    capsys.readouterr()
    manyglot.train(experiment)
    assert "The text has changed since" in capsys.readouterr().err


def test_a_foreign_folder_is_not_touched(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    experiment.data.mkdir()
    (experiment.data / "thesis.txt").write_text("years of work")
    with pytest.raises(FolderError, match="is not a prepared dataset"):
        manyglot.prepare(experiment)
    assert (experiment.data / "thesis.txt").read_text() == "years of work"


def test_an_empty_folder_is_accepted(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    experiment.data.mkdir()
    assert manyglot.prepare(experiment).folder == experiment.data


def test_a_failed_preparation_leaves_no_dataset(tmp_path: Path) -> None:
    text = write_text(tmp_path / "text", train_en="a b\nc\n", train_de="x\n")  # misaligned: fails while reading
    experiment = tiny_experiment(tmp_path, corpus={"kind": "multiway", "path": text}, **MULTIWAY)
    with pytest.raises(CorpusError):
        manyglot.prepare(experiment)
    assert not experiment.data.exists()
    write_text(text, train_de="x\ny z\n")
    with pytest.raises(Exception, match=r"vocabulary\.size"):  # so little text has no 64 subwords
        manyglot.prepare(experiment)
    assert not experiment.data.exists()


def test_long_sentences_are_dropped_and_counted(tmp_path: Path) -> None:
    sentences = "\n".join(f"word{i} and{i} more{i}" for i in range(50)) + "\n"
    text = write_text(tmp_path / "text", train_en=sentences, train_de=sentences.replace("word7 ", "x " * 60))
    experiment = tiny_experiment(
        tmp_path, corpus={"kind": "multiway", "path": text}, cleaning={"max_subwords": 50}, **MULTIWAY
    )
    dataset = manyglot.prepare(experiment)
    assert dataset.metadata["dropped"]["train"] == {"de": {"too_long": 1}}
    assert PairIndex(dataset.token_store(Split.TRAIN)).num_pairs(dataset.train_directions[0]) == 49


def test_a_direction_without_text_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "\n".join(f"word{i} and{i} more{i}" for i in range(50)) + "\n"
    text = write_text(tmp_path / "text", train_en=lines, train_de=lines, train_fr="\n" * 50)
    experiment = tiny_experiment(tmp_path, corpus={"kind": "multiway", "path": text}, **MULTIWAY)
    with pytest.raises(CorpusError, match="no training text for en→fr"):
        manyglot.prepare(experiment)
    assert "! 100% of the training sentences in German (de) and English (en) are the same." in capsys.readouterr().err


def test_empty_training_files_are_refused(tmp_path: Path) -> None:
    text = write_text(tmp_path / "text", train_en="", train_de="")
    experiment = tiny_experiment(tmp_path, corpus={"kind": "multiway", "path": text}, **MULTIWAY)
    with pytest.raises(CorpusError, match="no training text"):
        manyglot.prepare(experiment)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    experiment = tiny_experiment(tmp_path, data=tmp_path / "file" / "data")
    with pytest.raises(FolderError, match=r"Cannot write .*data: Not a directory"):
        manyglot.prepare(experiment)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(FolderError, match="Permission denied"):
        manyglot.prepare(tiny_experiment(tmp_path, data=tmp_path / "locked" / "data"))


def test_a_dataset_of_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="Run `manyglot prepare` first"):
        PreparedDataset(tmp_path)
    (tmp_path / "dataset.json").write_text('{"format": 99}')
    with pytest.raises(FolderError, match="dataset format 99"):
        PreparedDataset(tmp_path)


def test_cleaning_drops_pairs(tmp_path: Path) -> None:
    lines = [f"word{i} and{i} more{i}" for i in range(50)]
    train = [*lines, lines[3], "a b c", lines[7]]
    german = [*lines, lines[3], "x y z " * 5, "other"]
    text = write_text(
        tmp_path / "text",
        train_en="\n".join(train) + "\n",
        train_de="\n".join(german) + "\n",
        test_en=lines[5] + "\n",
        test_de="nothing\n",
    )
    dataset = manyglot.prepare(
        tiny_experiment(
            tmp_path,
            corpus={"kind": "multiway", "path": text},
            cleaning={"max_length_ratio": 3, "deduplicate_pairs": True, "drop_heldout_overlap": True},
            **MULTIWAY,
        )
    )
    assert dataset.metadata["dropped"] == {"train": {"de-en": {"length_ratio": 1, "in_dev_or_test": 1, "duplicate": 1}}}
    shown = dataset.metadata["dropped_examples"]["train"]["de-en"]
    assert shown["length_ratio"] == ["x y z x y z x y z x y z x y z ↔ a b c"]
    assert shown["duplicate"] == ["word3 and3 more3 ↔ word3 and3 more3"]
    index = PairIndex(dataset.token_store(Split.TRAIN))
    assert [index.num_pairs(direction) for direction in dataset.train_directions] == [50, 50]


def test_train_directions_follow_the_settings(tmp_path: Path) -> None:
    corpus = {"kind": "synthetic", "num_languages": 3, "train_rows": 60, "train_directions": ["qab>qac"]}
    dataset = manyglot.prepare(tiny_experiment(tmp_path, corpus=corpus))
    assert [str(direction) for direction in dataset.train_directions] == ["qab→qac"]


def test_metadata_has_subword_statistics_per_language(dataset: PreparedDataset) -> None:
    store = dataset.token_store(Split.TRAIN)
    for code, counts in dataset.metadata["subwords"].items():
        assert counts["sentences"] == len(store.sentence_range(code)) == 60
        assert counts["subwords"] == store.lengths(np.array(store.sentence_range(code))).sum()
        assert counts["words"] == sum(len(line.split()) for line in dataset.sentences(Split.TRAIN, code))


def test_the_subword_model_is_trained_on_a_sample_or_given(tmp_path: Path) -> None:
    sampled = manyglot.prepare(
        tiny_experiment(tmp_path / "sampled", vocabulary={"size": 100, "num_sampled_sentences": 60})
    )
    assert len(sampled.vocabulary.subword_model) == 100
    model = sampled.folder / "subwords.model"
    brought = manyglot.prepare(tiny_experiment(tmp_path / "brought", vocabulary={"sentencepiece_model": model}))
    assert brought.vocabulary.subword_model.serialized == sampled.vocabulary.subword_model.serialized


def test_a_sample_is_spread_evenly() -> None:
    lines = ["", *(str(i) for i in range(100)), ""]
    lines_sampled = list(sample_evenly(lines, 100, 7))
    assert len(lines_sampled) == 7
    assert {int(b) - int(a) for a, b in pairwise(lines_sampled)} <= {14, 15}
    assert list(sample_evenly(lines, 100, 100)) == lines[1:-1]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


ZEROED, CUT, EDITED, EXCHANGED = range(4)


def damage(files: Sequence[Path], kind: int) -> None:
    """Damage files that an interrupted preparation has left."""
    intact = [path.read_bytes() for path in files]
    for path, content, other in zip(files, intact, [*intact[1:], intact[0]], strict=True):
        edited = content[:-9] + bytes([content[-9] ^ 1]) + content[-8:] if len(content) > 9 else b"x"
        path.write_bytes({ZEROED: bytes(len(content)), CUT: content[:-9], EDITED: edited, EXCHANGED: other}[kind])


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose preparation was interrupted just before its end."""
    folder = tmp_path_factory.mktemp("interrupted")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("manyglot.batches.prepare_dataset.write_metadata", interrupt)
        with pytest.raises(KeyboardInterrupt):
            manyglot.prepare(tiny_experiment(folder))
    return folder


def interrupt(*arguments: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ("**/*", EDITED),
        ("**/*", CUT),
        ("text/*", ZEROED),
        ("subwords.model", CUT),
        ("steps/*/*.npz", EDITED),
        ("steps/*/*", EXCHANGED),
        ("steps/*.json", EDITED),
        ("store/*/*", EXCHANGED),
    ],
)
def test_damaged_unfinished_work_is_repeated(
    pattern: str, kind: int, interrupted: Path, dataset: PreparedDataset, tmp_path: Path
) -> None:
    unfinished = tmp_path / "data.unfinished"
    shutil.copytree(interrupted / "data.unfinished", unfinished)
    files = sorted(path for path in unfinished.glob(pattern) if path.is_file())
    assert files
    damage(files, kind)
    prepared = manyglot.prepare(tiny_experiment(tmp_path))
    assert contents(prepared.folder) == contents(dataset.folder)


def test_intact_unfinished_work_is_reused(
    interrupted: Path, dataset: PreparedDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(interrupted / "data.unfinished", tmp_path / "data.unfinished")
    for name in ("write_aligned_text", "_load_or_train_subword_model"):
        monkeypatch.setattr(f"manyglot.batches.prepare_dataset.{name}", interrupt)
    monkeypatch.setattr("manyglot.batches.tokenization.tokenize_chunk", interrupt)
    assert contents(manyglot.prepare(tiny_experiment(tmp_path)).folder) == contents(dataset.folder)
