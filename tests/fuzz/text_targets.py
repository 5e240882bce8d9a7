"""Targets whose content users write: settings, corpora and requests. Accepted input must mean what its text says."""

from __future__ import annotations

import gzip
import json
import lzma
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import yaml

from manyglot.config.base_settings import parse_settings
from manyglot.config.experiment import Experiment, load_experiment, read_experiment
from manyglot.corpus.base import Split
from manyglot.corpus.languages import Languages
from manyglot.corpus.multiway import MultiwaySettings
from manyglot.corpus.readers import open_corpus, resolve_train_directions
from manyglot.corpus.table import TableSettings
from manyglot.decoding.translation_job import TranslationJob
from manyglot.errors import ManyglotError
from tests.decoding.stub import stub
from tests.fuzz.byte_mutations import HOSTILE_TEXT
from tests.fuzz.cases import Outcome
from tests.fuzz.folder_mutations import mutate_folder
from tests.fuzz.originals import REQUESTS
from tests.fuzz.run_targets import attempt
from tests.fuzz.value_mutations import HOSTILE_VALUES, HOSTILE_YAML, iter_paths, mutate_values, value_at

LARGEST_SENSIBLE_NUMBER = 1e30
"""No setting means anything above this."""


@dataclass(frozen=True)
class SettingsTarget:
    """An experiment in YAML files, with an override (`--set`), or as a dictionary."""

    name: str = "settings"

    def mutate(self, folder: Path, rng: random.Random) -> str:
        """Damage a file, write an override, or write a dictionary."""
        match rng.randrange(3):
            case 0:
                values = read_experiment(folder / "experiment.yaml").to_dict()
                changed, description = mutate_values(values, rng)
                (folder / "dictionary.json").write_text(json.dumps(changed), "utf-8")
                return f"dictionary: {description}"
            case 1:
                paths = [path for path in iter_paths(read_experiment(folder / "experiment.yaml").to_dict()) if path]
                key = ".".join(map(str, rng.choice(paths)))
                scalars = [value for value in HOSTILE_VALUES if isinstance(value, int | float | str)]
                hostile = [text.decode("utf-8", "surrogateescape") for text in HOSTILE_TEXT.values()]
                value = rng.choice((*HOSTILE_YAML.values(), *map(str, scalars), *hostile))
                text = f"{rng.choice((key, key, key, key + '.x', key[:-1], ''))}={value}"
                (folder / "override.txt").write_bytes(text.encode("utf-8", "surrogatepass"))
                return f"--set {text[:80]!r}"
        return mutate_folder(folder, rng)

    def use(self, folder: Path) -> Outcome:
        """Read the settings in the form that was damaged."""
        if (folder / "dictionary.json").exists():
            values = json.loads((folder / "dictionary.json").read_text("utf-8"))
            return {"settings": load_experiment(values).to_dict()}
        overrides = []
        if (folder / "override.txt").exists():
            overrides = [(folder / "override.txt").read_bytes().decode("utf-8", "surrogatepass")]
        return {"settings": read_experiment(folder / "experiment.yaml", overrides).to_dict()}

    def explain(self, folder: Path, description: str, undamaged: Outcome, outcome: Outcome) -> str:
        """Each value must be the one that the user wrote, and no surprising feature of YAML may be used."""
        settings = outcome["settings"]
        if parse_settings(Experiment, settings).to_dict() != settings:
            return "settings that do not survive a round trip"
        if wrong := next(_absurd_values(settings), ""):
            return f"an absurd number for {wrong}"
        if description.startswith("dictionary"):
            return _unfaithful(json.loads((folder / "dictionary.json").read_text("utf-8")), settings)
        if description.startswith("--set"):
            name, _, text = (folder / "override.txt").read_bytes().decode("utf-8", "surrogatepass").partition("=")
            written: Any = yaml.load(text, yaml.BaseLoader)
            for key in reversed(name.split(".")):
                written = {key: written}
            return _yaml_features(text) or _unfaithful(written, settings)
        texts = [
            path.read_text("utf-8") for path in (folder / "base.yaml", folder / "experiment.yaml") if path.exists()
        ]
        written = yaml.load(texts[-1], yaml.BaseLoader)
        written.pop("extends", None)
        return next(filter(None, map(_yaml_features, texts)), "") or _unfaithful(written, settings)


def _absurd_values(settings: Any) -> Iterator[str]:
    for path in iter_paths(settings):
        value = value_at(settings, path)
        if isinstance(value, int | float) and abs(value) > LARGEST_SENSIBLE_NUMBER:
            yield ".".join(map(str, path))


def _yaml_features(text: str) -> str:
    """Return the first feature of YAML in a text that manyglot should refuse."""
    for event in yaml.parse(text):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            return "YAML with anchors or aliases"
        if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
            return "YAML with a merge key"
        if getattr(event, "tag", None):
            return "YAML with a tag"
    return ""


