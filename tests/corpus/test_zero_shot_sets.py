from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from manyglot.cli import main
from manyglot.corpus.base import Split
from manyglot.corpus.bilingual import BilingualCorpus, BilingualSettings
from manyglot.corpus.readers import count_corpus_translations, make_zero_shot_sets, read_test_rows
from manyglot.corpus.translation_counts import count_distinct_translations
from manyglot.corpus.zero_shot_sets import (
    AlignedSentence,
    LeakDetector,
    ZeroShotSets,
    normalize_for_leak_check,
    write_zero_shot_sets,
)
from manyglot.errors import ManyglotError
from manyglot.reports.translation_counts import translation_counts_svg

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
    """Write an English-centric corpus of file pairs in the layout of OPUS-100."""
    for split, rows in {"train": TRAIN, "test": TEST}.items():
        for code in ("cs", "de", "fr"):
            bilingual_rows = [row for row in rows if code in row]
            for side in (code, "en"):
                path = folder / "supervised" / f"{code}-en" / f"opus.{code}-en-{split}.{side}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("".join(row[side] + "\n" for row in bilingual_rows), encoding="utf-8")
    return folder


def test_sentences_are_aligned_through_the_central_language_in_all_combinations() -> None:
    tests = ZeroShotSets(TEST, "en")
    assert tests.language_pairs() == [("cs", "de"), ("cs", "fr"), ("de", "fr")]
    assert list(tests.aligned_sentences("de", "fr")) == [
        AlignedSentence("Guten Tag", "Bonjour", "Hello"),
        AlignedSentence("Guten Tag", "Salut", "Hello"),
        AlignedSentence("Danke", "Merci", "Thank you"),
    ]
    with pytest.raises(ManyglotError, match="no two languages that share sentences in 'en'"):
        ZeroShotSets([{"de": "a", "fr": "b"}], "en")


def test_multiway_rows_are_aligned_within_and_across_rows() -> None:
    rows = [{"de": "a", "fr": "b", "en": "x"}, {"de": "c", "en": "x"}, {"de": "a", "en": "x"}]
    sentences = ZeroShotSets(rows, "en").aligned_sentences("de", "fr")
    assert [s[:2] for s in sentences] == [("a", "b"), ("c", "b"), ("a", "b")]
    distinct = ZeroShotSets(rows, "en", deduplicate_translations=True).aligned_sentences("de", "fr")
    assert [s[:2] for s in distinct] == [("a", "b"), ("c", "b")]


def test_leaks_are_detected_per_side() -> None:
    tests = ZeroShotSets(TEST, "en")
    detector = LeakDetector(tests, TRAIN)
    leaks = [detector.leaked_sides(("de", "fr"), sentence) for sentence in tests.aligned_sentences("de", "fr")]
    assert leaks == [(False, False, True), (False, False, True), (True, False, False)]
    assert normalize_for_leak_check("Guten  Tag!") == normalize_for_leak_check("guten tag")
    assert normalize_for_leak_check("?!") == "?!" != normalize_for_leak_check("…"), (
        "text without letters is compared unchanged"
    )


def test_sets_become_part_of_the_corpus_they_are_written_into(tmp_path: Path) -> None:
    folder = pairs_folder(tmp_path / "corpus")
    settings = BilingualSettings(path=folder)
    facts = {
        (each.first_language, each.second_language): each
        for each in make_zero_shot_sets(settings, folder / "zero-shot")
    }
    both = facts["de", "fr"]
    assert (both.num_sentences, both.num_first_leaked, both.num_second_leaked, both.num_central_leaked) == (3, 1, 0, 2)
    assert (both.num_any_leaked, both.num_written) == (3, 3)
    rows = [row for row in BilingualCorpus(settings).rows(Split.TEST) if set(row) == {"de", "fr"}]
    assert rows[0] == {"de": "Guten Tag", "fr": "Bonjour"}
    assert len(rows) == 3
    with pytest.raises(ManyglotError, match="exists"):
        make_zero_shot_sets(settings, folder / "zero-shot")


