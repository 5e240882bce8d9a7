from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest
import torch

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.corpus.base import Split
from manyglot.decoding.engine import DEFAULT_BLOCK_SIZE
from manyglot.decoding.scored_translation import Translation
from manyglot.decoding.translator import Translator
from manyglot.errors import ManyglotError, TranslationWarning
from manyglot.model.guidance import parse_method_settings
from manyglot.model.model_folder import load_model
from manyglot.model.transformer import Transformer
from tests.decoding.stub import StubEngine, stub


@pytest.fixture(scope="module")
def translator(trained: Experiment) -> Translator:
    return manyglot.load(trained.run / "model")


@pytest.fixture(scope="module")
def sentences(trained: Experiment) -> list[str]:
    from manyglot.batches.prepared_dataset import PreparedDataset

    return [row["qaa"] for row in PreparedDataset(trained.data).rows(Split.TRAIN)][:12]


def test_outputs_keep_the_order_of_the_input(translator: Translator, sentences: list[str]) -> None:
    together = translator.translate(sentences, to="qab")
    assert together == [translator.translate([sentence], to="qab")[0] for sentence in sentences]


def test_random_languages_depend_on_the_seed_alone(
    trained: Experiment, translator: Translator, sentences: list[str]
) -> None:
    """LAA^R: with the same seed, translations do not depend on the batches. Another seed may change them."""
    loaded = load_model(trained.run / "model")
    vocabulary = loaded.vocabulary
    methods = [
        parse_method_settings({"method": "random_laa", "init_gain": 1.0}),
        parse_method_settings({"method": "token"}),
    ]
    torch.manual_seed(0)
    model = Transformer(loaded.model.settings, methods, len(vocabulary.subword_model), len(vocabulary.languages))
    with torch.no_grad():
        model.guidance.get_parameter("methods.random_laa.matrix_LDD").mul_(3)
    drawing = Translator.from_trained_model(replace(loaded, model=model), translator.settings, torch.device("cpu"))
    first = drawing.translate(sentences, to="qab")
    assert first == drawing.with_settings(max_batch_tokens=1).translate(sentences, to="qab")
    assert first == drawing.translate(sentences[:5], to="qab") + drawing.translate(
        sentences[5:], to="qab", sentence_offset=5
    )
    assert any(first != drawing.with_settings(seed=seed).translate(sentences, to="qab") for seed in range(2, 7))


def test_empty_lines_stay_empty(translator: Translator, sentences: list[str]) -> None:
    outputs = translator.translate(["", sentences[0], "   ", "\t"], to="qab")
    assert outputs == ["", translator.translate([sentences[0]], to="qab")[0], "", ""]
    assert translator.translate([], to="qab") == []


def test_each_sentence_may_have_its_own_target(translator: Translator, sentences: list[str]) -> None:
    targets = ["qaa", "qab", "qac"] * 4
    mixed = translator.translate(sentences, to=targets)
    for i, (sentence, target) in enumerate(zip(sentences, targets, strict=True)):
        assert mixed[i] == translator.translate([sentence], to=target)[0]


def test_small_batches_change_nothing(translator: Translator, sentences: list[str]) -> None:
    assert translator.with_settings(max_batch_tokens=1).translate(sentences, "qac") == translator.translate(
        sentences, "qac"
    )


def test_mistakes_are_explained(translator: Translator) -> None:
    with pytest.raises(ManyglotError, match=r"Unknown language 'qaz'\. Did you mean"):
        translator.translate(["x"], to="qaz")
    with pytest.raises(ManyglotError, match="Give a list of texts"):
        translator.translate_n_best("x", to="qab")
    with pytest.raises(ManyglotError, match="2 texts and 1 target languages"):
        translator.translate(["x", "y"], to=["qab"])
    with pytest.raises(ManyglotError, match=r"decoding\.beam_sise is not a setting\. Did you mean 'beam_size'"):
        translator.with_settings(beam_sise=3)


def test_any_iterable_of_sentences_is_accepted(translator: Translator, sentences: list[str]) -> None:
    assert translator.translate(iter(sentences), "qab") == translator.translate(sentences, "qab")


