"""All executors compute the variants of the Transformer as the padded one does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from manyglot.batches.batch import Batch
from manyglot.corpus.languages import Languages
from manyglot.decoding.beam_search import BeamSearch
from manyglot.decoding.continuous_beam_search import ContinuousBeamSearch
from manyglot.decoding.engine import ScoringRequest, SearchRequest
from manyglot.decoding.native_engine import NativeEngine
from manyglot.decoding.search_batch import SearchBatch
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import LanguageError, ManyglotError, SettingsError
from manyglot.model.folding import fold_guidance
from manyglot.model.guidance import parse_method_settings
from manyglot.model.hook_probe import FoldingError
from manyglot.model.packing import pack_batch, split_by_tile_fit
from manyglot.model.positions import check_max_positions
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.model.weights_file import check_header_matches_model, load_weights, read_weights_header, save_tensors
from manyglot.training.step import CudaGraphStep, EagerStep
from manyglot.vocabulary.subword_model import EOS, PAD
from tests.conftest import NUM_LANGUAGES, NUM_SUBWORDS, packed_loss, random_batch, tiny_model
from tests.decoding.plain_beam import plain_beam
from tests.model.guidance.combinations import COMBINATIONS
from tests.model.variants import VARIANTS

GUIDANCE = [
    "LAA + Token_tgt",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("Token_tgt", "LAA_dec.self,cros + LEE_4,5")),
]
LANGUAGES = Languages(["de", "en", "fr"])


def make(variant: str, guidance: str = "LAA + Token_tgt") -> Transformer:
    return tiny_model(COMBINATIONS[guidance], **{"norm": "post", **VARIANTS[variant]})


def test_the_variants_cover_all_settings() -> None:
    shared = {"width", "ffn_width", "num_heads", "num_encoder_layers", "num_decoder_layers", "dropout"}
    assert {name for values in VARIANTS.values() for name in values} == ModelSettings.model_fields.keys() - shared


@pytest.mark.parametrize("multiple", [1, 8])
@pytest.mark.parametrize("variant", VARIANTS)
def test_packed_training_equals_padded_training(variant: str, multiple: int) -> None:
    model = make(variant)
    batch = random_batch(model, size=7)
    logits = model.logits(model(batch.source_BS, batch.input_BT, batch.lang_B).decoded)
    log_probs, is_scored = logits.log_softmax(dim=-1), batch.label_BT != PAD
    nll = -log_probs.gather(2, batch.label_BT[..., None])[..., 0][is_scored].sum()
    expected = 0.9 * nll - 0.1 * log_probs.mean(dim=-1)[is_scored].sum()
    gradients = torch.autograd.grad(expected, list(model.parameters()))
    loss = packed_loss(model, pack_batch(batch, multiple), 0.1)
    torch.testing.assert_close(loss.objective, expected)
    torch.testing.assert_close(loss.nll_L.sum(), nll.detach())
    for ours, theirs in zip(torch.autograd.grad(loss.objective, list(model.parameters())), gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("guidance", GUIDANCE)
@pytest.mark.parametrize("variant", VARIANTS)
def test_all_searches_find_the_same(variant: str, guidance: str) -> None:
    model, settings = make(variant, guidance), DecodingSettings(beam_size=3, max_length=7, length_penalty=0.7)
    batch = random_batch(model)
    languages = batch.lang_B.tolist()
    cached = BeamSearch(model, settings).search(SearchBatch(batch.source_BS, languages))
    continuous = ContinuousBeamSearch(model, settings).search(SearchBatch(batch.source_BS, languages))
    for source_S, language, *both in zip(batch.source_BS, languages, cached, continuous, strict=True):
        expected = plain_beam(model, source_S[source_S != PAD], language, settings)
        for got in both:
            assert [h.ids for h in got] == [h.ids for h in expected]
            assert [h.score for h in got] == pytest.approx([h.score for h in expected])


@pytest.mark.parametrize("variant", ["M2M100", "Marian"])
def test_bfloat16_keeps_the_scores_of_the_search(variant: str) -> None:
    engine = NativeEngine(make(variant).float(), LANGUAGES, DecodingSettings(), torch.device("cpu"))
    sources, settings = [[5, 9, 7], [8], [9, 9]], DecodingSettings(beam_size=2, max_length=9, precision="bfloat16")
    best = [each[0] for each in engine.search(SearchRequest(sources, [1] * 3, settings, source_language_ids=[0] * 3))]
    translations = [h.ids for h in best]
    scores = engine.score(ScoringRequest(sources, translations, [1] * 3, settings, source_language_ids=[0] * 3))
    assert [each.score for each in scores] == pytest.approx([h.score for h in best], abs=0.05)


def test_a_source_tag_is_needed_and_has_an_effect() -> None:
    engine = NativeEngine(make("MBart", "Token_tgt"), LANGUAGES, DecodingSettings(), torch.device("cpu"))
    settings, sources = DecodingSettings(beam_size=2, max_length=7), [[5, 9], [5, 9], [], [5, 9]]
    with pytest.raises(LanguageError, match=r"reads the source language of each text. Name it with --from"):
        engine.search(SearchRequest(sources, [1] * 4, settings, source_language_ids=[0, 2, None, None]))
    with pytest.raises(LanguageError, match="reads the source language of each text"):
        engine.score(ScoringRequest(sources, sources, [1] * 4, settings))
    request = SearchRequest(sources, [1] * 4, settings, source_language_ids=[0, 2, None, 0])
    german, french, _, again = engine.search(request)
    first_tag = engine.model.dimensions.first_tag_id
    for hypotheses, tag in ((german, first_tag), (french, first_tag + 2)):
        expected = plain_beam(engine.model, torch.tensor([tag, 5, 9, EOS]), 1, settings)
        assert [h.ids for h in hypotheses] == [h.ids for h in expected]
    assert [h.ids for h in german] == [h.ids for h in again]
    assert [h.score for h in german] != [h.score for h in french]
    translations = [german[0].ids, french[0].ids, (), german[0].ids]
    scores = engine.score(ScoringRequest(sources, translations, [1] * 4, settings, source_language_ids=[0, 2, 0, 0]))
    assert [scores[0].score, scores[1].score] == pytest.approx([german[0].score, french[0].score])


@pytest.mark.parametrize("guidance", ["LAA_enc.self", "Adapter before the residual"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_guidance_folds_into_every_variant(variant: str, guidance: str) -> None:
    model = make(variant, guidance)
    batch = random_batch(model)
    lang_B = torch.full_like(batch.lang_B, 2)
    expected = model(batch.source_BS, batch.input_BT, lang_B).decoded
    folded = fold_guidance(model, 2)(batch.source_BS, batch.input_BT, lang_B).decoded
    torch.testing.assert_close(folded, expected, rtol=1e-6, atol=1e-6)


def test_guidance_before_the_first_sublayer_folds_into_norm_or_positions() -> None:
    methods = [parse_method_settings({"method": "lee", "sites": ["enc.self", "dec.self"]})]
    for variant in VARIANTS:
        model = tiny_model(methods, **{"norm": "post", **VARIANTS[variant]})
        if variant == "M2M100":
            with pytest.raises(FoldingError, match="no weights precede the first sub-layer"):
                fold_guidance(model, 1)
        else:
            fold_guidance(model, 1)  # compares the outputs


def test_long_sentences_are_an_error_and_long_outputs_end() -> None:
    model = make("Marian", "Token_tgt")
    engine = NativeEngine(model, LANGUAGES, DecodingSettings(), torch.device("cpu"))
    with pytest.raises(ManyglotError, match=r"has 129 tokens, but the model has 128 positions \(model.max_positions\)"):
        engine.search(SearchRequest([[5] * 128], [1], DecodingSettings(beam_size=1)))
    with pytest.raises(ManyglotError, match="has 130 tokens"):
        engine.score(ScoringRequest([[5]], [[5] * 128], [1], DecodingSettings()))
    with torch.no_grad():
        assert model.output_bias is not None
        model.output_bias[EOS] = -100
    settings = DecodingSettings(beam_size=1, max_length=1000)
    (alone,) = engine.search(SearchRequest([[5] * 127], [1], settings))
    assert len(alone[0].ids) == 126  # start symbol, tag, 126 subwords
    source_BS = torch.tensor([[*[5] * 127, EOS]])
    assert ContinuousBeamSearch(model, settings).search(SearchBatch(source_BS, [1]))[0][0].ids == alone[0].ids
    with pytest.raises(ManyglotError, match=r"prefix has 127 subwords, but .* at most 126"):
        engine.search(SearchRequest([[5] * 99], [1], settings, prefixes=[[5] * 127]))
    with pytest.raises(SettingsError, match="max_positions: 128 is smaller than the longest sentence"):
        check_max_positions(model.settings, 129)


def test_the_start_symbol_counts_when_long_sentences_are_split_off() -> None:
    input_BT = torch.full((2, 129), 5)
    input_BT[:, 0], input_BT[1, 3:] = PAD, PAD
    batch = Batch(torch.tensor([[5, EOS], [5, EOS]]), input_BT, input_BT.clone(), torch.tensor([0, 0]))
    assert [len(part) for part in split_by_tile_fit(batch)] == [1, 1]


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights_survive_a_file(variant: str, tmp_path: Path) -> None:
    model = make(variant).float()
    save_tensors(tmp_path / "model.safetensors", model.state_dict())
    with torch.device("meta"):
        loaded = Transformer(model.settings, model.methods, NUM_SUBWORDS, NUM_LANGUAGES)
    check_header_matches_model(read_weights_header(tmp_path / "model.safetensors"), loaded, tmp_path)
    load_weights(tmp_path / "model.safetensors", loaded)
    batch = random_batch(model)
    inputs = batch.source_BS, batch.input_BT, batch.lang_B
    torch.testing.assert_close(loaded.eval()(*inputs).decoded, model(*inputs).decoded, rtol=0, atol=0)
    parts = model.num_parameters_by_part()
    assert ("output_bias" in parts, "encoder_positions" in parts) == (variant == "Marian", variant != "M2M100")
    assert sum(parts.values()) == sum(p.numel() for p in model.parameters())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("variant", VARIANTS)
def test_training_on_a_gpu_has_the_gradients_of_the_cpu(variant: str) -> None:
    """In a CUDA graph and in eager steps, on batches whose shape is padded, and in half precision."""
    model = make(variant).float()
    on_gpu, device = make(variant).float().to("cuda"), torch.device("cuda")
    eager, graph = (kind(on_gpu, 0.1, device, "auto") for kind in (EagerStep, CudaGraphStep))
    for seed in range(4):
        batch, results = random_batch(model, size=20, seed=seed), []
        for step in (EagerStep(model, 0.1, torch.device("cpu"), "float32"), eager, graph):
            step.model.zero_grad(set_to_none=False)
            loss = sum(step(part, 0.5).cpu() for part in step.pack(batch))
            results.append((loss, [p.grad.cpu() for p in step.model.parameters() if p.grad is not None]))
        for result in results[1:]:
            torch.testing.assert_close(result, results[0], rtol=0.05, atol=0.05 * float(results[0][0][0]) ** 0.5)
    assert graph.graphs


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("variant", VARIANTS)
def test_continuous_batching_on_a_gpu_finds_the_same(variant: str) -> None:
    model, settings = make(variant).float(), DecodingSettings(beam_size=3, max_length=7)
    batch = random_batch(model, size=40)
    languages = batch.lang_B.tolist()
    expected = BeamSearch(model, settings).search(SearchBatch(batch.source_BS, languages))
    on_gpu = ContinuousBeamSearch(make(variant).float().to("cuda"), settings)
    got = on_gpu.search(SearchBatch(batch.source_BS.to("cuda"), languages))
    assert sum(a[0].ids == b[0].ids for a, b in zip(got, expected, strict=True)) >= 38
    assert [a[0].score for a in got] == pytest.approx([b[0].score for b in expected], abs=1e-3)


def test_contradictory_positions_are_an_error() -> None:
    for values, message in (
        ({"positions": "learned"}, "learned needs max_positions"),
        ({"positions": "learned", "max_positions": 128, "position_offset": 2}, "position_offset is for"),
        ({"max_positions": 128}, "max_positions is for positions: learned"),
    ):
        with pytest.raises(ValueError, match=message):
            ModelSettings(**values)  # type: ignore[arg-type]
