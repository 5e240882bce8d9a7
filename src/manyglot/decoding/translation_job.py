"""A translation job reads requests from files or a stream and writes their results, in constant memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, get_args

from manyglot.decoding.block_translator import BlockTranslator
from manyglot.decoding.interrupts import uninterrupted
from manyglot.decoding.notices import Notices
from manyglot.decoding.requests import LIMIT, Columns, Form, Request, count_lines, in_blocks, read_requests
from manyglot.decoding.results import Result, Writer, open_results, result_files
from manyglot.decoding.translator import Translator
from manyglot.errors import CorpusError, ManyglotError, SettingsError, suggest
from manyglot.progress import Bar, counter, say

STANDARD = Path("-")
"""As a file, standard input or output."""
MOST_COUNTED = 2**30
"""Bytes of files whose lines are counted first, for the progress."""


@dataclass(frozen=True)
class Outcome:
    """Counts of a job that has run."""

    num_lines: int = 0
    num_problems: int = 0
    """Lines that could not be translated, or not into all their languages."""


class _JobLog:
    """Counts the requests whose results are written, and reports their problems."""

    def __init__(self) -> None:
        self.outcome, self.notices = Outcome(), Notices()

    def add(self, requests: Sequence[Request]) -> None:
        """Count a block of requests and report what was wrong with them."""
        for request in requests:
            self.notices.tell(request)
        bad = sum(bool(request.problem or request.unknown) for request in requests)
        self.outcome = Outcome(self.outcome.num_lines + len(requests), self.outcome.num_problems + bad)


@dataclass(frozen=True)
class TranslationJob:
    """Where to read requests from, in which format, and where to write their results."""

    files: Sequence[Path] = ()
    """Read one after the other; standard input where there are none, and for `-`."""
    output: Path | None = None
    """Standard output where it is None or `-`."""
    to: Sequence[str] = ()
    """The target languages, by whatever names; requests may have their own instead."""
    form: Form = "text"
    output_form: Form | None = None
    """That of the input where it is None, and TSV for text in several languages to standard output."""
    columns: Columns | None = None
    """Where the text and its target are in a TSV file; the first two where it is None."""
    n_best: int = 1
    """Translations of each sentence, in TSV or JSONL."""
    scores: bool = False
    """Whether scores are written, in TSV or JSONL."""
    max_chars: int = LIMIT
    """Characters of a text beyond which it is cut, or split."""
    split_long: bool = False

    def __post_init__(self) -> None:
        for name, form in (("format", self.form), ("output-format", self.output_form)):
            if form is not None and form not in get_args(Form):
                raise SettingsError(f"--{name}: '{form}' is not known. {suggest(form, get_args(Form))}")
        if list(self.files).count(STANDARD) > 1:
            raise SettingsError("- is given twice, and standard input can be read once.")
        if self.form == "text" and not self.to:
            raise SettingsError("Text needs a target language, such as --to de; several are --to de,fr.")
        if self.columns is not None and self.form != "tsv":
            raise SettingsError(f"--columns is for tables, and the input is {self.form}. Add --format tsv.")
        if self.written_form == "text" and self.form != "text":
            raise SettingsError(f"A line of {self.form} may have several targets. Take --output-format tsv or jsonl.")
        if self.n_best < 1:
            raise SettingsError(f"--n-best is {self.n_best}; it should be 1 or more.")
        if self.written_form == "text" and (self.scores or self.n_best > 1):
            raise SettingsError("--scores and --n-best have no place in text. Add --output-format tsv or jsonl.")

    @property
    def written_form(self) -> Form:
        """The form of the results."""
        several = self.output_file is None and len(self.to) > 1
        return self.output_form or ("tsv" if self.form == "text" and several else self.form)

    @property
    def output_file(self) -> Path | None:
        """The file to write, if it is not standard output."""
        return None if self.output == STANDARD else self.output

    def run(self, translator: Translator, stdin: BinaryIO, stdout: BinaryIO) -> Outcome:
        """Translate all requests; one that cannot be translated is reported and has an empty result.

        Ctrl-C leaves the results of whole blocks; a message says how many lines they cover.
        """
        targets = list(dict.fromkeys(translator.languages.find(name) for name in self.to))
        output = self.output_file
        total = self._check_files(result_files(output, self.written_form, targets) if output else [])
        block_translator, log = BlockTranslator(translator, targets, self.n_best, self.scores), _JobLog()
        try:
            blocks = self._blocks(stdin, max(1, translator.engine.at_once // max(1, len(targets))))
            # Reading the first block reports unreadable input before any file is overwritten.
            first = list(islice(blocks, 1))
            with open_results(output or stdout, self.written_form, targets) as writer:
                hidden = output is None and stdout.isatty()  # the results themselves are progress enough
                with counter("translating", "lines", total, hidden) as progress:
                    self._run(block_translator, chain(first, blocks), writer, log, progress)
        except KeyboardInterrupt:
            log.notices.finish()
            of_total = "" if total is None else f" of {total:,}"
            say(f"manyglot: stopped after {log.outcome.num_lines:,}{of_total} lines.")
            raise
        log.notices.finish()
        return log.outcome

    def _blocks(self, stdin: BinaryIO, most: int) -> Iterator[list[Request]]:
        """What is translated together; in a terminal, each line when it is entered."""
        sources = [stdin if path == STANDARD else path for path in self.files or [STANDARD]]
        columns = self.columns or Columns()
        requests = read_requests(sources, self.form, columns=columns, limit=self.max_chars, split=self.split_long)
        entered = stdin in sources and stdin.isatty()
        return in_blocks(requests, 1 if entered else most)

    def _run(
        self,
        block_translator: BlockTranslator,
        blocks: Iterable[Sequence[Request]],
        writer: Writer,
        log: _JobLog,
        progress: Bar,
    ) -> None:
        offset = 0
        for block in blocks:
            translated = block_translator.translate(block, offset, progress)
            with uninterrupted():
                writer.write(self._rows(translated.results))
                log.add(translated.requests)
            offset += translated.num_sentences

    def _rows(self, results: Iterable[Result]) -> Iterator[Result]:
        """The results as they are written: in a table, the alternatives have rows of their own."""
        for result in results:
            yield result
            for other in result.alternatives if self.written_form == "tsv" else ():
                score = other.score if self.scores else None
                yield Result(result.number, result.source, result.to, other.text, score, extra=result.extra)

    def _check_files(self, outputs: Sequence[Path]) -> int | None:
        """Refuse files that are missing or would be overwritten; the number of lines, where it can be known."""
        files = [path for path in self.files if path != STANDARD]
        for path in files:
            if not path.exists() or path.is_dir():
                raise CorpusError(
                    f"Cannot read {path}: {'it is a folder' if path.is_dir() else 'there is no such file'}."
                )
            if any(output.exists() and os.path.samefile(path, output) for output in outputs):
                raise ManyglotError(f"{path} is read and would be overwritten. Choose another --output.")
        readable_twice = files and len(files) == len(self.files) and all(path.is_file() for path in files)
        if not readable_twice or sum(path.stat().st_size for path in files) > MOST_COUNTED:
            return None
        return count_lines(files)
