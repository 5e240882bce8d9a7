from __future__ import annotations

from pathlib import Path

import pytest

from manyglot.corpus.base import Split
from manyglot.corpus.inspection import CorpusInspection, inspect_splits
from manyglot.corpus.languages import Direction, Languages
from manyglot.corpus.multiway import MultiwaySettings
from manyglot.corpus.readers import open_corpus, resolve_train_directions
from manyglot.reports.corpus_tables import print_corpus_inspection


def inspect_files(folder: Path, **files: str) -> CorpusInspection:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    settings = MultiwaySettings(path=folder)
    corpus = open_corpus(settings)
    return inspect_splits(corpus, resolve_train_directions(Languages(corpus.languages), settings))


def test_sentences_rows_and_pairs_are_counted(tmp_path: Path) -> None:
    inspection = inspect_files(
        tmp_path,
        train_en="one\ntwo\nthree\n",
        train_de="eins\n\ndrei\n",
        train_ru="\nдва\nтри\n",
        dev_en="four\n",
        dev_de="vier\n",
        dev_ru="четыре\n",
        test_en="five\n",
        test_de="fünf\n",
        test_ru="пять\n",
    )
    assert inspection.num_rows == {Split.TRAIN: 3, Split.DEV: 1, Split.TEST: 1}
    assert inspection.language_statistics[Split.TRAIN]["de"].num_sentences == 2
    assert inspection.language_statistics[Split.TRAIN]["en"].sample_sentences == ["one", "two"]
    assert (
        inspection.num_pairs[Split.TRAIN][Direction("de", "en")]
        == inspection.num_pairs[Split.TRAIN][Direction("en", "de")]
        == 2
    )
    assert inspection.warnings == []


def test_defects_are_reported(tmp_path: Path) -> None:
    inspection = inspect_files(
        tmp_path,
        train_en="one\none\none\ntwo\n",
        train_ru="два\nprivet\npoka\nтри\n",
        train_de="\n\n\n\n",
        test_en="x\n",
        test_ru="привет\nи ещё\n",
    )
    text = "\n".join(inspection.warnings)
    assert ["test.en ends before line 2" in error for error in inspection.read_errors] == [True]
    assert "No training text for de→en, en→de." in text
    assert "No dev text." in text
    assert "No test text in de." in text
    assert "train.ru: 50% of the sentences are not in the usual script of Russian, such as: privet" in text
    assert "train.en: 50% of the sentences are repetitions." in text


def test_an_empty_file_is_one_problem(tmp_path: Path) -> None:
    inspection = inspect_files(tmp_path, train_en="one\n", train_de="", dev_en="x\n", dev_de="y\n")
    (error,) = inspection.read_errors
    assert "train.de is empty, but other files of the split are not." in error
    assert not [warning for warning in inspection.warnings if "No train" in warning]


def test_empty_files_are_one_problem(tmp_path: Path) -> None:
    inspection = inspect_files(tmp_path, train_en="", train_de="", train_fr="")
    assert inspection.warnings[0] == "No training text in any direction."


def test_splits_without_text_have_no_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_corpus_inspection(inspect_files(tmp_path, train_en="one\n", train_de="eins\n", test_en="two\n"))
    shown = capsys.readouterr().out
    heading = shown.splitlines()[1]
    assert [cell.strip() for cell in heading.strip("┃").split("┃")] == [
        "language", "train", "test", "characters", "repeated",
    ]  # fmt: skip
    assert "│ en English │     1 │    1 │" in shown


def test_text_that_is_not_utf8_is_a_read_error_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "train.de").write_bytes("eins\nzw\u00f6lf\n".encode("latin-1"))
    inspection = inspect_files(tmp_path, train_en="one\ntwelve\n")
    assert any("train.de, line 2 is not UTF-8" in error for error in inspection.read_errors)
    assert inspection.num_rows[Split.TRAIN] == 1
