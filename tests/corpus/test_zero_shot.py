from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from manyglot.cli import main
from manyglot.corpus.pairs import PairsCorpus, PairsSettings
from manyglot.corpus.rows import Split
from manyglot.corpus.sources import make_zero_shot_tests, read_test, translations_of
from manyglot.corpus.translations import count_translations
from manyglot.corpus.zero_shot import Aligned, Leaks, ZeroShotTests, key_of, write_tests
from manyglot.errors import ManyglotError
from manyglot.reports.translations import translations_svg

TEST = [
    {"de": "Guten Tag", "en": "Hello"},
    {"fr": "Bonjour", "en": "Hello "},
    {"fr": "Salut", "en": "Hello"},
    {"de": "Danke", "en": "Thank  you"},
    {"fr": "Merci", "en": "Thank you"},
    {"de": "nur deutsch", "en": "German only"},
    {"cs": "Ahoj", "en": "Hello"},
]
TRAIN = [{"de": "danke!", "en": "Thanks"}, {"fr": "Allô", "en": "HELLO…"}, {"cs": "Dobrý den", "en": "Good day"}]


def pairs_folder(folder: Path) -> Path:
    """An English-centric corpus of pairs of files, as OPUS-100 has them."""
    for split, rows in {"train": TRAIN, "test": TEST}.items():
        for code in ("cs", "de", "fr"):
            those = [row for row in rows if code in row]
            for side in (code, "en"):
                path = folder / "supervised" / f"{code}-en" / f"opus.{code}-en-{split}.{side}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("".join(row[side] + "\n" for row in those), encoding="utf-8")
    return folder


def test_sentences_meet_by_their_pivot_in_all_combinations() -> None:
    tests = ZeroShotTests(TEST, "en")
    assert tests.pairs() == [("cs", "de"), ("cs", "fr"), ("de", "fr")]
    assert list(tests.sentences("de", "fr")) == [
        Aligned("Guten Tag", "Bonjour", "Hello"),
        Aligned("Guten Tag", "Salut", "Hello"),
        Aligned("Danke", "Merci", "Thank you"),
    ]
    with pytest.raises(ManyglotError, match="no test text of two languages"):
        ZeroShotTests([{"de": "a", "fr": "b"}], "en")


def test_rows_of_many_languages_meet_with_themselves_and_others() -> None:
    rows = [{"de": "a", "fr": "b", "en": "x"}, {"de": "c", "en": "x"}, {"de": "a", "en": "x"}]
    assert [s[:2] for s in ZeroShotTests(rows, "en").sentences("de", "fr")] == [("a", "b"), ("c", "b"), ("a", "b")]
    assert [s[:2] for s in ZeroShotTests(rows, "en", distinct=True).sentences("de", "fr")] == [("a", "b"), ("c", "b")]


def test_what_training_has_seen_is_told_by_side() -> None:
    tests = ZeroShotTests(TEST, "en")
    leaks = Leaks(tests, TRAIN)
    found = [leaks.sides(("de", "fr"), sentence) for sentence in tests.sentences("de", "fr")]
    assert found == [(False, False, True), (False, False, True), (True, False, False)]
    assert key_of("Guten  Tag!") == key_of("guten tag")
    assert key_of("?!") == "?!" != key_of("…"), "what has no letters is compared as it is"


def test_sets_are_part_of_the_corpus_they_are_written_into(tmp_path: Path) -> None:
    folder = pairs_folder(tmp_path / "corpus")
    settings = PairsSettings(path=folder)
    facts = {(each.one, each.other): each for each in make_zero_shot_tests(settings, folder / "zero-shot")}
    both = facts["de", "fr"]
    assert (both.num_sentences, both.one_leaked, both.other_leaked, both.pivot_leaked) == (3, 1, 0, 2)
    assert (both.leaked, both.written) == (3, 3)
    rows = [row for row in PairsCorpus(settings).rows(Split.TEST) if set(row) == {"de", "fr"}]
    assert rows[0] == {"de": "Guten Tag", "fr": "Bonjour"}
    assert len(rows) == 3
    with pytest.raises(ManyglotError, match="exists"):
        make_zero_shot_tests(settings, folder / "zero-shot")


