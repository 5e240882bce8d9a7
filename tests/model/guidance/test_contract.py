"""The contract of every guidance method, alone and combined. It also covers any new method in METHODS."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import torch

from manyglot.batches.batch import Batch
from manyglot.corpus.languages import Direction, Languages
from manyglot.decoding.settings import DecodingSettings
from manyglot.decoding.translator import Translator
from manyglot.errors import LanguageError
from manyglot.model import guidance
from manyglot.model.cached_executor import CachedDecoderExecutor, encode_sources
from manyglot.model.guidance import METHODS
from manyglot.model.guidance.base import GuidanceMethod, HookPoint, MethodSettings, Site
from manyglot.model.model_folder import TrainedModel, load_model, save_model
from manyglot.model.packed_executor import packed_forward
from manyglot.model.packing import pack_batch
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.sentencepiece_model import train_subword_model
from manyglot.vocabulary.subword_model import PAD, VocabularySettings
from manyglot.vocabulary.vocabulary import Vocabulary
from tests.conftest import NUM_LANGUAGES, NUM_SUBWORDS, random_batch, tiny_model
from tests.model.guidance.combinations import COMBINATIONS, with_slow_low_rank
from tests.model.guidance.everywhere import Everywhere, EverywhereSettings

TESTED = COMBINATIONS | {"all hooks": [EverywhereSettings()]}


@pytest.fixture(autouse=True)
def _with_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guidance, "METHODS", (*METHODS, Everywhere))


@pytest.fixture(params=TESTED)
def settings(request: pytest.FixtureRequest) -> list[MethodSettings]:
    return TESTED[request.param]


@pytest.fixture(params=["post", "pre"])
def model(request: pytest.FixtureRequest, settings: list[MethodSettings]) -> Transformer:
    return tiny_model(settings, norm=request.param)


def random_languages(batch: Batch) -> torch.Tensor:
    """Return a reproducible random language for each sentence, which does not depend on the rest of the batch."""
    return batch.source_BS.sum(dim=1) % NUM_LANGUAGES


def logits(model: Transformer, batch: Batch) -> torch.Tensor:
    hidden = model(batch.source_BS, batch.input_BT, batch.lang_B, random_lang_B=random_languages(batch))
    return model.logits(hidden.decoded)


def one(batch: Batch, row: int) -> Batch:
    """Return a single sentence without padding."""
    parts = [getattr(batch, field.name)[row : row + 1] for field in fields(batch)]
    source, target = int((parts[0] != PAD).sum()), int((parts[1] != PAD).sum())
    return Batch(parts[0][:, :source], parts[1][:, :target], parts[2][:, :target], parts[3])


def test_shapes(model: Transformer) -> None:
    batch = random_batch(model)
    assert logits(model, batch).shape == (*batch.input_BT.shape, NUM_SUBWORDS + NUM_LANGUAGES)


def test_mixed_languages_in_a_batch_do_not_interact(model: Transformer) -> None:
    batch = random_batch(model, size=7)
    assert len(set(batch.lang_B.tolist())) > 1
    together_BTV = logits(model, batch)
    for row in range(len(batch)):
        alone = one(batch, row)
        torch.testing.assert_close(together_BTV[row, : alone.input_BT.shape[1]], logits(model, alone)[0])


def test_packed_and_padded_execution_agree(model: Transformer) -> None:
    """Packed sentences, sorted by language, have the same states and gradients."""
    batch = random_batch(model, size=7)
    order_B, packed = batch.lang_B.argsort(stable=True), pack_batch(batch)
    there_BT = batch.input_BT[order_B] != PAD
    padded = model(batch.source_BS, batch.input_BT, batch.lang_B, random_lang_B=random_languages(batch))
    expected = padded.decoded[order_B][there_BT]
    got = packed_forward(model, packed, random_languages(batch)[order_B]).decoded[:, 0]
    torch.testing.assert_close(got, expected)
    weight = torch.randn_like(got)
    parameters = list(model.parameters())
    for mine, theirs in zip(
        *(torch.autograd.grad((x * weight).sum(), parameters, allow_unused=True) for x in (got, expected)), strict=True
    ):
        torch.testing.assert_close(mine, theirs)


def test_batch_gradients_are_the_sum_over_sentences(model: Transformer) -> None:
    batch = random_batch(model)
    scored = batch.label_BT != PAD
    logits(model, batch)[scored].square().sum().backward()
    together = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    for row in range(len(batch)):
        alone = one(batch, row)
        logits(model, alone)[alone.label_BT != PAD].square().sum().backward()
    assert together.keys() == {name for name, p in model.named_parameters() if p.grad is not None}
    for name, parameter in model.named_parameters():
        if name in together:
            torch.testing.assert_close(together[name], parameter.grad)


def test_cached_decoding_matches_a_full_forward_pass(model: Transformer) -> None:
    batch = random_batch(model)
    target_languages = model.prepare_target_languages(batch.lang_B, random_languages(batch))
    decoder = CachedDecoderExecutor(model, target_languages, encode_sources(model, batch.source_BS, target_languages))
    first = 2  # the start and a tag are read together, the words one by one
    steps = [model.decode(batch.input_BT[:, :first], decoder)]
    for i in range(first, batch.input_BT.shape[1]):
        steps.append(model.decode(batch.input_BT[:, i : i + 1], decoder))
    torch.testing.assert_close(model.logits(torch.cat(steps, dim=1)), logits(model, batch))


def test_beams_match_separate_sentences(model: Transformer) -> None:
    """Each beam has its own KV cache; the beams of a sentence share its memory and target language."""
    batch, beams = random_batch(model), 3
    target_languages = model.prepare_target_languages(batch.lang_B, random_languages(batch))
    rows_N = torch.arange(len(batch)).repeat_interleave(beams)
    words_NT = torch.randint(3, NUM_SUBWORDS, (len(rows_N), 4), generator=torch.Generator().manual_seed(0))
    decoder = CachedDecoderExecutor(model, target_languages, encode_sources(model, batch.source_BS, target_languages))
    model.decode(batch.input_BT[:, :1], decoder)
    decoder.expand_to_beams(rows_N)
    steps = [model.decode(words_NT[:, i].view(len(batch), beams), decoder).flatten(0, 1) for i in range(4)]
    input_NT = torch.cat([batch.input_BT[rows_N, :1], words_NT], dim=1)
    alone = model(
        batch.source_BS[rows_N], input_NT, batch.lang_B[rows_N], random_lang_B=random_languages(batch)[rows_N]
    )
    torch.testing.assert_close(torch.stack(steps, dim=1), alone.decoded[:, 1:])


def test_affects_encoder_is_correct(model: Transformer) -> None:
    """If guidance does not affect the encoder, a source can be encoded once for several target languages."""
    if model.guidance.affects_encoder:
        pytest.skip("it acts there")
    assert not any(tag.source for tag in model.tags_by_language())
    batch = random_batch(model, size=2)
    sentence_B, lang_B = torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 2, 1])
    random_lang_B = random_languages(batch)[sentence_B]
    target_languages = model.prepare_target_languages(lang_B, random_lang_B)
    once = encode_sources(model, batch.source_BS, target_languages, sentence_B)
    each = encode_sources(model, batch.source_BS[sentence_B], target_languages)
    torch.testing.assert_close((once.states_BSD, once.mask_B11S), (each.states_BSD, each.mask_B11S))
    assert (once.kv_term_BSD is None) == (each.kv_term_BSD is None)
    if each.kv_term_BSD is not None:
        torch.testing.assert_close(once.kv_term_BSD, each.kv_term_BSD)


def test_output_matrices_match_the_output_term(model: Transformer) -> None:
    """Matrices added to the output projection have the same effect as the output term."""
    batch = random_batch(model)
    target_languages, z_BTD = (
        model.prepare_target_languages(batch.lang_B, random_languages(batch)),
        torch.randn(len(batch), 3, 16, dtype=torch.float64),
    )
    for point in (HookPoint(Site.ENC_SELF, 0), HookPoint(Site.DEC_SELF, 1), HookPoint(Site.DEC_CROSS, 0)):
        added = model.guidance.output_term_matrices(point, z_BTD, target_languages)
        if added is not None:
            got = z_BTD @ added.matrix_LED[added.groups.lang_B].mT
            torch.testing.assert_close(got, model.guidance.output_term(point, z_BTD, target_languages))


def test_reset_to_identity_gives_the_plain_model(model: Transformer) -> None:
    """After the reset, a guided model computes the same as a plain one on the same sequences."""
    batch = random_batch(model)
    with torch.no_grad():
        for _, method in model.guidance.named_methods():
            assert isinstance(method, GuidanceMethod)
            method.reset_to_identity()
        model.embedding.weight[NUM_SUBWORDS:] = 0  # the tags may be a signal too
    plain = tiny_model((), norm=model.settings.norm)
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("guidance.")})
    torch.testing.assert_close(logits(model, batch), logits(plain, batch))


def test_the_output_depends_on_the_target_language(model: Transformer) -> None:
    """Languages give different outputs, through the tags, the hooks, or both."""
    outputs = []
    for language in range(NUM_LANGUAGES):
        tag = model.tags_by_language()[language]
        source = torch.tensor([[*tag.source, 5, 6, 7, 1]])
        target = torch.tensor([[1, *tag.target, 8]])
        hidden = model(source, target, torch.tensor([language]), random_lang_B=torch.tensor([0]))
        outputs.append(hidden.decoded[0, -1])
    assert not torch.allclose(outputs[0], outputs[1])
    assert not torch.allclose(outputs[1], outputs[2])


def test_every_parameter_of_a_method_gets_a_gradient(model: Transformer) -> None:
    batch = random_batch(model, size=12)
    logits(model, batch).square().sum().backward()
    for name, parameter in model.guidance.named_parameters():
        assert parameter.grad is not None, f"{name} is never used"


def test_only_languages_of_the_batch_get_gradients(model: Transformer) -> None:
    batch = random_batch(model)
    batch = Batch(*(getattr(batch, field.name)[batch.lang_B != 1] for field in fields(batch)))
    assert set(batch.lang_B.tolist()) == {0, 2}
    hidden = model(batch.source_BS, batch.input_BT, batch.lang_B, random_lang_B=batch.lang_B)
    model.logits(hidden.decoded)[:, -1, 5].sum().backward()
    for name, parameter in model.guidance.named_parameters():
        assert parameter.grad is not None
        languages = name.rpartition("_")[2].find("L")  # the shape letters say it: _LDD, _PLD
        if languages < 0:
            continue  # shared by all languages
        reached = parameter.grad.movedim(languages, 0).flatten(1).abs().amax(dim=1) > 0
        assert reached.tolist() == [True, False, True], name


@pytest.mark.parametrize("name", with_slow_low_rank(TESTED))
def test_compiled_and_eager_models_agree(name: str) -> None:
    torch.compiler.reset()
    model = tiny_model(TESTED[name], num_layers=1)
    batch = random_batch(model)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(logits(compiled, batch), logits(model, batch))
    logits(compiled, batch)[batch.label_BT != PAD].square().sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    logits(model, batch)[batch.label_BT != PAD].square().sum().backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(gradients[name], parameter.grad)


def test_representations_have_a_row_for_each_language_and_are_copies(model: Transformer) -> None:
    representations = model.language_representations()
    assert representations, "every method has representations"
    for value in representations.values():
        assert value.shape[0] == NUM_LANGUAGES
        value.zero_()
    assert all(value.abs().sum() > 0 for value in model.language_representations().values())


def test_a_saved_model_loads_unchanged(model: Transformer, settings: list[MethodSettings], tmp_path: Path) -> None:
    text = [" ".join(chr(97 + (i * j) % 26) * 3 for j in range(9)) for i in range(30)]
    vocabulary = Vocabulary(train_subword_model(text, VocabularySettings(size=64)), Languages(["de", "en", "fr"]))
    torch.manual_seed(3)
    original = Transformer(model.settings, settings, len(vocabulary.subword_model), 3).eval()
    config = {
        "model": model.settings.model_dump(),
        "guidance": [each.model_dump(mode="json") for each in settings],
        "training": {},
    }
    trained = TrainedModel(original, vocabulary, (Direction("de", "en"),), config)
    save_model(tmp_path / "model", trained)
    loaded = load_model(tmp_path / "model")
    assert loaded.vocabulary.languages == vocabulary.languages
    assert (loaded.trained_directions, loaded.config) == (trained.trained_directions, config)
    restored = loaded.model
    assert restored.state_dict().keys() == original.state_dict().keys()
    batch = random_batch(original)
    torch.testing.assert_close(logits(restored, batch), logits(original, batch), rtol=0, atol=0)
    translator = Translator.from_trained_model(loaded, DecodingSettings(beam_size=2, max_length=4), torch.device("cpu"))
    assert len(translator.translate(["aaa bbb", "ccc"], to=["de", "fr"])) == 2
    with pytest.raises(LanguageError, match="de, en, fr"):
        translator.translate(["aaa"], to="sw")
