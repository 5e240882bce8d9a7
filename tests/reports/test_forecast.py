from __future__ import annotations

import pytest

from manyglot.reports.forecast import print_forecast, times


def direction(source: str, target: str, pairs: int) -> dict[str, object]:
    return {"source": source, "target": target, "pairs": pairs, "tokens": 10 * pairs, "times": pairs / 7}


def test_the_directions_between_two_languages_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """The language that is in most directions comes first, and a direction that is not trained on is a dash."""
    directions = [direction("de", "en", 5), direction("en", "de", 5), direction("en", "fr", 1200)]
    print_forecast(
        {
            "run": {"folder": "runs/mine", "state": "resumes", "step": 40, "reason": ""},
            "directions": directions,
            "epoch": {"batches": 7, "updates": 3.5},
            "training": {"steps": 1000, "batches_a_step": 2, "left": 960, "epochs": 285.714},
            "num_parameters": 1234567,
            "trial": {
                "device": "cpu",
                "num_steps": 20,
                "seconds": 1.5,
                "tokens_per_second": 1234.5,
                "memory": 2e9,
                "all_memory": 4e9,
            },
            "estimated_seconds": 1440.0,
            "disk": {"checkpoint": 15e6, "needed": 50e6, "free": 2e12},
            "validation": {
                "every": 5,
                "best_metric": "dev_nll",
                "measures": [
                    {"metrics": ["dev_nll"], "sample": {"num_pairs": 9}, "description": "9 sentence pairs"},
                ],
            },
            "warnings": ["Look out."],
        }
    )
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "en fr 1,200 12,000 171× – – en de 5 50 0.71× 50 0.71×" in told
    assert "data 3 directions, 1,210 sentence pairs, 12,100 target tokens" in told
    assert "an epoch 7 batches, 3.5 updates the run 1,000 steps of 2 batches, 285.71 epochs" in told
    assert "about 24 min 0 s for 960 steps" in told
    assert "an estimate from 20 steps on cpu: 1.5 s a step, 1,234 target tokens/s" in told
    assert "validation every 5 steps: dev_nll of 9 sentence pairs. Best by dev_nll." in told
    assert "2 GB at most in these steps, of 4 GB" in told
    assert "15 MB a checkpoint; 50 MB needed, 2 TB free" in told
    assert told.endswith("folder runs/mine: the run resumes from step 40 ! Look out.")


def test_numbers_are_told_in_units_that_suit_them() -> None:
    assert [times(n) for n in (0.254, 9.99, 64.52, 1234.5)] == ["0.25×", "9.99×", "64.5×", "1,234×"]
