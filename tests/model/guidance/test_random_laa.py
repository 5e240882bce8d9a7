"""LAA^R samples a language for each sentence and forward pass, reproducibly."""

from __future__ import annotations

import torch

from manyglot.model.guidance import parse_method_settings
from tests.conftest import NUM_LANGUAGES, random_batch, tiny_model
from tests.model.guidance.combinations import COMBINATIONS

SETTINGS = COMBINATIONS["LAA^R + Token_src"]


def test_every_forward_pass_samples_languages_and_a_seed_repeats_them() -> None:
    model = tiny_model(SETTINGS)
    batch = random_batch(model, size=20)

    def run(seed: int | None = None) -> torch.Tensor:
        if seed is not None:
            torch.manual_seed(seed)
        result: torch.Tensor = model(batch.source_BS, batch.input_BT, batch.lang_B).decoded
        return result

    first, second = run(1), run()
    assert not torch.equal(first, second)
    assert torch.equal(run(1), first)


def test_random_languages_are_uniform() -> None:
    model = tiny_model(SETTINGS)
    torch.manual_seed(0)
    target_languages = model.prepare_target_languages(torch.zeros(6000, dtype=torch.long))
    assert target_languages.random_groups is not None
    counts = target_languages.random_groups.lang_B.bincount(minlength=NUM_LANGUAGES)
    assert counts.min() > 1850
    assert counts.max() < 2150


def test_other_methods_consume_no_random_numbers() -> None:
    """With the same seed, dropout is the same for all other methods."""
    model = tiny_model([parse_method_settings({"method": "laa", "init_gain": 1.0})])
    before = torch.random.get_rng_state()
    assert model.prepare_target_languages(torch.tensor([0, 1])).random_groups is None
    assert torch.equal(torch.random.get_rng_state(), before)


def test_random_laa_has_the_parameters_of_laa() -> None:
    laa, random_laa = tiny_model([parse_method_settings({"method": "laa", "init_gain": 1.0})]), tiny_model(SETTINGS)
    assert laa.num_parameters_by_part()["guidance.laa"] == random_laa.num_parameters_by_part()["guidance.random_laa"]
    assert "random_laa" not in random_laa.language_representations()
