"""Run every command through an installed console script, from another folder, on tiny data."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from typer.main import get_command

from manyglot.cli import app
from tests.importers.random_checkpoints import write_checkpoint

CONFIG = """
data: data
run: runs/mytext
corpus: {kind: multiway, path: mytext, central_language: en}
vocabulary: {size: 80}
batches: {max_tokens: 400}
model: {width: 16, ffn_width: 16, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1}
guidance: [{method: laa, init_gain: 0}, {method: lee}]
training: {max_steps: 4, warmup_steps: 2, validate_every: 2, checkpoint_every: 2, keep_last_checkpoints: 3, device: cpu}
validation: {num_supervised_sentences: 4, num_zero_shot_sentences: 4}
"""
PACK_CONFIG = """
corpus: {kind: multiway, path: swahili, central_language: en}
vocabulary: {size: 70}
training: {max_steps: 2, warmup_steps: 1, validate_every: 2}
validation: {num_supervised_sentences: 4, num_zero_shot_sentences: 0}
"""
WORDS = {"en": "one two three four", "de": "eins zwei drei vier", "fr": "un deux trois quatre"}
NEW_WORDS = {"en": WORDS["en"], "sw": "moja mbili tatu nne"}
STEPS: list[list[list[str]]] = [
    [["corpus", "inspect", "mine.yaml"], ["corpus", "preview", "mine.yaml", "-o", "shares.svg"]],
    [["corpus", "zero-shot", "mine.yaml", "-o", "zero-shot"], ["corpus", "translations", "mine.yaml"]],
    [["corpus", "split", "mine.yaml", "--dev", "3", "--test", "3", "-o", "split"]],
    [["prepare", "mine.yaml"], ["describe", "mine.yaml"]],
    [["train", "mine.yaml"], ["corpus", "verify", "data"]],
    [
        ["plot", "runs/mytext", "-o", "curves.png"],
        ["translate", "runs/mytext/model", "in.txt", "--to", "de,fr", "-o", "out.txt"],
    ],
    [
        ["evaluate", "runs/mytext/model", "--data", "data", "--zero-shot", "-o", "scores"],
        ["export", "runs/mytext/model", "--target", "de", "-o", "exported"],
    ],
    [["report", "scores", "-o", "report.html"], ["compare", "scores", "other=scores", "--baseline", "other"],
     ["score", "scores", "--test", "data", "-o", "rescored"]],
    [["average", "runs/mytext", "--last", "2", "-o", "averaged"], ["describe", "runs/mytext"],
     ["trim", "runs/mytext", "--languages", "de,en", "--data", "data", "-o", "trimmed"]],
    [["import", "checkpoint", "-o", "imported"],
     ["add-language", "runs/mytext/model", "swahili.yaml", "-o", "swahili.pack"]],
    [["probe", "runs/mytext/model"], ["translate", "exported", "in.txt", "--to", "de"],
     ["translate", "runs/mytext/model", "in.txt", "--to", "sw", "--pack", "swahili.pack"]],
    [["demo", "--set", "training.max_steps=2", "--set", "corpus.languages=[de,en,sw]", "--set", "vocabulary.size=500",
      "--set", "corpus.train_rows=200", "--set", "corpus.dev_rows=3", "--set", "corpus.test_rows=3"]],
]  # fmt: skip
"""The commands in order; those of one step run at the same time."""
WRITTEN = ["shares.svg", "zero-shot", "split/train.de", "curves.png", "scores/report.html", "exported/model.bin",
           "report.html", "rescored/report.html", "imported/model.safetensors",
           "averaged/config.yaml", "trimmed/README.md", "out.de.txt", "out.fr.txt", "demo-run/report.html"]  # fmt: skip


def run_every_command(script: Path, folder: Path) -> None:
    """Run all steps in a folder, as a user would."""
    _write_text(folder)
    for step in STEPS:
        _run_together(script, folder, step)
    missing = [name for name in WRITTEN if not (folder / name).exists()]
    assert not missing, missing


def commands_not_run() -> set[str]:
    """Return the names of all commands that no step runs."""
    names: set[str] = set()
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        subcommands = getattr(command, "commands", {})
        names |= {f"{name} {sub}" for sub in subcommands} or {name}
    run = {" ".join(command[:2]) for step in STEPS for command in step}
    return names - run - {command.split()[0] for command in run}


def _run_together(script: Path, folder: Path, commands: Sequence[Sequence[str]]) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "TRITON_INTERPRET")}
    environment |= {"OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [str(script), *command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    for command, process in zip(commands, processes, strict=True):
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, f"{' '.join(command)}: {out}{err}"


def _write_text(folder: Path) -> None:
    _write_corpus(folder / "mytext", WORDS)
    _write_corpus(folder / "swahili", NEW_WORDS)
    (folder / "mine.yaml").write_text(CONFIG, encoding="utf-8")
    (folder / "swahili.yaml").write_text(PACK_CONFIG, encoding="utf-8")
    write_checkpoint("marian", folder / "checkpoint", WORDS.values(), size=60, width=16)
    (folder / "in.txt").write_text("one two\nthree four\n", encoding="utf-8")


def _write_corpus(folder: Path, line_by_language: Mapping[str, str]) -> None:
    folder.mkdir()
    for code, line in line_by_language.items():
        words = line.split()
        for split, number in (("train", 60), ("dev", 6), ("test", 6)):
            start = len(split)
            lines = (" ".join(words[(start + i * j) % 4] + str(i % 7) for j in range(1, 5)) for i in range(number))
            (folder / f"{split}.{code}").write_text("\n".join(lines) + "\n", encoding="utf-8")
