from __future__ import annotations

from pathlib import Path

from manyglot.corpus.inspection import Inspection, inspect
from manyglot.corpus.languages import Direction, Languages
from manyglot.corpus.multiway import MultiwaySettings
from manyglot.corpus.rows import Split
from manyglot.corpus.sources import open_corpus, trained_directions


def look(folder: Path, **files: str) -> Inspection:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    settings = MultiwaySettings(path=folder)
    corpus = open_corpus(settings)
    return inspect(corpus, trained_directions(Languages(corpus.languages), settings))


def test_what_there_is_is_counted(tmp_path: Path) -> None:
    found = look(
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
    assert found.rows == {Split.TRAIN: 3, Split.DEV: 1, Split.TEST: 1}
    assert found.facts[Split.TRAIN]["de"].sentences == 2
    assert found.facts[Split.TRAIN]["en"].samples == ["one", "two"]
    assert found.pairs[Split.TRAIN][Direction("de", "en")] == found.pairs[Split.TRAIN][Direction("en", "de")] == 2
    assert found.problems == []


def test_problems_are_named(tmp_path: Path) -> None:
    found = look(
        tmp_path,
        train_en="one\none\none\ntwo\n",
        train_ru="два\nprivet\npoka\nтри\n",
        train_de="\n\n\n\n",
        test_en="x\n",
        test_ru="привет\nи ещё\n",
    )
    text = "\n".join(found.problems)
    assert ["test.en ends before line 2" in error for error in found.errors] == [True]
    assert "There is no training text for de→en." in text
    assert "There is no dev text." in text
    assert "There is no test text in de." in text
    assert "train.ru: 50% of the sentences are not in the script of the language." in text
    assert "train.en: 50% of the sentences are repetitions." in text


def test_text_that_is_not_utf8_is_a_problem_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "train.de").write_bytes("eins\nzw\u00f6lf\n".encode("latin-1"))
    found = look(tmp_path, train_en="one\ntwelve\n")
    assert any("train.de, line 2 is not UTF-8" in error for error in found.errors)
    assert found.rows[Split.TRAIN] == 1
