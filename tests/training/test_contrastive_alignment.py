"""The contrastive alignment loss against a naive implementation, and its use in training."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import manyglot
from manyglot.batches.batch import Batch, collate
from manyglot.batches.unpadded import AlignedTargetSelection
from manyglot.errors import SettingsError
from manyglot.model.guidance import parse_method_settings
from manyglot.model.kernels.attention_tiles import LONG_TILE
from manyglot.model.packed_executor import packed_forward
from manyglot.model.packing import pack_batch
from manyglot.model.transformer import Transformer
from manyglot.training.contrastive_alignment import (
    TEMPERATURE,
    ContrastiveAlignmentSettings,
    explain_disabled_alignment,
    make_aligned_target_selection,
    mean_contrastive_alignment_loss,
    resolve_alignment,
)
from manyglot.training.step import CudaGraphStep, EagerStep
from manyglot.training.training_log import read_log
from manyglot.vocabulary.subword_model import EOS, PAD
from tests.conftest import packed_loss, random_batch, tiny_experiment, tiny_model
from tests.model.guidance.combinations import COMBINATIONS, with_slow_low_rank

QUIET = {name: methods for name, methods in COMBINATIONS.items() if not tiny_model(methods).guidance.affects_encoder}
"""Combinations that do not inform the encoder."""


def read_alone(model: Transformer, sentence: list[int], language: int) -> Tensor:
    """Return the mean encoder state of a sentence encoded alone."""
    *words, end = sentence
    assert end == EOS
    alone = pack_batch(collate([words], [[5]], [0], model.tags_by_language(), [language]))
    return packed_forward(model, alone, torch.tensor([0])).encoded[:, 0].mean(dim=0)


def naive_loss(model: Transformer, batch: Batch, every: int, temperature: float) -> Tensor:
    """Compute the loss sentence by sentence."""
    order = batch.lang_B.argsort(stable=True).tolist()[::every]
    tags = model.tags_by_language()[0]
    source_languages = batch.source_BS[:, 0] - model.dimensions.first_tag_id  # if there is a source tag
    sides = []
    for rows_BT, first, languages in (
        (batch.source_BS, tags.num_source_tags, source_languages),
        (batch.label_BT, len(tags.target), batch.lang_B),
    ):
        sentences = [[i for i in rows_BT[row].tolist()[first:] if i != PAD] for row in order]
        sides.append([read_alone(model, s, int(languages[row])) for s, row in zip(sentences, order, strict=True)])
    cosine = torch.stack([torch.stack([F.cosine_similarity(a, b, dim=0) for b in sides[1]]) for a in sides[0]])
    own = torch.arange(len(order))
    there, back = (F.cross_entropy(scores / temperature, own) for scores in (cosine, cosine.T))
    return (there + back) / 2


@pytest.mark.parametrize("name", with_slow_low_rank(QUIET))
@pytest.mark.parametrize(
    ("every", "multiple", "norm", "source_tag"),
    [(1, 1, "post", False), (3, 1, "pre", True), (2, 16, "pre", True), (1, 64, "post", False)],
)
def test_the_packed_loss_equals_the_naive_loss(
    name: str, every: int, multiple: int, norm: str, source_tag: bool
) -> None:
    """Including gradients; neither padding nor the aligned targets affect the decoder."""
    model = tiny_model(QUIET[name], norm=norm, source_tag=source_tag)
    batch = random_batch(model, size=9)
    settings = ContrastiveAlignmentSettings(every_nth_pair=every)
    packed = pack_batch(batch, multiple, make_aligned_target_selection(model, settings))
    random_lang_B = torch.zeros_like(packed.lang_B)
    encoded_MD, hidden_ND = (states_N1D[:, 0] for states_N1D in packed_forward(model, packed, random_lang_B))
    got, expected = mean_contrastive_alignment_loss(encoded_MD, packed, 0.5), naive_loss(model, batch, every, 0.5)
    torch.testing.assert_close(got, expected)
    used = [parameter for part in (model.embedding, model.encoder) for parameter in part.parameters()]
    torch.testing.assert_close(torch.autograd.grad(got, used, retain_graph=True), torch.autograd.grad(expected, used))
    plain = pack_batch(batch)
    plain_ND = packed_forward(model, plain, torch.zeros_like(plain.lang_B)).decoded[:, 0]
    torch.testing.assert_close(hidden_ND[packed.label_N != PAD], plain_ND[plain.label_N != PAD])


def test_padded_batches_of_similar_size_have_few_shapes() -> None:
    model = tiny_model(COMBINATIONS["adapter"])
    batches = (random_batch(model, size=20, seed=seed) for seed in range(8))
    shapes = {pack_batch(batch, 128, AlignedTargetSelection(2, 0)).shape for batch in batches}
    assert len(shapes) <= 3
    assert all(min(shape.lengths) > 0 for shape in shapes)


def test_the_part_of_long_sentences_has_no_alignment_loss() -> None:
    """Long sentences are split off as on a GPU."""
    model, settings = tiny_model(COMBINATIONS["adapter"]), ContrastiveAlignmentSettings(every_nth_pair=1)
    step = CudaGraphStep(model, 0.1, torch.device("cpu"), "float32", settings)
    words = [[5 + n % 7] * n for n in (3, LONG_TILE + 20, 9)]
    batch = collate(words, words, [2, 1, 0], model.tags_by_language())
    fitting, long = step.pack(batch)
    assert (len(fitting.aligned_source_K) > 0, len(long.aligned_source_K)) == (True, 0)
    losses = [packed_loss(model, part, 0.1, settings).contrastive_alignment for part in (fitting, long)]
    assert losses[0] > 0
    assert losses[1] == 0


def test_a_step_adds_the_gradients_of_the_alignment_loss() -> None:
    model = tiny_model(COMBINATIONS["adapter"])
    batch, settings = random_batch(model, size=9), ContrastiveAlignmentSettings(every_nth_pair=2, weight=3.0)
    step = EagerStep(model, 0.1, torch.device("cpu"), "float32", settings)
    (packed,) = step.pack(batch)
    losses = step(packed, 0.5)
    got = model.encoder[0].ffn.inner.weight.grad
    loss = packed_loss(model, packed, 0.1, settings)
    mean = naive_loss(model, batch, 2, TEMPERATURE)
    torch.testing.assert_close(loss.contrastive_alignment, mean * batch.num_target_tokens)
    torch.testing.assert_close(losses[[0, -1]], torch.stack([loss.label_smoothed, loss.contrastive_alignment]))
    total = 0.5 * (packed_loss(model, pack_batch(batch), 0.1).label_smoothed + 3 * mean * batch.num_target_tokens)
    (expected,) = torch.autograd.grad(total, [model.encoder[0].ffn.inner.weight])
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("methods", [[{"method": "token"}], [{"method": "adapter"}, {"method": "lee", "sites": [2]}]])
def test_guidance_of_the_encoder_is_refused(methods: list[dict[str, object]]) -> None:
    model = tiny_model([parse_method_settings(each) for each in methods])
    with pytest.raises(SettingsError, match=r"training.alignment: .* but (token|lee) informs it. Use guidance of"):
        make_aligned_target_selection(model, ContrastiveAlignmentSettings())


def test_a_refused_run_writes_nothing(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path, training={"alignment": {}})
    manyglot.prepare(experiment)
    with pytest.raises(SettingsError, match="but token informs it"):
        manyglot.train(experiment)
    assert not experiment.run.exists()


def test_too_few_aligned_pairs_are_refused(tmp_path: Path) -> None:
    """Before the run starts. The loss of a single pair is zero, which would look perfect."""
    alignment = {"every_nth_pair": 1000}
    experiment = tiny_experiment(tmp_path, guidance=[{"method": "adapter"}], training={"alignment": alignment})
    manyglot.prepare(experiment)
    with pytest.raises(
        SettingsError, match=r"every_nth_pair: 1000 selects fewer than 2 of the \d+ .* raise batches.max_"
    ):
        manyglot.train(experiment)
    assert not experiment.run.exists()


def test_training_lowers_the_alignment_loss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log has the alignment loss, and a high weight lowers it."""
    ends = []
    for weight in (1e-9, 1.0):
        alignment = {"every_nth_pair": 1, "weight": weight}
        training = {"alignment": alignment, "max_steps": 60, "warmup_steps": 5, "learning_rate": 0.01, "log_every": 20}
        experiment = tiny_experiment(
            tmp_path, guidance=[{"method": "adapter"}], training=training, run=tmp_path / f"{weight}"
        )
        manyglot.prepare(experiment)
        manyglot.train(experiment)
        aligned = [line["alignment"] for line in read_log(experiment.run / "log.jsonl") if "loss" in line]
        assert len(aligned) == 3
        ends.append(aligned[-1])
    assert ends[1] < 0.8 * ends[0]
    match = re.search(
        r"alignment uses about (\d+) of the (\d+) sentence pairs of a batch, with weight 1\.", capsys.readouterr().err
    )
    assert match is not None
    assert match[1] == match[2] != "0", "every pair"