def test_a_language_has_many_names() -> None:
    translator = stub()
    for name in ("de", "deu", "de-DE", "German", "Deutsch"):
        assert translator.translate(["one"], to=name) == ["de:one"]
    assert translator.translate(["one", "two"], to=("French", "deu")) == ["fr:one", "de:two"]


def test_one_text_into_many_languages() -> None:
    translator = stub()
    assert translator.translate_to_all(["one", "two"], to=["French", "de", "fr"]) == {
        "fr": ["fr:one", "fr:two"],
        "de": ["de:one", "de:two"],
    }
    assert list(translator.translate_to_all(iter(["one"]))) == ["de", "en", "fr"]
    assert translator.translate_to_all(["one"], to="de") == {"de": ["de:one"]}
    assert translator.translate_to_all([], to=["de"]) == {"de": []}


def test_n_best_translations_have_scores_and_are_distinct() -> None:
    translator = stub(lambda text, code: ["a", "b", "a", "c", "d"])
    ((first, second), empty) = translator.translate_n_best(["one", ""], "de", n=2)
    assert (first, second) == (Translation("a", 0.0), Translation("b", -1.0))
    assert empty == [Translation("", 0.0)]
    assert [each.text for each in translator.translate_n_best(["one"], "de", n=5)[0]] == ["a", "b", "c", "d"]
    with pytest.raises(ManyglotError, match="it must be at least 1"):
        translator.translate_n_best(["one"], "de", n=0)


def test_scores_are_those_of_the_search(translator: Translator, sentences: list[str]) -> None:
    best, *others = translator.translate_n_best(sentences[:1], "qab", n=4)[0]
    assert best.text == translator.with_settings(beam_size=4).translate(sentences[:1], "qab")[0]
    assert others
    assert all(best.score >= other.score for other in others)
    assert best.score < 0


def test_a_stream_is_read_lazily() -> None:
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield f"line {read}"

    translator = stub()
    outputs = translator.translate_stream(endless(), to="German")
    assert read == 0
    assert list(islice(outputs, 3)) == ["de:line 1", "de:line 2", "de:line 3"]
    assert read == DEFAULT_BLOCK_SIZE
    assert next(islice(outputs, DEFAULT_BLOCK_SIZE - 3, None)) == f"de:line {DEFAULT_BLOCK_SIZE + 1}"
    assert isinstance(translator.engine, StubEngine)
    assert [first for _, _, first in translator.engine.calls] == [0, DEFAULT_BLOCK_SIZE]


def test_a_stream_may_have_a_target_for_each_sentence() -> None:
    translator = stub()
    assert list(translator.translate_stream(["one", "two"], to=iter(["fr", "de"]))) == ["fr:one", "de:two"]
    with pytest.raises(ManyglotError, match="2 texts and 1 target languages"):
        list(translator.translate_stream(["one", "two"], to=["fr"]))
    with pytest.raises(ManyglotError, match="not among the model's languages"):
        translator.translate_stream(["one"], to="sw")  # raises at once, not when it is read
    with pytest.raises(ManyglotError, match="Give a list of texts"):
        translator.translate_stream("one", to="de")


def test_a_single_text_gives_a_single_translation(translator: Translator, sentences: list[str]) -> None:
    assert translator.translate(sentences[0], to="qab") == translator.translate(sentences[:1], to="qab")[0]
    with pytest.raises(ManyglotError, match="1 texts and 2 target languages"):
        translator.translate(sentences[0], to=["qab", "qac"])


