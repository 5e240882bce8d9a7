"""A tiny experiment, the commands that write files, and their undisturbed results."""

from __future__ import annotations

import atexit
import gc
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

import torch

from manyglot.cli import main
from manyglot.probing.uriel import URIEL_FOLDER_VARIABLE
from tests.faults.file_operations import FileOperation, is_visible
from tests.faults.injection import Fault, FaultPoint, Outcome, run_supervised

EXPERIMENT = """\
data: data
run: run
corpus: {kind: synthetic, num_languages: 3, train_rows: 40, dev_rows: 6, test_rows: 6}
vocabulary: {size: 100}
batches: {max_tokens: 300}
guidance: [{method: laa}]
model: {width: 16, ffn_width: 32, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1}
training:
  {max_steps: 6, warmup_steps: 2, checkpoint_every: 2, validate_every: 3, log_every: 2, keep_last_checkpoints: 2,
  keep_best_checkpoints: 1, device: cpu}
decoding: {beam_size: 2, max_length: 20}
evaluation: {language_identifier: profile}
"""
LOG_CLOCK_KEYS = {"seconds", "tokens_per_second", "validation"}
"""Fields of the training log that depend on the clock."""
MODULES_IMPORTED_LATE = (
    "ctranslate2",
    "matplotlib.pyplot",
    "sacrebleu.tokenizers.tokenizer_13a",
    "torch._dynamo",
    "manyglot.decoding.native_engine",
    *(
        f"manyglot.workflows.{name}"
        for name in ("prepare", "train", "average", "evaluate", "export", "translate", "trim")
    ),
)
"""What the commands import when they run. Processes that are forked after these imports start at once."""

Files = Mapping[str, str]
"""A digest of each file of a folder, or of a single file, without values that depend on the clock."""

FolderState = tuple[frozenset[tuple[str, str]], frozenset[str]]
"""The files of a folder and the names of all files and folders below it."""


@dataclass(frozen=True)
class Command:
    """A command line and what it writes."""

    arguments: tuple[str, ...]
    published: tuple[str, ...]
    """Patterns of the folders and files that it writes atomically: if they exist, they are complete. The first one is
    its final output."""
    previous: str | None = None
    """The command that must have run before."""
    refuses_existing_output: bool = True
    """Whether the command fails, instead of doing nothing, once its output is complete."""


COMMANDS: Mapping[str, Command] = {
    "prepare": Command(("prepare", "experiment.yaml"), ("data",), refuses_existing_output=False),
    "train": Command(
        ("train", "experiment.yaml"),
        ("run/model", "run/checkpoints/step-????????"),
        "prepare",
        refuses_existing_output=False,
    ),
    "average": Command(("average", "run", "--last", "2"), ("run/averaged-last-2",), "train"),
    "evaluate": Command(
        ("evaluate", "run", "--data", "data", "--zero-shot", "--output", "results"), ("results",), "train"
    ),
    "export": Command(("export", "run", "--output", "export", "--target", "qaa,qab"), ("export",), "train"),
    "export-bfloat16": Command(("export", "run", "--output", "small", "--to", "manyglot"), ("small",), "train"),
    "trim": Command(("trim", "run", "--languages", "qaa,qab", "--data", "data", "-o", "part"), ("part",), "train"),
    "translate": Command(
        ("translate", "run", "data/text/test.qaa", "--from", "qaa", "--to", "qab", "--output", "translations.txt"),
        ("translations.txt",),
        "train",
        refuses_existing_output=False,
    ),
    "report": Command(
        ("report", "results", "--output", "report.html"), ("report.html",), "evaluate", refuses_existing_output=False
    ),
    "plot": Command(("plot", "run", "--output", "curves.png"), ("curves.png",), "train", refuses_existing_output=False),
}


