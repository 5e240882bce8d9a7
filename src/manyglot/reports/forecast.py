"""What a run would see, take and need, for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from manyglot.corpus.languages import Direction
from manyglot.progress import duration, size

NONE = "–"


def print_forecast(forecast: Mapping[str, Any]) -> None:
    """A line for every two languages, and what follows from them."""
    console = Console(soft_wrap=True)
    console.print(_directions(forecast["directions"]))
    for name, text in _lines(forecast).items():
        console.print(Text(f"{name:<11} {text}"))
    for warning in forecast["warnings"]:
        console.print(Text(f"! {warning}", style="yellow"))


def _directions(lines: Sequence[Mapping[str, Any]]) -> Table:
    """The directions between two languages side by side; of the two, the one with more directions comes first."""
    table = Table()
    table.add_column("languages")
    for heading in ("pairs", "target tokens →", "seen →", "target tokens ←", "seen ←"):
        table.add_column(heading, justify="right")
    by_direction = {Direction(line["source"], line["target"]): line for line in lines}
    number = Counter(code for direction in by_direction for code in direction)
    both = {tuple(sorted(direction, key=lambda code: (-number[code], code))) for direction in by_direction}
    rows = []
    for one, other in both:
        there, back = by_direction.get(Direction(one, other)), by_direction.get(Direction(other, one))
        pairs = max(line["pairs"] for line in (there, back) if line)
        rows.append((-pairs, f"{one} {other}", (f"{pairs:,}", *_cells(there), *_cells(back))))
    for _, name, cells in sorted(rows):
        table.add_row(name, *cells)
    return table


def _cells(line: Mapping[str, Any] | None) -> tuple[str, str]:
    return (f"{line['tokens']:,}", times(line["times"])) if line else (NONE, NONE)


def _lines(forecast: Mapping[str, Any]) -> dict[str, str]:
    directions, epoch, training, trial, disk = (
        forecast[part] for part in ("directions", "epoch", "training", "trial", "disk")
    )
    pairs, tokens = (sum(line[what] for line in directions) for what in ("pairs", "tokens"))
    tried = _tried(trial, forecast["estimated_seconds"], training["left"]) if trial else {"time": NONE, "memory": NONE}
    return {
        "data": f"{len(directions)} directions, {pairs:,} sentence pairs, {tokens:,} target tokens",
        "an epoch": f"{epoch['batches']:,} batches, {epoch['updates']:,.1f} updates",
        "the run": f"{training['steps']:,} steps of {_number(training['batches_a_step'], 'batch', 'batches')}, "
        f"{training['epochs']:,.2f} epochs",
        "model": f"{forecast['num_parameters']:,} parameters",
        **tried,
        "validation": _validation(forecast["validation"]),
        "disk": f"{size(disk['checkpoint'])} a checkpoint; {size(disk['needed'])} needed, {size(disk['free'])} free",
        "folder": _folder(forecast["run"]),
    }


def _validation(plan: Mapping[str, Any]) -> str:
    """What would be measured, and which metric selects the best step."""
    parts = [f"{', '.join(each['metrics'])} of {each['description']}" for each in plan["measures"]]
    chosen = f"Best by {plan['best_metric']}" if plan["best_metric"] else "The last step becomes the model"
    return f"every {plan['every']:,} steps: {'; '.join(parts) or 'nothing'}. {chosen}."


def _tried(trial: Mapping[str, Any], seconds: float, left: int) -> dict[str, str]:
    """What a few steps have shown."""
    memory, total = (None if trial[part] is None else size(trial[part]) for part in ("memory", "all_memory"))
    return {
        "time": f"about {duration(seconds)} for {left:,} steps, without validation and checkpoints",
        "": f"(an estimate from {trial['num_steps']} steps on {trial['device']}: {trial['seconds']:.3g} s a step, "
        f"{trial['tokens_per_second']:,.0f} target tokens/s)",
        "memory": f"{memory or NONE} at most in these steps{f', of {total}' if total else ''}",
    }


def _number(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _folder(run: Mapping[str, Any]) -> str:
    """What training would make of the folder of the run."""
    step = f"step {run['step']:,}"
    words = {
        "new": "a new run",
        "resumes": f"the run resumes from {step}",
        "finished": f"already trained to {step}, nothing is left to do",
        "refused": f"refused: {run['reason']}",
    }
    return f"{run['folder']}: {words[run['state']]}"


def times(number: float) -> str:
    """How often, with more digits where it is little."""
    return f"{number:,.0f}×" if number >= 100 else f"{number:.2f}×" if number < 10 else f"{number:.1f}×"
