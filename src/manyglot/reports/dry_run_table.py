"""Print the result of a dry run: exposure of each direction, time, memory and disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from manyglot.corpus.languages import Direction
from manyglot.progress import format_bytes, format_duration

MISSING_CELL = "–"


def print_dry_run(dry_run: Mapping[str, Any]) -> None:
    """Print a table of the language pairs and a summary of the run."""
    console = Console(soft_wrap=True)
    console.print(_direction_table(dry_run["directions"]))
    for name, text in _summary_lines(dry_run).items():
        console.print(Text(f"{name:<11} {text}"))
    for warning in dry_run["warnings"]:
        console.print(Text(f"! {warning}", style="yellow"))


def _direction_table(lines: Sequence[Mapping[str, Any]]) -> Table:
    """Show both directions of a language pair in one row; the language with more directions comes first."""
    table = Table()
    table.add_column("languages")
    for heading in ("pairs", "target tokens →", "seen →", "target tokens ←", "seen ←"):
        table.add_column(heading, justify="right")
    by_direction = {Direction(line["source"], line["target"]): line for line in lines}
    num_directions = Counter(code for direction in by_direction for code in direction)
    language_pairs = {tuple(sorted(d, key=lambda code: (-num_directions[code], code))) for d in by_direction}
    rows = []
    for first, second in language_pairs:
        forward, backward = by_direction.get(Direction(first, second)), by_direction.get(Direction(second, first))
        num_pairs = max(line["num_pairs"] for line in (forward, backward) if line)
        cells = (f"{num_pairs:,}", *_direction_cells(forward), *_direction_cells(backward))
        rows.append((-num_pairs, f"{first} {second}", cells))
    for _, name, cells in sorted(rows):
        table.add_row(name, *cells)
    return table


def _direction_cells(line: Mapping[str, Any] | None) -> tuple[str, str]:
    if line is None:
        return MISSING_CELL, MISSING_CELL
    return f"{line['num_target_tokens']:,}", format_repeats(line["mean_times_seen"])


def _summary_lines(dry_run: Mapping[str, Any]) -> dict[str, str]:
    directions, epoch, training, timing, disk = (
        dry_run[key] for key in ("directions", "epoch", "training", "step_timing", "disk")
    )
    num_pairs, num_tokens = (sum(line[key] for line in directions) for key in ("num_pairs", "num_target_tokens"))
    timing_lines = (
        _timing_lines(timing, dry_run["estimated_seconds"], training["steps_left"])
        if timing
        else {"time": MISSING_CELL, "memory": MISSING_CELL}
    )
    batches = _count_with_noun(training["batches_per_step"], "batch", "batches")
    sizes = {key: format_bytes(disk[f"{key}_bytes"]) for key in ("checkpoint", "needed", "free")}
    return {
        "data": f"{len(directions)} directions, {num_pairs:,} sentence pairs, {num_tokens:,} target tokens",
        "epoch": f"{epoch['batches']:,} batches, {epoch['updates']:,.1f} updates",
        "run": f"{training['steps']:,} steps of {batches}, {training['epochs']:,.2f} epochs",
        "model": f"{dry_run['num_parameters']:,} parameters",
        **timing_lines,
        "validation": _validation_text(dry_run["validation"]),
        "disk": f"{sizes['checkpoint']} per checkpoint; {sizes['needed']} needed, {sizes['free']} free",
        "folder": _run_folder_text(dry_run["run"]),
    }


def _validation_text(plan: Mapping[str, Any]) -> str:
    """Describe what is validated and which metric selects the best step."""
    parts = [f"{', '.join(evaluator['metrics'])} on {evaluator['description']}" for evaluator in plan["evaluators"]]
    selection = (
        f"{plan['best_metric']} selects the best step" if plan["best_metric"] else "The last step becomes the model"
    )
    return f"every {plan['validate_every']:,} steps: {'; '.join(parts) or 'no metrics'}. {selection}."


def _timing_lines(timing: Mapping[str, Any], seconds: float, num_steps_left: int) -> dict[str, str]:
    """Describe time and memory, estimated from a few timed steps."""
    peak, total = (
        None if timing[key] is None else format_bytes(timing[key])
        for key in ("peak_memory_bytes", "total_memory_bytes")
    )
    return {
        "time": f"about {format_duration(seconds)} for {num_steps_left:,} steps, excluding validation and checkpoints",
        "": f"(estimated from {timing['num_steps']} steps on {timing['device_name']}: "
        f"{timing['seconds_per_step']:.3g} s per step, {timing['tokens_per_second']:,.0f} target tokens/s)",
        "memory": f"{peak or MISSING_CELL} at peak in these steps{f', of {total}' if total else ''}",
    }


def _count_with_noun(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _run_folder_text(run: Mapping[str, Any]) -> str:
    """Describe what training would do with the run folder."""
    step = f"step {run['step']:,}"
    texts = {
        "new": "new run",
        "resumes": f"the run resumes from {step}",
        "finished": f"already trained to {step}, nothing left to do",
        "refused": f"refused: {run['refusal_reason']}",
    }
    return f"{run['run_folder']}: {texts[run['status']]}"


def format_repeats(number: float) -> str:
    """Format how often something repeats, with more digits for small numbers."""
    return f"{number:,.0f}×" if number >= 100 else f"{number:.2f}×" if number < 10 else f"{number:.1f}×"
