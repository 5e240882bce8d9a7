"""Runs that name the same languages in different styles are compared by language."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import manyglot
from manyglot.corpus.languages import Direction
from manyglot.evaluation.shared_language_codes import find_shared_codes, rename_languages, share_language_codes
from manyglot.evaluation.system_comparison import System, compare_systems
from tests.commands import run
from tests.evaluation.test_system_comparison import BAD, GOOD

FLORES = {"de": "deu_Latn", "en": "eng_Latn", "fr": "fra_Latn"}
TEXT = {
    "de": ["Guten Morgen, meine Damen und Herren.", "Das Wetter ist heute sehr schön."],
    "en": ["Good morning, ladies and gentlemen.", "The weather is very nice today."],
    "fr": ["Bonjour, mesdames et messieurs.", "Il fait très beau aujourd'hui."],
}


def test_the_codes_of_the_first_run_are_shared() -> None:
    renamed = rename_languages(GOOD, FLORES)
    assert renamed.directions[0].direction == Direction("deu_Latn", "eng_Latn")
    assert renamed.central_language == "eng_Latn"
    _, back = share_language_codes([BAD, renamed])
    assert back.directions == GOOD.directions
    assert back.output_language_counts == GOOD.output_language_counts
    compared = compare_systems([System("bad", [BAD]), System("good", [renamed])], "bad", num_bootstrap_samples=20)
    assert compared == compare_systems([System("bad", [BAD]), System("good", [GOOD])], "bad", num_bootstrap_samples=20)
    shown = compare_systems([System("good", [renamed]), System("bad", [BAD])], "bad", num_bootstrap_samples=20)
    assert next(iter(shown.significance_by_system["good"])) == Direction("deu_Latn", "eng_Latn")


def test_a_language_that_the_first_run_lacks_is_shared_by_the_others() -> None:
    first = replace(BAD, directions=[d for d in BAD.directions if "fr" not in d.direction])
    assert find_shared_codes([first, rename_languages(GOOD, FLORES), BAD]) == [
        {},
        {"deu_Latn": "de", "eng_Latn": "en"},
        {"de": "de", "en": "en", "fr": "fra_Latn"},
    ]


def test_compare_and_report_match_languages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, codes in (("short", dict(zip(FLORES, FLORES, strict=True))), ("flores", FLORES)):
        outputs = tmp_path / f"{name}-outputs"
        outputs.mkdir()
        (tmp_path / name).mkdir()
        for code, lines in TEXT.items():
            (tmp_path / name / f"test.{codes[code]}").write_text("".join(f"{line}\n" for line in lines))
        for source, target in (("de", "en"), ("fr", "en")):
            lines = [TEXT["de"][0], f"{TEXT[target][1]} ({name})"]
            (outputs / f"{codes[source]}-{codes[target]}.txt").write_text("".join(f"{line}\n" for line in lines))
        manyglot.score(outputs, tmp_path / name, tmp_path / f"scores-{name}")
    capsys.readouterr()
    folders = [tmp_path / "scores-short", tmp_path / "scores-flores"]
    table = json.loads(run(capsys, "compare", *folders, "--format", "json")[0])["systems"]
    assert table["scores-short"]["all"]["num_directions"] == 2
    page = manyglot.report(folders, tmp_path / "report.html").path.read_text("utf-8")
    assert "eng_Latn" not in page
    assert "(flores)" in page, "sentences of the other run are found under its own codes"
    assert "eng_Latn" in manyglot.report(folders[::-1], tmp_path / "flores.html").path.read_text("utf-8")
