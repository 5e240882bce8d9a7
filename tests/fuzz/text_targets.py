"""Targets whose content users write: corpora and requests. Accepted text must be that of a plain reader."""

from __future__ import annotations

import gzip
import json
import lzma
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from manyglot.corpus.base import Split
from manyglot.corpus.files_corpus import FilesSettings
from manyglot.corpus.languages import Languages
from manyglot.corpus.multiway import MultiwaySettings
from manyglot.corpus.readers import open_corpus, resolve_train_directions
from manyglot.corpus.table import TableSettings
from manyglot.decoding.translation_job import TranslationJob
from manyglot.errors import ManyglotError
from tests.decoding.stub import stub
from tests.fuzz.cases import Outcome
from tests.fuzz.folder_mutations import mutate_folder
from tests.fuzz.originals import REQUEST_LINES
from tests.fuzz.run_targets import attempt


@dataclass(frozen=True)
class CorpusTarget:
    """A corpus of one kind of files. Its rows must be those of a plain reader."""

    kind: str
    """text, compressed, tsv, ted, jsonl, parquet, tmx or zip."""

    @property
    def name(self) -> str:
        """The name of the target, which is that of its folder."""
        return f"corpus-{self.kind}"

    def mutate(self, folder: Path, rng: random.Random) -> str:
        """Damage one or two files."""
        return mutate_folder(folder, rng)

    def use(self, folder: Path) -> Outcome:
        """Read all splits."""
        kinds = {"text": MultiwaySettings, "compressed": MultiwaySettings, "tmx": FilesSettings, "zip": FilesSettings}
        settings: Any = kinds.get(self.kind, TableSettings)(path=folder)
        corpus = open_corpus(settings)
        corpus.fingerprint()
        resolve_train_directions(Languages(corpus.languages), settings)
        rows = {split.value: [dict(row) for row in corpus.rows(split)] for split in Split}
        return {"languages": corpus.languages, "rows": rows}

    def explain(self, folder: Path, description: str, undamaged: Outcome, outcome: Outcome) -> str:
        """Compare with a plain reader; some kinds only need to be valid text on single lines."""
        for rows in outcome["rows"].values():
            for sentence in (sentence for row in rows for sentence in row.values()):
                if not isinstance(sentence, str) or "\n" in sentence:
                    return "a sentence that is not one line of text"
                try:
                    sentence.encode("utf-8")
                except UnicodeEncodeError:
                    return "a sentence with lone surrogates"
        if self.kind == "zip":  # archives have checksums
            originals = [row for rows in undamaged["rows"].values() for row in rows]
            if any(row not in originals for rows in outcome["rows"].values() for row in rows):
                return "a row that the archives do not hold"
        if self.kind in ("parquet", "ted", "tmx", "zip") or outcome == undamaged:
            return ""
        for split, rows in outcome["rows"].items():
            try:
                expected = _plain_rows(folder, self.kind, split, outcome["languages"])
            except (ValueError, OSError, EOFError, lzma.LZMAError, LookupError) as error:
                return f"text that a plain reader refuses ({type(error).__name__}: {str(error)[:60]})"
            if rows != expected:
                return "other rows than those of a plain reader"
        return ""


def _plain_rows(folder: Path, kind: str, split: str, languages: Sequence[str]) -> list[dict[str, str]]:
    """Read a split in the simplest way."""
    if kind in ("text", "compressed"):
        paths = {path.name.split(".")[1]: path for path in sorted(folder.glob(f"{split}.*")) if ".bak" not in path.name}
        lines = {code: _plain_lines(paths[code]) for code in languages if code in paths}
        records: list[Mapping[str, Any]] = [
            dict(zip(lines, row, strict=True)) for row in zip(*lines.values(), strict=True)
        ]
    else:
        records = []
        for path in sorted(folder.glob(f"*.{kind}")):
            if split not in path.name:
                continue
            rows = _plain_lines(path)
            if kind == "tsv":
                header = [name.strip() for name in rows[0].split("\t")] if rows else []
                records += [dict(zip(header, row.split("\t"), strict=True)) for row in rows[1:]]
            else:
                values = [json.loads(row, object_pairs_hook=_without_duplicates) for row in rows]
                records += [value.get("translation", value) for value in values]
    sentences = [{code: _plain_cell(record.get(code)) for code in languages} for record in records]
    return [
        {code: clean for code, text in row.items() if (clean := text.replace("\r", " ").replace("\n", " ").strip())}
        for row in sentences
    ]


def _plain_cell(value: Any) -> str:
    """Return the text of a cell; null and NaN mean that there is none."""
    return "" if value is None or value != value else str(value)


def _plain_lines(path: Path) -> list[str]:
    content = path.read_bytes()
    content = {".gz": gzip.decompress, ".xz": lzma.decompress}.get(path.suffix, bytes)(content)
    lines = content.decode("utf-8-sig").split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a duplicate key")
    return dict(pairs)


@dataclass(frozen=True)
class RequestsTarget:
    """Input of `translate` as text, TSV and JSONL. A damaged line must not change the results of other lines."""

    name: str = "requests"

    def mutate(self, folder: Path, rng: random.Random) -> str:
        """Damage one or two files. Pipes are deleted, because they are valid input, as in `<(zcat FILE)`."""
        description = mutate_folder(folder, rng)
        for path in filter(Path.is_fifo, list(folder.iterdir())):
            path.unlink()
        return description

    def use(self, folder: Path) -> Outcome:
        """Translate each file, with an engine that translates by a rule."""
        outcome: dict[str, Any] = {}
        for name in ("requests.txt", "packed.txt.gz", "requests.tsv", "requests.jsonl"):
            text_format = {".tsv": "tsv", ".jsonl": "jsonl"}.get(Path(name).suffix, "text")
            outcome[name] = attempt(lambda path=folder / name, f=text_format: _translate(path, f))
        return outcome

    def explain(self, folder: Path, description: str, undamaged: Outcome, outcome: Outcome) -> str:
        """Each line of text gives one line; undamaged requests give their undamaged results in the same order."""
        for name, result in outcome.items():
            if isinstance(result, ManyglotError) or result == undamaged[name]:
                continue
            content = (folder / name).read_bytes()
            lines = (gzip.decompress(content) if name.endswith(".gz") else content).split(b"\n")
            lines = lines if lines[-1] else lines[:-1]
            results = _parse_results(name, result)
            if ".txt" in name and len(results) != len(lines):
                return "text with another number of lines"
            expected = {
                line.encode(): each
                for line, each in zip(REQUEST_LINES[name], _parse_results(name, undamaged[name]), strict=True)
            }
            if len(results) == len(lines):  # a damaged line may have several targets, or none
                for line, each in zip(lines, results, strict=True):
                    if expected.get(line, each) != each:
                        return "another result of an undamaged request"
        return ""


def _parse_results(name: str, output: str) -> list[Any]:
    """Return the results of a job, without the numbers of the requests; raise an error if the output is malformed."""
    lines = output.split("\n")[:-1]
    if name.endswith(".tsv"):
        header, *rows = (line.split("\t") for line in lines)
        return [dict(zip(header, row, strict=True)) for row in rows]
    if name.endswith(".jsonl"):
        return [{key: value for key, value in json.loads(line).items() if key != "number"} for line in lines]
    return lines


def _translate(path: Path, text_format: Any) -> str:
    output = BytesIO()
    targets = ["de"] if text_format == "text" else ()
    TranslationJob(files=[path], targets=targets, input_format=text_format).run(stub(), BytesIO(), output)
    return output.getvalue().decode("utf-8")
