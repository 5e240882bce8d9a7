from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from manyglot.cli import main
from manyglot.errors import ManyglotError
from manyglot.evaluation.system_comparison import System, compare_systems
from manyglot.reports.comparison_table import format_comparison, parse_table_format
from tests.evaluation.test_system_comparison import BAD, GOOD

SYSTEMS = [System("Token_tgt", [BAD]), System("LAA & more", [GOOD])]
TABLE = compare_systems(SYSTEMS, "Token_tgt")


def test_markdown_has_the_paper_s_layout() -> None:
    head, _, reference, row, *notes = format_comparison(TABLE, "markdown").splitlines()
    assert head == (
        "| system | En→XX BLEU | En→XX WR | XX→En BLEU | XX→En WR | All BLEU | All WR "
        "| Zero-shot BLEU | Zero-shot LangAcc | Zero-shot WR |"
    )
    assert reference.count("*base*") == 4
    assert "**" not in reference
    assert row.count("**") == 2 * 5, "the best of each column that has several numbers"
    assert "tok:13a" in "".join(notes)


def test_latex_is_escaped_and_has_the_same_numbers() -> None:
    text = format_comparison(TABLE, "latex")
    assert r"LAA \& more" in text
    assert r"Token\_tgt" in text
    assert text.count(r"\textbf{") == 5
    assert text.count(r"\textit{base}") == 4
    assert r"En $\rightarrow$ XX" in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\")][1:]
    assert {line.count("&") - line.count(r"\&") for line in rows} == {9}


def test_csv_and_json_have_unrounded_numbers() -> None:
    first, second = csv.DictReader(format_comparison(TABLE, "csv").splitlines())
    assert first["system"] == "Token_tgt"
    expected = TABLE.scores_by_system["LAA & more"]["zero_shot"].bleu.mean
    assert float(second["Zero-shot BLEU"]) == expected
    assert second["All WR"] == "100.0"
    values = json.loads(format_comparison(TABLE, "json"))
    assert values["systems"]["LAA & more"]["zero_shot"]["bleu"]["mean"] == expected


def test_seeds_and_significance_are_shown() -> None:
    table = compare_systems([SYSTEMS[0], System("seeds", [GOOD, BAD])], "Token_tgt", num_bootstrap_samples=100)
    text = format_comparison(table, "markdown")
    assert " ± " in text
    assert "standard deviation over runs" in text
    assert "(paired bootstrap, p < 0.05, 100 samples; the first run of each system)." in text
    assert "seeds: En→XX +" in text
    assert r"$^{\dagger}$" in format_comparison(table, "latex")


def test_without_a_reference_there_are_no_win_rates() -> None:
    text = format_comparison(compare_systems(SYSTEMS), "markdown")
    assert "WR" not in text
    supervised = [System("x", [BAD])]
    assert "**" not in format_comparison(compare_systems(supervised), "markdown"), "one system alone is not the best"


def test_columns_without_values_are_left_out() -> None:
    unidentified = replace(GOOD, directions=[replace(each, language_accuracy=None) for each in GOOD.directions])
    for table_format in ("markdown", "latex", "csv"):
        text = format_comparison(compare_systems([System("x", [unidentified])], "x"), table_format)  # type: ignore[arg-type]
        table = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("%")).split(
            "Directions"
        )[0]
        assert "BLEU" in table
        assert "LangAcc" not in table
        assert "WR" not in text, "the baseline has no win rate"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    BAD.save(tmp_path / "bad" / "results.json")
    GOOD.save(tmp_path / "good" / "results.json")
    runs = [str(tmp_path / "bad"), str(tmp_path / "good")]
    main(["compare", *runs, "--baseline", runs[0], "--format", "json", "--significance", "20"])
    assert json.loads(capsys.readouterr().out)["baseline"] == "bad"
    main(["compare", *runs])
    assert capsys.readouterr().out.startswith("| system |")
    with pytest.raises(SystemExit) as stop:
        main(["compare", *runs, "--format", "latx"])
    assert stop.value.code == 2
    assert "--format: 'latx' is not a format. Did you mean 'latex'?" in capsys.readouterr().err
    with pytest.raises(ManyglotError):
        parse_table_format("html")
