"""The undamaged input of every target, made from one tiny experiment."""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
import warnings
import zipfile
from pathlib import Path

import pyarrow
import pyarrow.parquet

import manyglot
from manyglot.config.experiment import Experiment
from tests.fuzz.pack_target import write_model_and_pack
from tests.fuzz.resumed_targets import resumed_targets
from tests.importers.random_checkpoints import write_checkpoint

CORPUS_ROWS = [
    {"de": f"Haus {i}, grün", "en": f"House {i}, green", "fr": f"Maison {i}, « verte »", "ja": f"家{i}は緑です。"}
    for i in range(24)
]
SPLIT_ROWS = {"train": CORPUS_ROWS[:16], "dev": CORPUS_ROWS[16:20], "test": CORPUS_ROWS[20:]}
REQUESTS = [("Guten Tag", "en"), ("", "de"), ("x" * 50, "fr"), ("a\u2028b 家", "de"), ("Fin.", "fr"), ("1 2 3", "en")]

REQUEST_LINES = {
    "requests.txt": [text for text, _ in REQUESTS],
    "packed.txt.gz": [text for text, _ in REQUESTS],
    "requests.tsv": [f"{text}\t{to}" for text, to in REQUESTS],
    "requests.jsonl": [json.dumps({"text": text, "to": [to], "id": i}) for i, (text, to) in enumerate(REQUESTS)],
}
"""The lines of the request files."""


