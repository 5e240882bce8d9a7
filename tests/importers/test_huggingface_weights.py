"""Tiny random models of transformers give the same logits after their weights are converted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from manyglot.decoding.beam_search import BeamSearch
from manyglot.decoding.search_batch import SearchBatch
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import FolderError
from manyglot.importers.huggingface_weights import convert_weights
from manyglot.model.cached_executor import CachedDecoderExecutor, encode_sources
from manyglot.model.guidance import parse_method_settings
from manyglot.model.guidance.base import MethodSettings
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import EOS, PAD, UNK
from tests.conftest import NUM_LANGUAGES

transformers = pytest.importorskip("transformers")

NUM_SYMBOLS = 43
PAD_OF_FAMILY, EOS_OF_FAMILY = (
    {"M2M100": 1, "MBart": 1, "Marian": NUM_SYMBOLS - 1},
    {"M2M100": 2, "MBart": 2, "Marian": 0},
)
CASES: list[tuple[str, dict[str, Any]]] = [
    ("M2M100", {"activation_function": "relu"}),
    ("M2M100", {"activation_function": "gelu", "scale_embedding": False}),
    ("MBart", {"activation_function": "gelu", "scale_embedding": True}),
    ("MBart", {"activation_function": "relu"}),
    ("Marian", {"activation_function": "swish", "scale_embedding": True}),
    ("Marian", {"activation_function": "relu", "scale_embedding": False}),
]


def random_model(family: str, **values: Any) -> Any:
    """Make a tiny random model in float64, all of whose parameters are random."""
    torch.manual_seed(0)
    pad, eos = PAD_OF_FAMILY[family], EOS_OF_FAMILY[family]
    config = getattr(transformers, f"{family}Config")(
        vocab_size=NUM_SYMBOLS, d_model=16, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=130,
        pad_token_id=pad, eos_token_id=eos, decoder_start_token_id=pad if family == "Marian" else eos, **values,
    )  # fmt: skip
    name = "MarianMTModel" if family == "Marian" else f"{family}ForConditionalGeneration"
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
        if family == "Marian":
            model.final_logits_bias.normal_()
    return model


def row_order(family: str) -> Tensor:
    """The old ids in the order of the new ones: padding, end symbol, and the others in a random order."""
    first = [PAD_OF_FAMILY[family], EOS_OF_FAMILY[family]]
    others = [i for i in range(NUM_SYMBOLS) if i not in first]
    return torch.tensor(
        first + [others[i] for i in torch.randperm(len(others), generator=torch.Generator().manual_seed(1))]
    )


def convert(model: Any, family: str, guidance: Sequence[MethodSettings] = ()) -> Transformer:
    converted = convert_weights(model.state_dict(), model.config.to_dict(), row_order(family))
    ours = Transformer(converted.settings, guidance, NUM_SYMBOLS - NUM_LANGUAGES, NUM_LANGUAGES)
    ours.load_state_dict(converted.weights)
    return ours.eval().to(model.dtype)


def random_ids(size: int, length: int, seed: int) -> Tensor:
    """Return ids of our vocabulary, with padding at the end of some rows."""
    rng = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, NUM_SYMBOLS, (size, length), generator=rng)
    keep = torch.randint(2, length + 1, (size,), generator=rng)
    keep[0] = length
    return ids.masked_fill(torch.arange(length) >= keep[:, None], 0)


def favor_end_symbol(model: Any, family: str, logit: float = 5.0) -> None:
    """Change a model so that most outputs end by themselves."""
    eos = EOS_OF_FAMILY[family]
    with torch.no_grad():
        if family == "Marian":
            model.final_logits_bias[0, eos] += logit
        else:
            row = model.model.shared.weight[eos]
            model.model.decoder.layer_norm.bias += logit * row / row.square().sum()


def use_exact_sinusoids(theirs: Any, ours: Transformer) -> None:
    """Replace the sinusoids that M2M100 computes in float32 by ours, which must be nearly equal."""
    for stack in (theirs.model.encoder, theirs.model.decoder):
        if hasattr(stack.embed_positions, "weights"):
            offset, table = stack.embed_positions.offset, stack.embed_positions.weights
            rounded = ours.decoder_embedding.position_table(64)[: len(table) - offset]
            torch.testing.assert_close(table[offset : offset + len(rounded)].to(rounded), rounded, rtol=0, atol=1e-4)
            table[offset : offset + len(rounded)] = rounded


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(("family", "values"), CASES, ids=lambda value: value if isinstance(value, str) else None)
def test_logits_equal_those_of_transformers(family: str, values: dict[str, Any], dtype: torch.dtype) -> None:
    theirs = random_model(family, **values)
    ours = convert(theirs, family).to(dtype)
    theirs = theirs.to(dtype)
    use_exact_sinusoids(theirs, ours)
    order, source, start = row_order(family), random_ids(4, 9, seed=2), ours.tags_by_language()[0].start
    target = torch.cat([torch.full((4, 1), start), random_ids(4, 7, seed=3).clamp_min(2)], dim=1)
    with torch.inference_mode():
        expected = theirs(
            input_ids=order[source], attention_mask=(source != 0).long(), decoder_input_ids=order[target]
        ).logits[..., order]
        lang = torch.zeros(4, dtype=torch.long)
        together = ours.logits(ours(source, target, lang).decoded)
        languages = ours.prepare_target_languages(lang)
        decoder = CachedDecoderExecutor(ours, languages, encode_sources(ours, source, languages))
        one_by_one = torch.cat([ours.logits(ours.decode(ids, decoder)) for ids in target.split(1, dim=1)], dim=1)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-10
    for logits in (together, one_by_one):
        torch.testing.assert_close(logits, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("family", "values"), CASES[::2], ids=lambda value: value if isinstance(value, str) else None)
def test_beam_search_equals_that_of_transformers(family: str, values: dict[str, Any]) -> None:
    """A forced tag scores nothing and counts in the length. At the maximum length, transformers has other scores."""
    theirs = random_model(family, **values).double()
    favor_end_symbol(theirs, family)
    guidance = [] if family == "Marian" else [parse_method_settings({"method": "token", "side": "target"})]
    ours = convert(theirs, family, guidance)
    use_exact_sinusoids(theirs, ours)
    order, source, language = row_order(family), random_ids(12, 9, seed=4), 1
    tags = ours.tags_by_language()[language]
    max_length, settings = 60, DecodingSettings(beam_size=3, max_length=60, max_length_factor=100)
    forbidden = {PAD, UNK, *range(ours.dimensions.first_tag_id, NUM_SYMBOLS)} - {*tags.target}
    with torch.inference_mode():
        generated = theirs.generate(
            input_ids=order[source], attention_mask=(source != PAD).long(), num_beams=3, early_stopping=True,
            length_penalty=settings.length_penalty, max_length=max_length + len(tags.target) + 2,
            forced_bos_token_id=int(order[tags.target[0]]) if tags.target else None,
            forced_eos_token_id=int(order[EOS]), suppress_tokens=order[[*forbidden]].tolist(),
            output_scores=True, return_dict_in_generate=True, do_sample=False,
        )  # fmt: skip
    results = BeamSearch(ours, settings).search(SearchBatch(source, [language] * len(source)))
    our_ids, num_compared = torch.argsort(order), 0
    for row, (hypotheses, sequence) in enumerate(zip(results, generated.sequences, strict=True)):
        ids = our_ids[sequence].tolist()[1 + len(tags.target) :]
        if all(len(each.ids) < max_length for each in hypotheses):
            num_compared += 1
            assert hypotheses[0].ids == tuple(ids[: ids.index(EOS)])
            assert hypotheses[0].score == pytest.approx(float(generated.sequences_scores[row]), abs=1e-5)
    assert num_compared >= 9


def test_what_cannot_be_converted_is_an_error() -> None:
    model = random_model("MBart")
    state, config, order = model.state_dict(), model.config.to_dict(), row_order("MBart")
    with pytest.raises(
        FolderError, match=r"^config.json: model_type 't5' is not supported. Supported types: m2m_100, mbart"
    ):
        convert_weights(state, config | {"model_type": "t5"}, order)
    with pytest.raises(FolderError, match="activation_function 'tanh' is not supported"):
        convert_weights(state, config | {"activation_function": "tanh"}, order)
    with pytest.raises(FolderError, match="encoder_ffn_dim and decoder_ffn_dim differ"):
        convert_weights(state, config | {"encoder_ffn_dim": 3}, order)
    with pytest.raises(FolderError, match=r"config.json lacks d_model"):
        convert_weights(state, {name: value for name, value in config.items() if name != "d_model"}, order)
    with pytest.raises(FolderError, match="42 symbols, but the weights have 43"):
        convert_weights(state, config, order[:-1])
    with pytest.raises(FolderError, match=r"have model.decoder.layers.2.encoder_attn.k_proj.bias, which config"):
        convert_weights(state, config | {"decoder_layers": 2}, order)
    with pytest.raises(FolderError, match=r"lack model.encoder.layers.2"):
        convert_weights(state, config | {"encoder_layers": 3}, order)
    with pytest.raises(FolderError, match="different embeddings"):
        convert_weights(state | {"lm_head.weight": state["lm_head.weight"] + 1}, config, order)