def test_translations_begin_with_their_prefixes(translator: Translator, sentences: list[str]) -> None:
    plain = translator.translate(sentences, "qab")
    words = [text.split()[0] if text else "" for text in plain]
    begun = translator.translate(sentences, "qab", prefixes=[words[-1]] * len(sentences))
    assert all(text.startswith(words[-1]) for text, source in zip(begun, sentences, strict=True) if source)
    with pytest.raises(ManyglotError, match=r"There are \d+ texts and 1 prefixes"):
        translator.translate(sentences, "qab", prefixes=["a"])
    with pytest.raises(ManyglotError, match=r"The prefix '日' has characters that are not in the model's vocabulary"):
        translator.translate(["duka"], "qab", prefixes=["日"])
    with pytest.raises(ManyglotError, match=r"A prefix has \d+ subwords, but the translation of its sentence may"):
        translator.translate(["duka"], "qab", prefixes=["duka " * 100])


def test_non_text_is_rejected_and_surrogates_are_replaced(translator: Translator) -> None:
    with pytest.raises(ManyglotError, match=r"Texts must be str, but one is NoneType: None"):
        translator.translate(["duka", None], "qab")  # type: ignore[list-item]
    with pytest.raises(ManyglotError, match="`to` should be text or a list of text, got None"):
        translator.translate(["duka"], None)  # type: ignore[arg-type]
    translator = translator.with_text_options(warn=False)
    assert translator.translate(["\ud800duka"], "qab") == translator.translate(["?duka"], "qab")


def test_translation_through_a_pivot_language() -> None:
    """Equal sentences are translated once, and the pivot language is translated into directly."""
    translator = stub()
    pivoting = translator.with_settings(pivot="English")
    assert pivoting.translate(["x", "y", "x", "", "y"], to=["fr", "en", "de", "de", "fr"]) == [
        "fr:en:x",
        "en:y",
        "de:en:x",
        "",
        "fr:en:y",
    ]
    assert isinstance(translator.engine, StubEngine)
    assert [call[0] for call in translator.engine.calls] == [2, 4]
    assert [translation.text for translation in pivoting.translate_n_best(["x"], to="de", n=2)[0]] == [
        "de:en:x",
        "de:en:x.",
    ]
    assert list(pivoting.translate_stream(["x", "y"], to="de")) == ["de:en:x", "de:en:y"]
    with pytest.raises(ManyglotError, match=r"decoding\.pivot: .*Esperanto"):
        translator.with_settings(pivot="Esperanto").translate(["x"], to="de")


def test_pivoting_equals_translating_twice(translator: Translator, sentences: list[str]) -> None:
    translator = translator.with_text_options(warn=False)
    in_pivot = translator.translate(sentences, to="qac")
    assert translator.with_settings(pivot="qac").translate(sentences, to="qab") == translator.translate(in_pivot, "qab")


TEXTS = ["One two. Three. Four.", "", "  ", "five six", "Seven. Eight.\n\nNine"]


@pytest.mark.parametrize("mode", ["auto", "always", "never"])
def test_texts_are_translated_sentence_by_sentence(mode: str) -> None:
    translator = stub(lambda text, code: [text]).with_text_options(split=mode)
    expected = [text if text.strip() else "" for text in TEXTS]
    if mode == "never":
        expected = [text.replace("\n\n", " ") for text in expected]
    assert translator.translate(TEXTS, to="de") == expected
    assert list(translator.translate_stream(TEXTS, to="de", source="en")) == expected
    assert translator.translate_to_all(TEXTS, to=["fr"]) == {"fr": expected}
    assert [n_best[0].text for n_best in translator.translate_n_best(TEXTS, "de")] == expected
    assert isinstance(translator.engine, StubEngine)
    assert translator.engine.calls[0][0] == (3 if mode == "never" else 7)


def test_splitting_equals_translating_each_sentence(translator: Translator, sentences: list[str]) -> None:
    """Also with mixed targets, a prefix and a sample."""
    splitting = translator.with_text_options(split="always", warn=False)
    texts = [f"{sentences[i].capitalize()}.  {sentences[i + 1].capitalize()}." for i in (0, 2)]
    parts = [sentence for text in texts for sentence in text.split("  ")]
    for one_by_one in (splitting, splitting.with_settings(temperature=1.0, beam_size=1)):
        translations = one_by_one.translate(parts, to=["qab", "qab", "qac", "qac"])
        expected = ["  ".join(translations[i : i + 2]) for i in (0, 2)]
        assert one_by_one.translate(texts, to=["qab", "qac"]) == expected
    assert splitting.translate(texts, to="qab", prefixes=["duka", ""])[0].startswith("duka")


