"""Readers of line-aligned folders and of bilingual file pairs, and reading of external test text."""

from __future__ import annotations

from pathlib import Path

import pytest

from manyglot.corpus.base import Corpus, Split
from manyglot.corpus.bilingual import BilingualSettings
from manyglot.corpus.multiway import MultiwaySettings
from manyglot.corpus.readers import open_corpus, read_sentences, read_test_rows
from manyglot.corpus.textfiles import fingerprint_files, read_lines, write_aligned_rows
from manyglot.errors import CorpusError, ManyglotError


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("_", ".", 1).replace("_", ".")).write_text(text, encoding="utf-8")
    return folder


def multiway(folder: Path, **settings: object) -> Corpus:
    return open_corpus(MultiwaySettings(path=folder, **settings))  # type: ignore[arg-type]


def bilingual(folder: Path, **settings: object) -> Corpus:
    return open_corpus(BilingualSettings(path=folder, **settings))  # type: ignore[arg-type]


def test_line_aligned_files_are_read_as_rows(tmp_path: Path) -> None:
    corpus = multiway(write(tmp_path, train_en="a\nb\n", train_de="x\n\n", train_fr="\nz", dev_en="c\n"))
    assert corpus.languages == ("de", "en", "fr")
    assert list(corpus.rows(Split.TRAIN)) == [{"de": "x", "en": "a"}, {"en": "b", "fr": "z"}]
    assert list(corpus.rows(Split.DEV)) == [{"en": "c"}]
    assert list(corpus.rows(Split.TEST)) == []


def test_languages_can_be_selected(tmp_path: Path) -> None:
    write(tmp_path, train_en="a\n", train_de="x\n", train_fr="z\n")
    assert multiway(tmp_path, languages=("fr", "en")).languages == ("fr", "en")