@dataclass(frozen=True)
class Reference:
    """The undisturbed run of a command."""

    name: str
    before: Path
    """A copy of the folder in which the command starts."""
    after: Files
    """The folder when the command has ended."""
    published: Mapping[str, Files]
    """Each folder and file when it appeared, also those that the command deletes later."""
    operations: tuple[FileOperation, ...]

    @property
    def command(self) -> Command:
        """The command."""
        return COMMANDS[self.name]

    def fault_points(self) -> Iterator[FaultPoint]:
        """Yield every fault at every file operation."""
        counts: Counter[FileOperation] = Counter()
        for operation in self.operations:
            counts[operation] += 1
            yield from (
                FaultPoint(fault, operation, counts[operation]) for fault in Fault if fault.applies_to(operation)
            )


def preload() -> None:
    """Import everything that the commands need, so that forked processes need not."""
    os.environ["MANYGLOT_QUIET"] = "1"
    os.environ[URIEL_FOLDER_VARIABLE] = os.devnull  # reading URIEL would take half of the time of an evaluation
    torch.set_num_threads(1)  # a process with threads must not be forked
    for name in MODULES_IMPORTED_LATE:
        __import__(name)
    gc.freeze()  # a collection in a forked process would copy the memory
    atexit.register(gc.unfreeze)


def run_command(name: str, folder: Path, point: FaultPoint | None = None) -> Outcome:
    """Run a command in a folder, with or without a fault."""
    return run_supervised(partial(main, COMMANDS[name].arguments), folder, point)


def make_references(folder: Path, names: Iterable[str]) -> dict[str, Reference]:
    """Run the given commands, and those they need, undisturbed."""
    references: dict[str, Reference] = {}
    for name in names:
        _add_reference(folder, name, references)
    return references


def _add_reference(folder: Path, name: str, references: dict[str, Reference]) -> None:
    if name in references:
        return
    before, work = folder / f"before-{name}", folder / f"after-{name}"
    previous = COMMANDS[name].previous
    if previous is None:
        before.mkdir(parents=True)
        (before / "experiment.yaml").write_text(EXPERIMENT, encoding="utf-8")
    else:
        _add_reference(folder, previous, references)
        copy_folder(folder / f"after-{previous}", before)
    copy_folder(before, work)
    published: dict[str, Files] = {}

    def record_published(operation: FileOperation) -> None:
        if operation.old_path is not None and is_visible(operation.path):
            published[operation.path] = read_files(work / operation.old_path)

    arguments = COMMANDS[name].arguments
    outcome = run_supervised(partial(main, arguments), work, on_operation=record_published)
    assert outcome.exit_code == 0, outcome.stderr
    for path in (path for pattern in COMMANDS[name].published for path in work.glob(pattern)):
        published.setdefault(str(path.relative_to(work)), read_files(path))
    references[name] = Reference(name, before, read_files(work), published, tuple(outcome.operations))


def copy_folder(source: Path, target: Path) -> None:
    """Replace a folder by a copy of another."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def read_files(path: Path) -> Files:
    """Return a digest of each file below a folder, or of a single file."""
    paths = [path] if path.is_file() else sorted(below for below in path.rglob("*") if not below.is_dir())
    return {str(below.relative_to(path)): sha256(_without_clock(below)).hexdigest() for below in paths}


def read_state(folder: Path) -> FolderState:
    """Return everything on which a command in this folder depends."""
    return frozenset(read_files(folder).items()), frozenset(str(path.relative_to(folder)) for path in folder.rglob("*"))


def _without_clock(path: Path) -> bytes:
    """Return the content of a file without values that depend on the clock; of a damaged file, the whole content."""
    content = path.read_bytes()
    try:
        if path.name == "log.jsonl":
            lines = [json.loads(line) for line in content.splitlines()]
            return json.dumps([{k: v for k, v in line.items() if k not in LOG_CLOCK_KEYS} for line in lines]).encode()
        if path.name == "about.json":
            about = json.loads(content)
            return json.dumps({**about, "training": {**about["training"], "seconds": None}}).encode()
    except ValueError:
        pass
    return content
