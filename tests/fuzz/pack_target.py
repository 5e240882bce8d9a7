"""A language pack beside its model. Damage to the pack is refused, or changes nothing."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import torch

from manyglot.decoding.translator import Translator, saved_decoding_settings
from manyglot.model.guidance import parse_method_settings
from manyglot.model.language_pack import load_with_packs
from tests.fuzz.cases import Outcome, differing_parts
from tests.fuzz.folder_mutations import mutate_folder
from tests.fuzz.sealed_targets import digest
from tests.model.random_packs import TEXT, save_random_model, save_random_pack

MODEL_NAME, PACK_FOLDER_NAME = "model", "sw.pack"


def write_model_and_pack(folder: Path) -> None:
    """Write a random model and a language pack for it."""
    folder.mkdir()
    model = save_random_model(folder / MODEL_NAME, [parse_method_settings({"method": "adapter"})], output_bias=True)
    save_random_pack(folder / PACK_FOLDER_NAME, model, "sw")


@dataclass(frozen=True)
class PackTarget:
    """A language pack: its weights, languages and translations."""

    name: str = "pack"
    forged: bool = False

    def mutate(self, folder: Path, rng: random.Random) -> str:
        """Damage one or two files of the pack."""
        return mutate_folder(folder / PACK_FOLDER_NAME, rng, forge=self.forged)

    def use(self, folder: Path) -> Outcome:
        """Load the model with the pack, and translate from and into its language."""
        trained = load_with_packs(folder / MODEL_NAME, [folder / PACK_FOLDER_NAME])
        settings = saved_decoding_settings(trained)
        translator = Translator.from_trained_model(trained, settings, torch.device("cpu")).with_text_options(warn=False)
        added = trained.vocabulary.languages.codes[-1]
        return {
            "weights": digest(*trained.model.state_dict().values()),
            "finite": all(bool(p.isfinite().all()) for p in trained.model.parameters()),
            "languages": (list(trained.vocabulary.languages), trained.trained_directions),
            "into": translator.translate(TEXT["de"], added, source="de"),
            "from": translator.translate(TEXT["sw"], "de", source=added),
            "old": translator.translate(TEXT["de"], "en", source="de"),
        }

    def explain(self, folder: Path, description: str, undamaged: Outcome, outcome: Outcome) -> str:
        """Weights are finite, and not even a forged pack changes old directions."""
        if not outcome["finite"]:
            return "weights that are not finite"
        changed = differing_parts(undamaged, outcome)
        if self.forged:
            return "other old directions" if "old" in changed else ""
        return f"other {', '.join(changed)}" if changed else ""