def test_supervised_pairs_can_be_included(tmp_path: Path) -> None:
    settings = BilingualSettings(path=pairs_folder(tmp_path / "corpus"))
    make_zero_shot_sets(settings, tmp_path / "sets", include_supervised=True)
    rows = read_test_rows(tmp_path / "sets", ["de", "en", "fr", "cs"])
    assert Counter("-".join(sorted(row)) for row in rows) == {
        "cs-de": 1, "cs-en": 1, "cs-fr": 2, "de-en": 3, "de-fr": 3, "en-fr": 3,
    }  # fmt: skip
    assert {"de": "Danke", "en": "Thank you"} in rows
    assert {"de": "Guten Tag", "fr": "Salut"} in rows
    assert {code for row in read_test_rows(tmp_path / "sets", ["de", "en"]) for code in row} == {"de", "en"}
    with pytest.raises(ManyglotError, match="at least two languages of the data"):
        read_test_rows(tmp_path / "sets", ["de", "ja"])


def test_leaked_sentences_can_be_dropped(tmp_path: Path) -> None:
    tests = ZeroShotSets(TEST, "en")
    facts = write_zero_shot_sets(tmp_path / "sets", tests, LeakDetector(tests, TRAIN[:1]), drop_leaked=True)
    assert {(each.first_language, each.second_language): (each.num_any_leaked, each.num_written) for each in facts} == {
        ("cs", "de"): (0, 1), ("cs", "fr"): (0, 2), ("de", "fr"): (1, 2),
    }  # fmt: skip
    one = write_zero_shot_sets(tmp_path / "one", tests, LeakDetector(tests, []), max_sentences_per_pair=1)
    assert {each.num_written for each in one} == {1}


def test_translations_are_counted_per_unique_sentence() -> None:
    rows = [
        {"en": "Hello", "de": "Hallo", "fr": "Bonjour"},
        {"en": " Hello", "de": "Hallo"},
        {"en": "Hello", "de": "Guten Tag"},
        {"en": "Bye", "de": "Tschüss"},
        {"en": "alone"},
        {"de": "allein", "fr": "seul"},
    ]
    counts = count_distinct_translations(rows, "en")
    assert (counts.num_sentences, counts.num_sentences_by_translations, counts.mean, counts.share_with_several) == (
        2,
        {1: 1, 3: 1},
        2,
        0.5,
    )
    with pytest.raises(ManyglotError, match="no sentence in 'cs'"):
        count_distinct_translations(rows, "cs")


def test_the_svg_has_a_histogram_per_corpus(tmp_path: Path) -> None:
    counts = count_corpus_translations(BilingualSettings(path=pairs_folder(tmp_path)))
    assert counts.num_sentences_by_translations == {1: 3}
    svg = translation_counts_svg({"one <corpus>": counts, "another": count_distinct_translations(TEST, "en")})
    root = ElementTree.fromstring(svg)
    text = "".join(root.itertext())
    assert "one <corpus>" in text
    assert "mean 1.00" in text
    assert "mean 2.33" in text
    assert sum(path.get("stroke-dasharray") is not None for path in root.iter("{http://www.w3.org/2000/svg}path")) == 2
    with pytest.raises(ManyglotError, match=r"corpus.central_language: name the language"):
        count_corpus_translations(BilingualSettings(path=tmp_path, central_language=None))


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = pairs_folder(tmp_path / "corpus")
    config = tmp_path / "mine.yaml"
    config.write_text(f"data: d\nrun: r\ncorpus: {{kind: bilingual, path: {folder}}}\n")
    main(["corpus", "zero-shot", str(config), "-o", str(folder / "zero-shot")])
    out = capsys.readouterr().out
    assert "6 sentence pairs written for 3 language pairs (6 directions)" in out
    assert "6 of 6 candidate pairs (100.0%) occur in training: 1 sources or targets, 5 central-language" in out
    main(["corpus", "zero-shot", str(config), "-o", str(tmp_path / "again"), "--json", "--drop-leaked"])
    assert {each["num_written"] for each in json.loads(capsys.readouterr().out)["sets"]} == {0}
    main(["corpus", "translations", str(config), "-o", str(tmp_path / "h.svg")])
    assert "3 unique sentences in English, 1.00 translations each" in capsys.readouterr().out
    assert (tmp_path / "h.svg").read_text("utf-8").startswith("<svg")
    main(["corpus", "translations", str(config), "--json"])
    assert json.loads(capsys.readouterr().out)[str(config)]["num_sentences_by_translations"] == {"1": 3}
