"""Forced decoding gives the outputs of a search the scores that the search gave them."""

from __future__ import annotations

import pytest
import torch

import manyglot
from manyglot.batches.batch import collate
from manyglot.config.experiment import Experiment
from manyglot.corpus.languages import Languages
from manyglot.decoding.engine import ScoringRequest, SearchRequest
from manyglot.decoding.native_engine import NativeEngine
from manyglot.decoding.scored_translation import TranslationScore
from manyglot.decoding.settings import DecodingSettings
from manyglot.decoding.translator import Translator
from manyglot.errors import ManyglotError
from manyglot.vocabulary.subword_model import PAD
from tests.conftest import NUM_SUBWORDS, tiny_model
from tests.decoding.stub import stub
from tests.model.guidance.combinations import COMBINATIONS

LANGUAGES = Languages(["qaa", "qab", "qac"])
SOURCES = [[5, 6, 7], [8, 9], [10, 11, 12, 13, 14], [6], [7, 7, 7, 8], [20, 21]]
TARGETS = [0, 1, 2, 0, 1, 2]


def engine(name: str, norm: str = "post") -> NativeEngine:
    return NativeEngine(tiny_model(COMBINATIONS[name], norm), LANGUAGES, DecodingSettings(), torch.device("cpu"))


@pytest.mark.parametrize("name", COMBINATIONS)
def test_beam_outputs_have_the_scores_of_the_beam(name: str) -> None:
    settings = DecodingSettings(beam_size=3, max_length=9, length_penalty=0.7)
    searched = engine(name)
    results = searched.search(SearchRequest(SOURCES, TARGETS, settings))
    for rank in range(3):
        hypotheses = [each[rank] for each in results]
        request = ScoringRequest(SOURCES, [hypothesis.ids for hypothesis in hypotheses], TARGETS, settings)
        scores = searched.score(request)
        assert [each.score for each in scores] == pytest.approx([h.score for h in hypotheses], abs=1e-9)
        small_batches = settings.model_copy(update={"max_batch_tokens": 1})
        one_by_one = searched.score(ScoringRequest(SOURCES, request.translations, TARGETS, small_batches))
        assert [each.score for each in one_by_one] == pytest.approx([each.score for each in scores], abs=1e-9)


@pytest.mark.parametrize("name", ["token", "laa", "Token_tgt", "clean Token_tgt"])
def test_log_probabilities_are_those_of_the_training_loss_after_the_tags(name: str) -> None:
    forced, translations = engine(name, norm="pre"), [[7, 5], [30], list(range(5, NUM_SUBWORDS)), [], [9, 9], [6]]
    batch = collate(SOURCES, translations, TARGETS, forced.model.tags_by_language())
    logits_BTV = forced.model.logits(forced.model(batch.source_BS, batch.input_BT, batch.lang_B).decoded)
    loss_BT = torch.nn.functional.cross_entropy(
        logits_BTV.transpose(1, 2), batch.label_BT, ignore_index=PAD, reduction="none"
    )
    loss_BT[:, : len(forced.model.tags_by_language()[0].target)] = 0
    settings = DecodingSettings(length_penalty=1.0)
    scores = forced.score(ScoringRequest(SOURCES, translations, TARGETS, settings))
    assert [each.log_probability for each in scores] == pytest.approx((-loss_BT.sum(dim=1)).tolist(), abs=1e-9)
    lengths = (batch.label_BT != PAD).sum(dim=1)
    assert [each.score for each in scores] == pytest.approx((-loss_BT.sum(dim=1) / lengths).tolist(), abs=1e-9)


def test_half_precision_keeps_the_scores_of_the_search() -> None:
    model = tiny_model(COMBINATIONS["laa"]).float()
    searched = NativeEngine(model, LANGUAGES, DecodingSettings(), torch.device("cpu"))
    settings = DecodingSettings(beam_size=2, max_length=9, precision="bfloat16")
    best = [each[0] for each in searched.search(SearchRequest(SOURCES, TARGETS, settings))]
    scores = searched.score(ScoringRequest(SOURCES, [h.ids for h in best], TARGETS, settings))
    assert [each.score for each in scores] == pytest.approx([h.score for h in best], abs=0.05)


def test_a_translator_scores_text(trained: Experiment) -> None:
    translator = manyglot.load(trained.run / "model")
    sentences, targets = ["a b c", "d e", "f"] * 3, ["qaa"] * 3 + ["qab"] * 3 + ["qac"] * 3
    best = [translations[0] for translations in translator.translate_n_best(sentences, targets, n=1)]
    scores = translator.score(iter(sentences), (t.text for t in best), targets)
    encode, language_ids = translator.vocabulary.encode, [translator.languages.id(code) for code in targets]
    found = translator.engine.search(SearchRequest(encode(sentences), language_ids, translator.settings))
    ids = encode([t.text for t in best])
    same = [row for row, hypotheses in enumerate(found) if hypotheses[0].ids == tuple(ids[row])]
    assert len(same) >= 5  # the others have the text of a translation in other subwords
    assert [scores[row].score for row in same] == pytest.approx([best[row].score for row in same], abs=1e-5)
    assert translator.score([], [], to="qaa") == []
    empty, unknown = translator.score(["a", "🎉"], ["", "b 🎉"], to="qab")
    assert empty.log_probability == empty.score < 0
    assert "U+1F389" in unknown.warnings[0].message
    assert "a translation with characters" in unknown.warnings[1].message


def test_pivot_translations_have_the_scores_of_the_second_step(trained: Experiment) -> None:
    translator = manyglot.load(trained.run / "model").with_settings(pivot="qab")
    sentences, targets = ["a b c", "d e", "f"], ["qaa", "qab", "qac"]
    best = [translations[0] for translations in translator.translate_n_best(sentences, targets, n=1)]
    scores = translator.score(sentences, [t.text for t in best], targets)
    assert [each.score for each in scores] == pytest.approx([t.score for t in best], abs=1e-5)


def test_mistakes_are_explained() -> None:
    translator: Translator = stub()
    assert translator.score(["one"], ["eins"], to="German") == [TranslationScore(-4.0, -2.0)]
    with pytest.raises(ManyglotError, match="There are 2 texts and 1 translations"):
        translator.score(["one", "two"], ["eins"], to="de")
    with pytest.raises(ManyglotError, match="Give a list of texts"):
        translator.score("one", ["eins"], to="de")
    with pytest.raises(ManyglotError, match="Text 2 or its translation has 20 characters; at most 10 are scored"):
        translator.with_text_options(max_chars=10).score(["one", "two"], ["eins", "z" * 20], to="de")
