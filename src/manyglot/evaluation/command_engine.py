"""Translates a test set with the command line of any program: a sentence per line on stdin, a translation on stdout."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from threading import Event, Lock
from typing import Any, BinaryIO, get_args

from manyglot.corpus.language_codes import CodeStyle, format_language_code
from manyglot.corpus.languages import Direction, Languages
from manyglot.corpus.textfiles import to_single_line
from manyglot.errors import EngineError, LanguageError, SettingsError, did_you_mean, shorten
from manyglot.evaluation.test_set_translation import EvaluationSet, complete_directions
from manyglot.evaluation.translation_cache import SentenceSpan, TranslationCache
from manyglot.files import os_error_reason
from manyglot.progress import print_status, progress_bar

SOURCE_PLACEHOLDER, TARGET_PLACEHOLDER = "{source}", "{target}"
DEFAULT_TIMEOUT = 3600.0
"""Default maximum time of one direction in seconds."""
MAX_OUTPUT_BYTES = 2**28
"""Maximum size of the output of one direction."""
POLL_SECONDS = 0.05


class _Stopped(Exception):
    """A direction was stopped, because another one failed or the user asked to stop."""


@dataclass(frozen=True)
class CommandEngine:
    """A program that translates, and how to call it.

        engine = manyglot.CommandEngine("apertium -u {source}-{target}", languages={"en": "eng", "es": "spa"})
        manyglot.evaluate(engine, test="testset", output="scores/apertium")

    The command runs once per direction and without a shell. It gets one sentence per line, in UTF-8, and must write one
    translation per line.
    """

    command: str
    """The program and its arguments. `{source}` and `{target}` stand for the languages."""
    languages: Mapping[str, str] = field(default_factory=dict)
    """What the program calls languages, where it differs from the codes in the code style."""
    code_style: CodeStyle = "as_given"
    """Style of the codes: as_given is that of the test set; bcp47 (de), iso639-3 (deu) or flores (deu_Latn)."""
    timeout: float = DEFAULT_TIMEOUT
    """Maximum time of one direction in seconds."""
    jobs: int = 1
    """Number of directions that run at the same time."""

    def __post_init__(self) -> None:
        if not self.arguments:
            raise SettingsError("--engine-command is empty. Give a program, such as 'mytool {source} {target}'.")
        if self.code_style not in get_args(CodeStyle):
            hint = did_you_mean(self.code_style, get_args(CodeStyle))
            raise SettingsError(f"--engine-code-style: '{self.code_style}' is not known. {hint}")
        if not self.timeout > 0:
            raise SettingsError(f"--engine-timeout is {self.timeout}; it must be above 0.")
        if self.jobs < 1:
            raise SettingsError(f"--engine-jobs is {self.jobs}; it must be at least 1.")

    @property
    def arguments(self) -> list[str]:
        """The program and its arguments, with placeholders."""
        try:
            return shlex.split(self.command)
        except ValueError as error:
            raise SettingsError(
                f"--engine-command: cannot split {self.command!r} ({error}). Check its quotes."
            ) from None

    def check(self, directions: Iterable[Direction], languages: Languages) -> CommandEngine:
        """Return a copy whose languages have the codes of the test set; raise an error if it cannot translate all."""
        arguments, targets = " ".join(self.arguments), {direction.target for direction in directions}
        if len(targets) > 1 and TARGET_PLACEHOLDER not in arguments:
            raise SettingsError(
                f"--engine-command has no {TARGET_PLACEHOLDER}, but there are {len(targets)} target languages. Add it."
            )
        if shutil.which(self.arguments[0]) is None:
            raise SettingsError(
                f"--engine-command: there is no program '{self.arguments[0]}'. Install it, or give its path."
            )
        try:
            codes = {languages.find_code(name): own for name, own in self.languages.items()}
        except LanguageError as error:
            raise LanguageError(f"--engine-language: {error}") from None
        return replace(self, languages=codes)

    def provenance(self) -> dict[str, Any]:
        """Return everything that the outputs of a direction depend on, apart from its sentences."""
        return {"command": self.arguments, "languages": dict(self.languages), "code_style": self.code_style}

    def translate(
        self, evaluation_set: EvaluationSet, cache: TranslationCache | None = None
    ) -> dict[Direction, list[str]]:
        """Translate all directions. Cached directions are not translated again."""
        sources = evaluation_set.source_texts()
        outputs = complete_directions(cache.read(), sources) if cache else {}
        if outputs:
            print_status(f"{len(outputs):,} of {len(sources):,} directions are already translated.")
        missing = [direction for direction in sources if direction not in outputs]
        num_total, num_missing = (sum(len(sources[d]) for d in each) for each in (sources, missing))
        stop, lock = Event(), Lock()

        def translate(direction: Direction) -> None:
            try:
                lines = self._translate(direction, sources[direction], stop)
            except _Stopped:
                return
            except BaseException:
                stop.set()
                raise
            with lock:
                outputs[direction] = lines
                if cache:
                    cache.add({SentenceSpan(direction, 0, len(lines)): lines})
                progress.advance(len(lines))

        title = f"translating {len(sources)} directions"
        with (
            progress_bar(title, total=num_total, done=num_total - num_missing) as progress,
            ThreadPoolExecutor(self.jobs) as pool,
        ):
            futures = [pool.submit(translate, direction) for direction in missing]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                stop.set()
                pool.shutdown(cancel_futures=True)
                raise
        return {direction: outputs[direction] for direction in sources}

    def _translate(self, direction: Direction, sentences: Sequence[str], stop: Event) -> list[str]:
        """Run the command for one direction; raise an error unless it writes one line per sentence."""
        if stop.is_set():
            raise _Stopped
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            text = "".join(f"{to_single_line(sentence)}\n" for sentence in sentences)
            stdin.write(text.encode("utf-8", "replace"))
            stdin.seek(0)
            self._run(direction, stdin, stdout, stderr, stop)
            stdout.seek(0)
            return _read_lines(stdout.read(), direction, len(sentences))

    def _run(self, direction: Direction, stdin: BinaryIO, stdout: BinaryIO, stderr: BinaryIO, stop: Event) -> None:
        """Run the command; raise an error if it fails, takes too long or writes too much."""
        source, target = (self.languages.get(code) or format_language_code(code, self.code_style) for code in direction)
        command = [
            part.replace(SOURCE_PLACEHOLDER, source).replace(TARGET_PLACEHOLDER, target) for part in self.arguments
        ]
        try:
            process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True)
        except OSError as error:
            raise EngineError(f"The engine cannot start for {direction}: {os_error_reason(error)}.") from None
        try:
            self._wait(process, direction, stdout, stop)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # the session has the process's children, too
                process.wait()
        if process.returncode != 0:
            stderr.seek(max(0, os.fstat(stderr.fileno()).st_size - 4096))
            reason = _find_error_line(stderr.read().decode("utf-8", "replace"))
            raise EngineError(
                f"The engine failed for {direction} with exit code {process.returncode}"
                f"{f': {shorten(reason)}' if reason else '.'}"
            )

    def _wait(self, process: subprocess.Popen[bytes], direction: Direction, stdout: BinaryIO, stop: Event) -> None:
        """Wait until the process ends, or raise an error."""
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                process.wait(timeout=POLL_SECONDS)
                return
            except subprocess.TimeoutExpired:
                if stop.is_set():
                    raise _Stopped from None
                if time.monotonic() > deadline:
                    raise EngineError(
                        f"The engine took more than {self.timeout:g} s for {direction}. Raise --engine-timeout."
                    ) from None
                if os.fstat(stdout.fileno()).st_size > MAX_OUTPUT_BYTES:
                    raise EngineError(
                        f"The engine wrote more than {MAX_OUTPUT_BYTES >> 20} MiB for {direction}. It must write one "
                        f"line per sentence."
                    ) from None


def _find_error_line(text: str) -> str:
    """Return the most helpful line of an engine's messages: the last one with "error", or the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if "error" in line.casefold()), lines[-1] if lines else "")


def _read_lines(output: bytes, direction: Direction, num_sentences: int) -> list[str]:
    """Return the lines that an engine wrote; raise an error if their number is wrong."""
    try:
        lines = output.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        number = output.count(b"\n", 0, error.start) + 1
        raise EngineError(f"The engine's output for {direction} is not UTF-8 in line {number}.") from None
    if lines[-1] == "":
        lines.pop()
    if len(lines) != num_sentences:
        raise EngineError(
            f"The engine wrote {len(lines):,} lines for the {num_sentences:,} sentences of {direction}. It must write "
            f"one line per sentence."
        )
    return [line.rstrip("\r") for line in lines]


def parse_engine_languages(options: Iterable[str]) -> dict[str, str]:
    """Parse the values of `--engine-language`, such as zh=zh-CN."""
    pairs = [option.partition("=") for option in options]
    for name, _, own in pairs:
        if not name.strip() or not own.strip():
            raise SettingsError("--engine-language: give a language and the engine's code for it, such as zh=zh-CN.")
    return {name.strip(): own.strip() for name, _, own in pairs}