def test_with_supervised_pairs_they_are_a_test_set_of_their_own(tmp_path: Path) -> None:
    settings = PairsSettings(path=pairs_folder(tmp_path / "corpus"))
    make_zero_shot_tests(settings, tmp_path / "sets", supervised=True)
    rows = read_test(tmp_path / "sets", ["de", "en", "fr", "cs"])
    found = {frozenset(row): [each for each in rows if set(each) == set(row)] for row in rows}
    assert {"-".join(sorted(pair)): len(those) for pair, those in found.items()} == {
        "cs-de": 1, "cs-en": 1, "cs-fr": 2, "de-en": 3, "de-fr": 3, "en-fr": 3,
    }  # fmt: skip
    assert {"de": "Danke", "en": "Thank you"} in rows
    assert {"de": "Guten Tag", "fr": "Salut"} in rows
    assert {code for row in read_test(tmp_path / "sets", ["de", "en"]) for code in row} == {"de", "en"}
    with pytest.raises(ManyglotError, match="two languages of the data or more"):
        read_test(tmp_path / "sets", ["de", "ja"])


def test_leaks_can_be_left_out(tmp_path: Path) -> None:
    tests = ZeroShotTests(TEST, "en")
    facts = write_tests(tmp_path / "sets", tests, Leaks(tests, TRAIN[:1]), drop_leaked=True)
    assert {(each.one, each.other): (each.leaked, each.written) for each in facts} == {
        ("cs", "de"): (0, 1), ("cs", "fr"): (0, 2), ("de", "fr"): (1, 2),
    }  # fmt: skip
    one = write_tests(tmp_path / "one", tests, Leaks(tests, []), most=1)
    assert {each.written for each in one} == {1}


def test_translations_of_unique_sentences_are_counted() -> None:
    rows = [
        {"en": "Hello", "de": "Hallo", "fr": "Bonjour"},
        {"en": " Hello", "de": "Hallo"},
        {"en": "Hello", "de": "Guten Tag"},
        {"en": "Bye", "de": "Tschüss"},
        {"en": "alone"},
        {"de": "allein", "fr": "seul"},
    ]
    found = count_translations(rows, "en")
    assert (found.num_sentences, found.counts, found.mean, found.several) == (2, {1: 1, 3: 1}, 2, 0.5)
    with pytest.raises(ManyglotError, match="no sentence in 'cs'"):
        count_translations(rows, "cs")


def test_a_histogram_for_each_corpus(tmp_path: Path) -> None:
    found = translations_of(PairsSettings(path=pairs_folder(tmp_path)))
    assert found.counts == {1: 3}
    svg = translations_svg({"one <corpus>": found, "another": count_translations(TEST, "en")})
    root = ElementTree.fromstring(svg)
    text = "".join(root.itertext())
    assert "one <corpus>" in text
    assert "mean 1.00" in text
    assert "mean 2.33" in text
    assert sum(path.get("stroke-dasharray") is not None for path in root.iter("{http://www.w3.org/2000/svg}path")) == 2
    with pytest.raises(ManyglotError, match=r"corpus.pivot: name the language"):
        translations_of(PairsSettings(path=tmp_path, pivot=None))


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = pairs_folder(tmp_path / "corpus")
    config = tmp_path / "mine.yaml"
    config.write_text(f"data: d\nrun: r\ncorpus: {{kind: pairs, path: {folder}}}\n")
    main(["corpus", "zero-shot", str(config), "-o", str(folder / "zero-shot")])
    out = capsys.readouterr().out
    assert "6 sentence pairs written for 3 pairs of languages, 6 directions" in out
    assert "6 of 6 found (100.0%) are in training: 1 sources or targets, 5 by their pivot" in out
    main(["corpus", "zero-shot", str(config), "-o", str(tmp_path / "again"), "--json", "--drop-leaked"])
    assert {each["written"] for each in json.loads(capsys.readouterr().out)["sets"]} == {0}
    main(["corpus", "translations", str(config), "-o", str(tmp_path / "h.svg")])
    assert "3 unique sentences in English, 1.00 translations each" in capsys.readouterr().out
    assert (tmp_path / "h.svg").read_text("utf-8").startswith("<svg")
    main(["corpus", "translations", str(config), "--json"])
    assert json.loads(capsys.readouterr().out)[str(config)]["counts"] == {"1": 3}
