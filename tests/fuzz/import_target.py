"""Checkpoints of transformers. They have no checksums, so damage may change an imported model, but never break it."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch

import manyglot
from manyglot.decoding.translator import Translator, saved_decoding_settings
from manyglot.model.run_models import load_any_model
from tests.fuzz.cases import Outcome
from tests.fuzz.folder_mutations import mutate_folder

TEXTS = ["Der Zug fährt ab.", "", "Wo ist das Buch?"]


@dataclass(frozen=True)
class ImportTarget:
    """A checkpoint of one family: it is imported, and the model translates."""

    family: str

    @property
    def name(self) -> str:
        """The name of the target."""
        return f"import-{self.family}"

    def mutate(self, folder: Path, rng: random.Random) -> str:
        """Damage one or two files."""
        return mutate_folder(folder, rng)

    def use(self, folder: Path) -> Outcome:
        """Import the checkpoint, load the model and translate."""
        output = folder.with_name(f"{folder.name}-imported")
        shutil.rmtree(output, ignore_errors=True)
        trained = load_any_model(manyglot.import_model(folder, output))
        settings = saved_decoding_settings(trained)
        bounded = settings.model_copy(update={"beam_size": min(settings.beam_size, 5), "max_length": 20})
        translator = Translator.from_trained_model(trained, bounded, torch.device("cpu"))
        translator = translator.with_text_options(warn=False, split="never")
        source, target = trained.trained_directions[0]
        return {
            "finite": all(bool(p.isfinite().all()) for p in trained.model.parameters()),
            "translations": translator.translate(TEXTS, target, source=source),
        }

    def explain(self, folder: Path, description: str, undamaged: Outcome, outcome: Outcome) -> str:
        """Weights must be finite."""
        return "" if outcome["finite"] else "weights that are not finite"
