"""Targets whose files have checksums: datasets, model folders and exports. Accepted damage must change nothing."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

import manyglot
from manyglot.batches.loader import BatchLoader, DataPosition
from manyglot.batches.plan import BatchSettings
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.batches.source_lengths import measure_source_lengths
from manyglot.corpus.base import Split
from manyglot.decoding.translator import Translator, saved_decoding_settings
from manyglot.model.run_models import load_any_model
from manyglot.vocabulary.vocabulary import LanguageTags
from tests.fuzz.cases import Outcome, differing_parts
from tests.fuzz.folder_mutations import mutate_folder
from tests.fuzz.forging import forge_seals

MAX_BATCHES = 40
TEXTS = ["ba ce di", "fo gu", "", "a b c d e f g"]


def digest(*values: Any) -> str:
    """Hash values by their text, and tensors and arrays by their content."""
    sha = hashlib.sha256()
    for value in values:
        if isinstance(value, torch.Tensor):
            value = value.detach().contiguous().numpy()
        if isinstance(value, np.ndarray):
            sha.update(f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
        else:
            sha.update(repr(value).encode("utf-8", "surrogatepass"))
    return sha.hexdigest()[:16]


@dataclass(frozen=True)
class DatasetTarget:
    """A prepared dataset: its batches, text, languages and subwords."""

    name: str = "dataset"
    forged: bool = False
    """Whether checksums are renewed after the damage, as a stranger would do. Then other outcomes are no failures."""

    def mutate(self, folder: Path, rng: random.Random) -> str:
        """Damage one or two files."""
        return mutate_folder(folder, rng, forge=self.forged)

    def use(self, folder: Path) -> Outcome:
        """Load batches of train and dev, read the text, then verify the checksums as training does."""
        dataset = PreparedDataset(folder)
        dataset.check_provenance(dataset.metadata["provenance"])
        try:
            outcome = _read_dataset(dataset)
        except Exception:
            dataset.verify()  # training reports the damaged file, whatever the damage has led to
            raise
        dataset.verify()
        return outcome

    def explain(self, folder: Path, description: str, undamaged: Outcome, outcome: Outcome) -> str:
        """Any difference is wrong; the digest, which resuming compares, may differ."""
        changed = [name for name in differing_parts(undamaged, outcome) if name != "digest"]
        return f"other {', '.join(changed)}" if changed and not self.forged else ""


def _read_dataset(dataset: PreparedDataset) -> Outcome:
    """Read everything that training and evaluation read."""
    tags = [LanguageTags((dataset.vocabulary.tag_id(i),)) for i in range(len(dataset.languages))]
    directions = dataset.train_directions
    outcome: dict[str, Any] = {
        "languages": (list(dataset.languages), dataset.central_language, directions),
        "subwords": dataset.vocabulary.decode(dataset.vocabulary.encode(TEXTS)),
        "source lengths": measure_source_lengths(dataset, {d.source for d in directions}).model_dump(),
        "rows": digest(dataset.rows(Split.TEST)),
        "text": digest([list(dataset.sentences(Split.TRAIN, code)) for code in dataset.languages]),
        "digest": dataset.digest(),
    }
    for split in (Split.TRAIN, Split.DEV):
        loader = BatchLoader(dataset.token_store(split), directions, BatchSettings(max_tokens=300), tags, seed=1)
        outcome[f"{split} batches"] = digest(*_batch_tensors(loader))
    return outcome


def _batch_tensors(loader: BatchLoader) -> Iterator[Any]:
    for planned, position in islice(loader.iter_planned_batches(DataPosition()), MAX_BATCHES):
        batch = planned.load()
        yield from (value for value in vars(batch).values() if isinstance(value, torch.Tensor))
        if position.epoch > 0:
            return


@dataclass(frozen=True)
class ModelTarget:
    """A model folder: its weights, languages and translations. Its decoding settings may be edited by hand."""

    name: str = "model"
    forged: bool = False

    def mutate(self, folder: Path, rng: random.Random) -> str:
        """Damage one or two files."""
        return mutate_folder(folder, rng, forge=self.forged)

    def use(self, folder: Path) -> Outcome:
        """Load the model and translate."""
        trained = load_any_model(folder)
        settings = saved_decoding_settings(trained)
        bounded = settings.model_copy(update={"beam_size": min(settings.beam_size, 5), "max_length": 20})
        translator = Translator.from_trained_model(trained, bounded, torch.device("cpu"), fold_guidance=True)
        translator = translator.with_text_options(warn=False)
        to = next(iter(trained.vocabulary.languages))
        return {
            "weights": digest(*trained.model.state_dict().values()),
            "finite": all(bool(p.isfinite().all()) for p in trained.model.parameters()),
            "function": (repr(trained.config["model"]), repr(trained.config["guidance"])),
            "languages": (list(trained.vocabulary.languages), trained.trained_directions),
            "training": (dict(trained.training_info), trained.source_lengths.model_dump()),
            "decoding": settings.model_dump(),
            "translations": translator.translate(TEXTS, to),
        }

    def explain(self, folder: Path, description: str, undamaged: Outcome, outcome: Outcome) -> str:
        """Only decoding settings, and what follows from them, may differ."""
        if not outcome["finite"]:
            return "weights that are not finite"
        changed = differing_parts(undamaged, outcome)
        if "decoding" in changed and "config.yaml" in description:
            changed = [name for name in changed if name not in ("decoding", "translations")]
        return f"other {', '.join(changed)}" if changed and not self.forged else ""


@dataclass(frozen=True)
class ExportTarget:
    """An export for CTranslate2: its languages and translations."""

    name: str = "export"
    forged: bool = False

    def mutate(self, folder: Path, rng: random.Random) -> str:
        """Damage one or two files; most damage goes to the variables of the weights, not to the position table."""
        if self.forged and rng.random() < 0.2:
            weights, spans = folder / "model.bin", list(iter_float_variables(folder / "model.bin"))
            name, start, stop = rng.choice(spans)
            content, value = bytearray(weights.read_bytes()), rng.choice((float("nan"), float("inf")))
            struct.pack_into("<f", content, rng.randrange(start, stop, 4), value)
            original = weights.read_bytes()
            weights.write_bytes(content)
            forge_seals(folder, {weights: original})
            return f"set a weight of {name} to {value}; forge the seals"
        return mutate_folder(folder, rng, forge=self.forged)

    def use(self, folder: Path) -> Outcome:
        """Load the export and translate."""
        translator = manyglot.load(folder, device="cpu", engine="ctranslate2")
        defaults = translator.settings.model_dump()
        translator = translator.with_settings(beam_size=min(translator.settings.beam_size, 5), max_length=20)
        translator = translator.with_text_options(warn=False)
        return {
            "languages": (list(translator.languages), list(translator.engine.languages)),
            "decoding": defaults,
            "translations": translator.translate(TEXTS, next(iter(translator.languages))),
        }

    def explain(self, folder: Path, description: str, undamaged: Outcome, outcome: Outcome) -> str:
        """Only decoding settings, and what follows from them, may differ; weights must be finite."""
        if "set a weight of" in description:
            return "weights that are not finite"
        changed = differing_parts(undamaged, outcome)
        if "decoding" in changed and "manyglot.json" in description:
            changed = [name for name in changed if name not in ("decoding", "translations")]
        return f"other {', '.join(changed)}" if changed and not self.forged else ""


def iter_float_variables(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield the name, the begin and the end of each float32 variable in a model.bin of CTranslate2."""
    content, place = path.read_bytes(), 4

    def unpack(code: str) -> Any:
        nonlocal place
        values = struct.unpack_from(f"<{code}", content, place)
        place += struct.calcsize(f"<{code}")
        return values[0] if len(values) == 1 else values

    def string() -> str:
        nonlocal place
        size = unpack("H")
        place += size
        return content[place - size : place - 1].decode()

    string()
    unpack("I")
    for _ in range(unpack("I")):
        name, rank = string(), unpack("B")
        unpack(f"{rank}I") if rank else None
        kind, size = unpack("B"), unpack("I")
        if kind == 0 and size >= 4:
            yield name, place, place + size
        place += size