def _unfaithful(written: Any, settings: Any) -> str:
    """Return why a value of the settings is not the one that the user wrote."""
    for path in iter_paths(written):
        value = value_at(written, path)
        if isinstance(value, dict | list):
            continue
        try:
            parsed = value_at(settings, path)
        except (LookupError, TypeError):
            return "a setting that is ignored"
        if not _means(value, parsed):
            kinds = f"{type(value).__name__} read as {type(parsed).__name__}"
            return f"a value of another meaning ({kinds})"
    return ""


def _means(written: Any, parsed: Any) -> bool:
    """Whether a value is what its text, or the value in a dictionary, says."""
    if isinstance(parsed, bool) or parsed is None or isinstance(written, bool) or written is None:
        text = "null" if written is None else str(written)
        return text.lower() in ({"null", "~", ""} if parsed is None else {str(parsed).lower()})
    if isinstance(parsed, int | float) and isinstance(written, str):
        for convert in (lambda text: int(text, 0), int, float):
            try:
                return bool(convert(written) == parsed)
            except ValueError:
                continue
        return False
    if isinstance(parsed, str) and isinstance(written, str):
        return parsed in (written, str(Path(written))) or parsed == str(Path(written.strip()))
    return bool(parsed == written)


@dataclass(frozen=True)
class CorpusTarget:
    """A corpus of one kind of files. Its rows must be those of a plain reader."""

    kind: str
    """text, compressed, tsv, ted, jsonl or parquet."""

    @property
    def name(self) -> str:
        """The name of the target, which is that of its folder."""
        return f"corpus-{self.kind}"

    def mutate(self, folder: Path, rng: random.Random) -> str:
        """Damage one or two files."""
        return mutate_folder(folder, rng)

    def use(self, folder: Path) -> Outcome:
        """Read all splits."""
        is_text = self.kind in ("text", "compressed")
        settings = MultiwaySettings(path=folder) if is_text else TableSettings(path=folder)
        corpus = open_corpus(settings)
        corpus.fingerprint()
        resolve_train_directions(Languages(corpus.languages), settings)
        rows = {split.value: [dict(row) for row in corpus.rows(split)] for split in Split}
        return {"languages": corpus.languages, "rows": rows}

    def explain(self, folder: Path, description: str, undamaged: Outcome, outcome: Outcome) -> str:
        """Compare with a plain reader; Parquet and TED tables only need to be valid text on single lines."""
        for rows in outcome["rows"].values():
            for sentence in (sentence for row in rows for sentence in row.values()):
                if not isinstance(sentence, str) or "\n" in sentence:
                    return "a sentence that is not one line of text"
                try:
                    sentence.encode("utf-8")
                except UnicodeEncodeError:
                    return "a sentence with lone surrogates"
        if self.kind in ("parquet", "ted") or outcome == undamaged:
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
            path = folder / name
            if isinstance(result, ManyglotError) or result == undamaged[name]:
                continue
            content = path.read_bytes()
            if path.suffix == ".gz":
                content = gzip.decompress(content)
            num_lines = content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
            outputs = result.split("\n")[:-1]
            if ".txt" in name and len(outputs) != num_lines:
                return "text with another number of lines"
            if name.endswith(".jsonl") and not all(isinstance(json.loads(line), dict) for line in outputs):
                return "a result that is no JSON object"
            if name.endswith(".tsv") and len({line.count("\t") for line in outputs}) != 1:
                return "a result with another number of columns"
            if missing := _missing_results(name, content, undamaged[name], outputs):
                return missing
            if max(map(len, outputs), default=0) > 4 * len(content) + 5000:
                return "a result that is much longer than the input"
        return ""


def _missing_results(name: str, content: bytes, undamaged: str, outputs: list[str]) -> str:
    """Return a text if an undamaged request no longer has its result."""
    originals = [text for text, _ in REQUESTS if text and "\t" not in text]
    expected = {text: line for text in originals for line in undamaged.split("\n") if text in line}
    separators = {".txt": b"\n%b\n", ".tsv": b"\n%b\t", ".gz": b"\n%b\n"}
    pattern = separators.get(Path(name).suffix)
    for text, line in expected.items() if pattern else ():
        if pattern and pattern % text.encode() in b"\n" + content and name != "requests.tsv" and line not in outputs:
            return f"no result of the undamaged request {text[:20]!r}"
    return ""


def _translate(path: Path, text_format: Any) -> str:
    output = BytesIO()
    targets = ["de"] if text_format == "text" else ()
    TranslationJob(files=[path], targets=targets, input_format=text_format).run(stub(), BytesIO(), output)
    return output.getvalue().decode("utf-8")