def test_file_pairs_are_read_one_after_the_other(tmp_path: Path) -> None:
    for name, text in {
        "train.de-en.de": "x\n", "train.de-en.en": "a\n", "train.en-fr.en": "b\n", "train.en-fr.fr": "z\n",
        "dev.de-en.de": "y\n", "dev.de-en.en": "c\n", "notes.txt": "unrelated",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    corpus = bilingual(tmp_path)
    assert corpus.languages == ("de", "en", "fr")
    assert list(corpus.rows(Split.TRAIN)) == [{"de": "x", "en": "a"}, {"en": "b", "fr": "z"}]
    assert list(corpus.rows(Split.DEV)) == [{"de": "y", "en": "c"}]
    assert bilingual(tmp_path, languages=("de", "en")).languages == ("de", "en")


def test_the_fingerprint_changes_with_the_text(tmp_path: Path) -> None:
    corpus = multiway(write(tmp_path, train_en="a\n", train_de="x\n"))
    before = corpus.fingerprint()
    assert corpus.fingerprint() == before
    write(tmp_path, train_de="longer\n")
    assert corpus.fingerprint() != before


def test_a_link_to_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.de").symlink_to("nowhere")
    with pytest.raises(CorpusError, match=r"Cannot read .*train\.de: No such file"):
        fingerprint_files([tmp_path / "train.de"])


def test_other_unicode_separators_do_not_end_a_line(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("one\u2028line\x0bstill\r\ntwo".encode())
    assert list(read_lines(path)) == ["one\u2028line\x0bstill", "two"]


def test_a_byte_order_mark_and_windows_line_endings_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert list(read_lines(path)) == ["one", "two"]


def test_written_rows_are_read_back_unchanged(tmp_path: Path) -> None:
    rows = [{"en": "a\u2028b", "de": "x\ny"}, {"de": "z"}]
    assert write_aligned_rows(tmp_path, "train", ["de", "en"], rows) == 2
    assert list(read_lines(tmp_path / "train.en")) == ["a\u2028b", ""]
    assert list(multiway(tmp_path).rows(Split.TRAIN)) == [{"de": "x y", "en": "a\u2028b"}, {"de": "z"}]


@pytest.mark.parametrize(
    ("files", "settings", "message"),
    [
        ({}, {}, "contains no training text"),
        ({"train_en": "a\n"}, {}, "at least two languages; this one has en. Add translations of en into another"),
        (
            {"train_en": "a\n", "train_de": "x\n"},
            {"languages": ("en", "dee")},
            r"corpus.languages: .*'dee'. Did you mean de \(German\)",
        ),
        (
            {"train_fr": "a\n", "train_de": "x\n"},
            {},
            "corpus.central_language: English \\(en\\) is not among the corpus's languages: de, fr. Name one",
        ),
        ({"train_en": "a\n", "train_de": "x\n", "train_Backup": ""}, {}, "'Backup' is not a language code"),
        ({"train_en": "a\n", "train_de_bak": ""}, {}, r"/train\.de\.bak: 'de\.bak' is not a language code"),
        ({"train_en": "a\n", "train_txt": ""}, {}, r"/train\.txt: 'txt' is not .* remove the file, or list"),
    ],
)
def test_an_unusable_folder_is_refused(
    tmp_path: Path, files: dict[str, str], settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ManyglotError, match=message):
        multiway(write(tmp_path, **files), **settings)


def test_errors_name_the_file_and_the_line(tmp_path: Path) -> None:
    corpus = multiway(write(tmp_path, train_en="a\nb\n", train_de="x\n"))
    with pytest.raises(ManyglotError, match=r"train\.de ends before line 2"):
        list(corpus.rows(Split.TRAIN))
    (tmp_path / "train.de").write_bytes(b"x\n\xff\n")
    with pytest.raises(ManyglotError, match=r"train\.de, line 2 is not UTF-8"):
        list(corpus.rows(Split.TRAIN))


def test_a_missing_folder_and_an_incomplete_pair_are_refused(tmp_path: Path) -> None:
    for kind in (multiway, bilingual):
        with pytest.raises(ManyglotError, match="is not a folder"):
            kind(tmp_path / "nowhere")
    with pytest.raises(ManyglotError, match="no training pairs"):
        bilingual(tmp_path)
    (tmp_path / "train.de-en.de").write_text("x\n")
    with pytest.raises(ManyglotError, match=r"train\.de-en needs files in two languages but has 1"):
        bilingual(tmp_path)


def test_file_pairs_must_match_their_names(tmp_path: Path) -> None:
    for code in ("de", "ru"):
        (tmp_path / f"train.de-en.{code}").write_text("x\n")
    with pytest.raises(ManyglotError, match=r"train\.de-en has files in de and ru"):
        bilingual(tmp_path)
    (tmp_path / "train.de-en.ru").rename(tmp_path / "train.de-en.en")
    with pytest.raises(
        ManyglotError, match=r"corpus.languages: French \(fr\) is not among the languages of .*: de, en\."
    ):
        bilingual(tmp_path, languages=("de", "en", "fra"))


def test_external_test_text_is_read_in_the_languages_of_the_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for code in ("de", "en", "sw"):
        (tmp_path / f"test.{code}").write_text(f"one in {code}\ntwo in {code}\n")
    (tmp_path / "train.fr").write_text("no test\n")
    assert read_test_rows(tmp_path, ["de", "en", "fr"])[1] == {"de": "two in de", "en": "two in en"}
    (status,) = capsys.readouterr().err.splitlines()
    assert "layout aligned, 4 files in test and train" in status
    assert status.endswith("Skipping test text in languages that the data lacks: sw.")
    with pytest.raises(ManyglotError, match="at least two languages of the data"):
        read_test_rows(tmp_path, ["de", "fr"])
    with pytest.raises(ManyglotError, match="There is no file or folder"):
        read_test_rows(tmp_path / "none", ["de"])


def test_sentences_are_read_with_their_language_if_it_is_known(tmp_path: Path) -> None:
    write(tmp_path, train_en="a\nb\n", train_deu="x\n\n", train_fr="\nz", test_fr="w\n")
    assert list(read_sentences(tmp_path, ["de", "fr"])) == [("fr", "w"), ("de", "x"), ("fr", "z")]
    assert list(read_sentences(tmp_path / "train.fr", ["de", "fr"])) == [(None, "z")]
    (tmp_path / "table.tsv").write_text("de\ten\nx\ta\n", "utf-8")
    assert list(read_sentences(tmp_path / "table.tsv", ["en"])) == [("en", "a")]
    (tmp_path / "test.yaml").write_text(f"{{path: {tmp_path}, layout: aligned, test: table.tsv, languages: [deu, fr]}}")
    with pytest.raises(CorpusError, match="table"):
        list(read_sentences(tmp_path / "test.yaml", ["de"]))
    (tmp_path / "test.yaml").write_text(
        f"{{path: {tmp_path}, layout: aligned, dev: {tmp_path / 'table.tsv'}, languages: [German]}}"
    )
    assert list(read_sentences(tmp_path / "test.yaml", ["de", "fr"])) == [("de", "x"), ("de", "x")]


def test_pairs_are_read_in_one_of_their_languages(tmp_path: Path) -> None:
    for name in ("train.de-en.de", "train.de-en.en"):
        (tmp_path / name).write_text(f"{name}\n")
    assert list(read_sentences(tmp_path, ["de", "fr"])) == [("de", "train.de-en.de")]