def test_a_stream_samples_each_sentence_by_its_index(translator: Translator, sentences: list[str]) -> None:
    sampling = translator.with_settings(temperature=1.0, beam_size=1).with_text_options(split="always", warn=False)
    texts = [f"{sentence.capitalize()}. {sentence.capitalize()}." for sentence in sentences]
    together = sampling.translate(texts, to="qab")
    sampling.engine.preferred_block_size, size = 5, sampling.engine.preferred_block_size  # type: ignore[misc]
    try:
        assert list(sampling.translate_stream(texts, to="qab")) == together
    finally:
        sampling.engine.preferred_block_size = size  # type: ignore[misc]


def test_split_text_is_checked_and_pivoted_by_sentence() -> None:
    translator = stub(lambda text, code: ["drift" if "Bad" in text else f"{code}:{text}"])
    checked = translator.with_off_target_filter(lambda texts, _: ["fr" if "drift" in text else "de" for text in texts])
    ((good,), (bad,)) = checked.translate_n_best(["Good. Fine.", "Good. Bad."], to="de", n=1)
    assert (good.on_target, bad.on_target, bad.text) == (True, False, "de:Good. drift")
    pivoting = translator.with_settings(pivot="en")
    assert pivoting.translate(["Ab. Cd."], to="fr") == ["fr:en:Ab. fr:en:Cd."]
    assert pivoting.translate(["Ab. Cd.", "ef"], to="fr", source=["English", None]) == ["fr:Ab. fr:Cd.", "fr:en:ef"]


def test_wrong_source_languages_are_rejected() -> None:
    for translate in (stub().translate, stub().translate_n_best, stub().translate_stream):
        with pytest.raises(ManyglotError, match="Swahili \\(sw\\) is not among the model's languages: de, en, fr"):
            translate(["one"], to="de", source="sw")
    with pytest.raises(ManyglotError, match="There are 1 texts and 2 source languages"):
        stub().translate(["one"], to="de", source=["de", "en"])
    with pytest.raises(ManyglotError, match=r"`source` should be text or .* got 7"):
        stub().translate(["one"], to="de", source=7)  # type: ignore[arg-type]


def test_text_that_may_be_incomplete_causes_a_warning() -> None:
    translator, texts = stub(), ["one", "two \u2603", "three " * 30 + "."]
    warning = (
        r"Text 2 has characters unknown to the model: \u2603 \(U\+2603\).* Text 3 has \d+ subwords, but the longest"
    )
    with pytest.warns(TranslationWarning, match=warning):
        outputs = translator.translate(texts, to="de")
    with pytest.warns(TranslationWarning, match=warning):
        assert translator.translate_to_all(texts, to=["de", "fr"])["de"] == outputs
    with pytest.warns(TranslationWarning, match=warning):
        assert list(translator.translate_stream(texts, to="de")) == outputs
    n_best = translator.translate_n_best(texts, to="de", n=2)
    assert [[warning.kind for warning in each[1].warnings] for each in n_best] == [
        [],
        ["unknown_characters"],
        ["too_long"],
    ]
    assert translator.with_text_options(warn=False).translate(texts, to="de") == outputs
    copying = translator.with_text_options(copy_unknown=True, warn=False)
    assert copying.translate(["Ab \u2603. Cd.", "\u2603"], to="de") == ["de:Ab. \u2603 de:Cd.", "\u2603"]


def test_weights_that_overflow_are_reported(trained: Experiment, translator: Translator, sentences: list[str]) -> None:
    loaded = load_model(trained.run / "model")
    with torch.no_grad():
        for parameter in loaded.model.encoder.parameters():
            parameter.fill_(1e38)
    overflowing = Translator.from_trained_model(loaded, translator.settings, torch.device("cpu"))
    with pytest.raises(ManyglotError, match="scores are NaN or infinite"):
        overflowing.translate(sentences, to="qab")