def write_originals(folder: Path, experiment: Experiment) -> None:
    """Write the input of every target into subfolders; the experiment must be prepared and trained."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(experiment.run / "config.yaml", folder / "experiment.yaml")
    shutil.copytree(experiment.data, folder / "dataset")
    shutil.copytree(experiment.run / "model", folder / "model")
    shutil.copytree(experiment.run, folder / "run")
    shutil.rmtree(folder / "run" / "model")  # an unfinished run, so that its checkpoints count
    manyglot.export(experiment.run / "model", folder / "bfloat16", export_format="manyglot")
    manyglot.export(experiment.run / "model", folder / "export", quantization="int8")
    manyglot.evaluate(experiment.run / "model", experiment.data, output=folder / "results")
    for name in ("report.html", "matrix.svg", "results.parquet"):  # no command reads them
        (folder / "results" / name).unlink(missing_ok=True)
    for target in resumed_targets(experiment):
        target.write_unfinished(folder / target.name)
    _write_settings(folder / "settings", experiment)
    _write_corpora(folder)
    _write_requests(folder / "requests")
    _write_hypotheses(folder / "hypotheses")
    write_model_and_pack(folder / "pack")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers recommends a package
        for family in ("nllb", "marian_multilingual"):
            text = [sentence for row in CORPUS_ROWS for sentence in row.values()]
            write_checkpoint(family, folder / f"import-{family}", text, size=150)


def _write_settings(folder: Path, experiment: Experiment) -> None:
    folder.mkdir()
    text = (experiment.run / "config.yaml").read_text("utf-8")
    (folder / "base.yaml").write_text(text, "utf-8")
    (folder / "experiment.yaml").write_text(
        "# An experiment that extends another\n"
        "extends: base.yaml\n"
        "seed: 7\n"
        "run: runs/küche\n"
        "training:\n  max_steps: 12\n  learning_rate: 1e-3\n"
        "batches:\n  target_weights: {qaa: 0.5, qab: 2}\n"
        "guidance:\n- method: laa\n- {method: lee}\n",
        "utf-8",
    )


def _write_corpora(folder: Path) -> None:
    for name in ("text", "compressed", "tsv", "jsonl", "parquet", "ted", "tmx", "zip"):
        (folder / f"corpus-{name}").mkdir()
    for split, rows in SPLIT_ROWS.items():
        for code in ("de", "en", "fr"):
            content = "".join(f"{row[code]}\n" for row in rows).encode()
            (folder / "corpus-text" / f"{split}.{code}").write_bytes(content)
            suffix, packed = (
                (".xz", lzma.compress(content)) if code == "fr" else (".gz", gzip.compress(content, mtime=0))
            )
            (folder / "corpus-compressed" / f"{split}.{code}{suffix}").write_bytes(packed)
        lines = [["de", "en", "ja"], *([row[code] for code in ("de", "en", "ja")] for row in rows)]
        _write_tsv(folder / "corpus-tsv" / f"{split}.tsv", lines)
        header = ["talk_name", "de", "en", "calv"]
        cells = [["t", f"__en__ {row['de']}", row["en"], "__NULL__"] for row in rows]
        _write_tsv(folder / "corpus-ted" / f"all_talks_{split}.tsv", [header, *cells])
        records = [json.dumps({"translation": row} if split == "dev" else row) for row in rows]
        (folder / "corpus-jsonl" / f"{split}.jsonl").write_text("\n".join(records) + "\n", "utf-8")
        nested = [{"id": i, "translation": row} for i, row in enumerate(rows)] if split == "dev" else rows
        options = {"compression": "none" if split == "train" else "zstd", "data_page_version": "1.0"}
        path = folder / "corpus-parquet" / f"{split}.parquet"
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(nested), path, **options)
        memory = _translation_memory(rows, "de", "en").encode()
        name = folder / "corpus-tmx" / f"{split}.de-en.tmx"
        name.with_suffix(".tmx.gz" if split == "dev" else ".tmx").write_bytes(
            gzip.compress(memory, mtime=0) if split == "dev" else memory
        )
        with zipfile.ZipFile(folder / "corpus-zip" / f"{split}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for code in ("de", "en"):
                content = "".join(f"{row[code]}\n" for row in rows)
                archive.writestr(zipfile.ZipInfo(f"text/{split}.de-en.{code}", (2020, 1, 1, 0, 0, 0)), content)


def _translation_memory(rows: list[dict[str, str]], *codes: str) -> str:
    units = [
        "".join(f'<tuv xml:lang="{code}"><seg>{row[code]}</seg></tuv>' for code in codes).join(("<tu>", "</tu>\n"))
        for row in rows
    ]
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
    return f'{head}<tmx version="1.4"><header srclang="de"/><body>\n{"".join(units)}</body></tmx>\n'


def _write_tsv(path: Path, lines: list[list[str]]) -> None:
    path.write_text("".join("\t".join(cells) + "\n" for cells in lines), "utf-8")


def _write_requests(folder: Path) -> None:
    folder.mkdir()
    for name, lines in REQUEST_LINES.items():
        content = "".join(f"{line}\n" for line in lines).encode()
        (folder / name).write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)


def _write_hypotheses(folder: Path) -> None:
    """Write the references of the test split as translations, with their sources, and scores of each format."""
    rows, outputs, scores = SPLIT_ROWS["test"], folder / "outputs", folder / "scores"
    outputs.mkdir(parents=True)
    scores.mkdir()
    english, german = ([row[code] for row in rows] for code in ("en", "de"))
    (outputs / "de-en.txt").write_text("".join(f"{line}\n" for line in english), "utf-8")
    (outputs / "de-en.src").write_text("".join(f"{line}\n" for line in german), "utf-8")
    (outputs / "en-de.hyp.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in german).encode(), mtime=0))
    records = [{"src_lang": "fra", "tgt_lang": "en", "src": row["fr"], "mt": row["en"]} for row in rows]
    (outputs / "more.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    comet = {"out/de-en.txt": [{"src": row["de"], "mt": row["en"], "COMET": 0.5} for row in rows]}
    (scores / "comet.json").write_text(json.dumps(comet), "utf-8")
    metricx = [{**record, "prediction": 1.5} for record in records]
    (scores / "metricx.jsonl").write_text("".join(json.dumps(record) + "\n" for record in metricx), "utf-8")
    (scores / "all.txt").write_text("".join(f"{i / 8}\n" for i in range(3 * len(rows))), "utf-8")
    printed = [f"out/en-de.txt\tSegment {i}\tscore: 0.{i}\n" for i in range(len(rows))]
    (scores / "printed.tsv").write_text("".join(printed), "utf-8")
