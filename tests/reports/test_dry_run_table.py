from __future__ import annotations

import pytest

from manyglot.reports.dry_run_table import format_repeats, print_dry_run


def direction(source: str, target: str, pairs: int) -> dict[str, object]:
    return {
        "source": source,
        "target": target,
        "num_pairs": pairs,
        "num_target_tokens": 10 * pairs,
        "mean_times_seen": pairs / 7,
    }


def test_both_directions_of_a_language_pair_share_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    """The language with more directions comes first; a direction without training data is a dash."""
    directions = [direction("de", "en", 5), direction("en", "de", 5), direction("en", "fr", 1200)]
    print_dry_run(
        {
            "run": {"run_folder": "runs/mine", "status": "resumes", "step": 40, "refusal_reason": ""},
            "directions": directions,
            "epoch": {"batches": 7, "updates": 3.5},
            "training": {"steps": 1000, "batches_per_step": 2, "steps_left": 960, "epochs": 285.714},
            "num_parameters": 1234567,
            "step_timing": {
                "device_name": "cpu",
                "num_steps": 20,
                "seconds_per_step": 1.5,
                "tokens_per_second": 1234.5,
                "peak_memory_bytes": 2e9,
                "total_memory_bytes": 4e9,
            },
            "estimated_seconds": 1440.0,
            "disk": {"checkpoint_bytes": 15e6, "needed_bytes": 50e6, "free_bytes": 2e12},
            "validation": {
                "validate_every": 5,
                "best_metric": "dev_nll",
                "evaluators": [
                    {"metrics": ["dev_nll"], "sample": {"num_pairs": 9}, "description": "9 sentence pairs"},
                ],
            },
            "warnings": ["Look out."],
        }
    )
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "en fr 1,200 12,000 171× – – en de 5 50 0.71× 50 0.71×" in printed
    assert "data 3 directions, 1,210 sentence pairs, 12,100 target tokens" in printed
    assert "epoch 7 batches, 3.5 updates run 1,000 steps of 2 batches, 285.71 epochs" in printed
    assert "about 24 min 0 s for 960 steps" in printed
    assert "estimated from 20 steps on cpu: 1.5 s per step, 1,234 target tokens/s" in printed
    assert "validation every 5 steps: dev_nll on 9 sentence pairs. dev_nll selects the best step." in printed
    assert "2 GB at peak in these steps, of 4 GB" in printed
    assert "15 MB per checkpoint; 50 MB needed, 2 TB free" in printed
    assert printed.endswith("folder runs/mine: the run resumes from step 40 ! Look out.")


def test_repeats_are_formatted_with_suitable_precision() -> None:
    assert [format_repeats(n) for n in (0.254, 9.99, 64.52, 1234.5)] == ["0.25×", "9.99×", "64.5×", "1,234×"]