@pytest.mark.parametrize(
    ("guidance", "pairs_per_batch", "has_zero_shot_directions", "is_enabled"),
    [("laa", 32, True, True), ("laa", 31, True, False), ("laa", 32, False, False), ("token", 32, True, False)],
)
def test_auto_aligns_where_it_can_help(
    guidance: str, pairs_per_batch: float, has_zero_shot_directions: bool, is_enabled: bool
) -> None:
    model = tiny_model(COMBINATIONS[guidance])
    own = ContrastiveAlignmentSettings(weight=0.5)
    for setting, expected in (
        (own, own),
        (None, None),
        ("auto", ContrastiveAlignmentSettings() if is_enabled else None),
    ):
        resolved = resolve_alignment(
            setting,  # type: ignore[arg-type]
            model,
            pairs_per_batch,
            has_zero_shot_directions=has_zero_shot_directions,
        )
        assert resolved == expected


def test_a_disabled_alignment_is_explained() -> None:
    few = explain_disabled_alignment(tiny_model(COMBINATIONS["laa"]), 29.4)
    assert "a batch has 29 sentence pairs on average, and alignment needs 32. Raise batches.max_tokens" in few
    assert "token tells the encoder the target language." in explain_disabled_alignment(
        tiny_model(COMBINATIONS["token"]), 500
    )
