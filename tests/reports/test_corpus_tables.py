from __future__ import annotations

import numpy as np
import pytest

from manyglot.corpus.languages import Direction
from manyglot.corpus.temperature_sampling import temperature_pair_counts
from manyglot.reports.corpus_tables import (
    SamplingPreview,
    print_cleaning_report,
    print_sampling_preview,
    sampling_preview_svg,
    subword_statistics_table,
)
from manyglot.reports.displayable import print_parts

SIZES = {Direction("de", "en"): 1_000_000, Direction("en", "de"): 1_000_000, Direction("is", "en"): 1000}
PREVIEW = SamplingPreview.from_counts(
    SIZES, {f"temperature:{t}": temperature_pair_counts(np.array(list(SIZES.values())), t) for t in (None, 5.0)}
)


def test_shares_and_repeats_follow_from_the_temperature() -> None:
    assert [seen.num_pairs for seen in PREVIEW.by_direction.values()] == [1_000_000, 1_000_000, 1000]
    for name in PREVIEW.sampling_ids:
        assert sum(seen.epoch_share[name] for seen in PREVIEW.by_direction.values()) == pytest.approx(1)
    assert [seen.repeats_per_epoch["temperature:None"] for seen in PREVIEW.by_direction.values()] == [1, 1, 1]
    assert PREVIEW.by_direction[Direction("is", "en")].repeats_per_epoch["temperature:5.0"] > 100


def test_directions_into_a_language_are_summed() -> None:
    into = PREVIEW.by_target["en"]
    assert into.num_pairs == 1_001_000
    shares = [PREVIEW.by_direction[Direction(code, "en")].epoch_share["temperature:5.0"] for code in ("de", "is")]
    assert into.epoch_share["temperature:5.0"] == pytest.approx(sum(shares))
    assert into.repeats_per_epoch["temperature:None"] == 1


def test_frequent_repetition_causes_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = PREVIEW.repetition_warnings()
    assert line.startswith("T = 5.0: is→en repeats ")
    print_sampling_preview(PREVIEW)
    assert line in capsys.readouterr().out


def test_the_preview_svg_has_a_bar_for_each_target_and_temperature() -> None:
    picture = sampling_preview_svg(PREVIEW)
    assert picture.count("<rect") == 1 + 2 * 2
    assert "T = 5.0" in picture


def test_subword_and_cleaning_tables(capsys: pytest.CaptureFixture[str]) -> None:
    print_parts(
        [subword_statistics_table({"de": {"sentences": 2, "words": 10, "subwords": 25, "unknown": 1}, "en": {}})]
    )
    dropped = {"train": {"de": {"too_long": 3}, "en": {"too_long": 1, "wrong_script": 2}}}
    examples = {"train": {"de": {"too_long": ["lang", "länger"]}, "en": {"too_long": ["long"], "wrong_script": ["ё"]}}}
    print_cleaning_report(dropped, examples, 2)
    printed = capsys.readouterr().out
    assert "2.50" in printed
    assert "4.00%" in printed
    assert "dropped from train: 4 too long (most in de 3, en 1)\n  de: lang\n  de: länger\ndropped" in printed
