"""Imported models compute what transformers computes: subword ids, logits and the outputs of beam search."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import torch

import manyglot
from manyglot.decoding.engine import SearchRequest
from tests.importers.equality import ModelPair
from tests.importers.random_checkpoints import FAMILIES, LOGIT_SCALE, NLLB_LANGUAGES, write_checkpoint

pytest.importorskip("transformers")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

TEXT = """Der Zug nach Köln fährt um 7:45 Uhr ab.
Wo ist das Buch, das ich dir geliehen habe?
The train leaves at 7:45, but nobody is here.
"Why not?" he asked; she didn't answer.
ﬁve  double  spaces,   and trailing ones
Поезд уходит через десять минут.
მატარებელი ათ წუთში გავა.
火车十分钟后出发。
القطار يغادر بعد عشر دقائق.
रेलगाड़ी दस मिनट में छूटेगी।
El tren sale dentro de diez minutos, ¿verdad?
☃ and 🚂 are unknown; so is … everything ½ else""".splitlines()
MAX_DIFFERENCE = 1e-5 * LOGIT_SCALE
"""Logits are equal to 1e-5; these models scale them up."""
SOURCE_AND_TARGET = {
    "nllb": ("eng_Latn", "zho_Hans"),
    "m2m100": ("en", "de"),
    "mbart50": ("en", "de"),
    "marian": ("eng", "deu"),
    "marian_multilingual": ("eng", "nld"),
}


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ModelPair:
    folder = tmp_path_factory.mktemp(request.param) / "checkpoint"
    write_checkpoint(request.param, folder, TEXT[:-1])
    pair = ModelPair(folder, manyglot.import_model(folder, folder.with_name("model")))
    pair.source, pair.target = SOURCE_AND_TARGET[request.param]  # type: ignore[attr-defined]
    return pair


def test_subwords_are_equal(pair: ModelPair) -> None:
    assert pair.differing_texts([*TEXT, "", " ", "a"]) == []
    if pair.is_marian:
        assert pair.differing_texts(TEXT, targets=True) == []


def test_decoded_text_is_equal(pair: ModelPair) -> None:
    ids = pair.vocabulary.encode_targets(TEXT[:-1])
    theirs = [pair.tokenizer.decode([pair.order[i] for i in row], skip_special_tokens=True) for row in ids]
    assert [text.strip() for text in pair.vocabulary.decode(ids)] == [text.strip() for text in theirs]


def test_logits_are_equal(pair: ModelPair) -> None:
    assert pair.largest_logit_difference(TEXT, TEXT[::-1], pair.source, pair.target) < MAX_DIFFERENCE


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_of_usual_size_are_equal_to_1e_5(family: str, tmp_path: Path) -> None:
    folder = write_checkpoint(family, tmp_path / "checkpoint", TEXT[:-1], logit_scale=1.0)
    pair = ModelPair(folder, manyglot.import_model(folder, tmp_path / "model"))
    assert pair.largest_logit_difference(TEXT, TEXT[::-1], *SOURCE_AND_TARGET[family]) < 1e-5


def test_an_export_to_ctranslate2_finds_the_same_outputs(tmp_path: Path) -> None:
    """Tags have a low probability, as in trained checkpoints. CTranslate2 removes them from the softmax."""
    pytest.importorskip("ctranslate2")
    folder = write_checkpoint("nllb", tmp_path / "checkpoint", TEXT[:-1])
    make_tags_improbable(folder)
    manyglot.export(manyglot.import_model(folder, tmp_path / "model"), tmp_path / "export")
    native, exported = (manyglot.load(tmp_path / name, device="cpu") for name in ("model", "export"))
    for target in NLLB_LANGUAGES:
        languages = [native.languages.id(code) for code in (target, "eng_Latn")]
        settings = native.settings.model_copy(update={"max_length": 60, "precision": "float32"})
        target_ids, source_ids = ([language] * len(TEXT) for language in languages)
        request = SearchRequest(native.vocabulary.encode(TEXT), target_ids, settings, source_language_ids=source_ids)
        both = zip(native.engine.search(request), exported.engine.search(request), strict=True)
        for ours, theirs in both:
            assert ours[0].ids == theirs[0].ids
            assert ours[0].score == pytest.approx(theirs[0].score, abs=1e-5)


def make_tags_improbable(folder: Path) -> None:
    """Give symbols that are never generated a logit of about -3 in a checkpoint of NLLB."""
    import transformers

    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    first_tag = min(tokenizer.convert_tokens_to_ids(code) for code in NLLB_LANGUAGES)
    special = [tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.bos_token_id]
    with torch.no_grad():
        bias, weight = model.model.decoder.layer_norm.bias, model.model.shared.weight
        rows = [*special, *range(first_tag, len(weight))]
        weight[rows] = 0.02 * weight[rows] - 3 * bias / bias.square().sum()
    model.save_pretrained(folder)


def test_outputs_of_beam_search_are_equal(pair: ModelPair) -> None:
    beams = pair.compare_beams(TEXT, pair.source, pair.target, max_length=60)
    assert not beams.different
    assert beams.num_equal + beams.num_ties == len(TEXT)
    assert beams.num_at_limit < len(TEXT) // 2
    assert len(set(beams.lengths)) > 3


LARGER = {"size": 4000, "width": 64}
LARGER_END_LOGITS = {"nllb": 21.0, "m2m100": 14.0, "mbart50": 17.0, "marian": 16.0, "marian_multilingual": 9.0}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_models_are_equal_on_real_text(family: str, tmp_path: Path) -> None:
    """MANYGLOT_TEXT names a folder with text in many languages, one file per language."""
    if not (text_folder := os.environ.get("MANYGLOT_TEXT")):
        pytest.skip("MANYGLOT_TEXT is not set")
    lines = [
        line
        for path in sorted(Path(text_folder).glob("test.*"))
        if path.suffix != ".src"
        for line in path.read_text("utf-8").splitlines()
        if line.strip()
    ]
    random.Random(1).shuffle(lines)
    folder = write_checkpoint(
        family, tmp_path / "checkpoint", lines[20_000:50_000], **LARGER, end_logit=LARGER_END_LOGITS[family]
    )
    pair = ModelPair(folder, manyglot.import_model(folder, tmp_path / "model"))
    assert pair.differing_texts(lines[:10_000]) == []
    languages = random.Random(1).sample(pair.translator.languages.codes, min(12, len(pair.translator.languages)))
    sentences = [line for line in lines if len(line) < 150][:1000]
    equal = ties = at_limit = 0
    for k, target in enumerate(languages):
        share, (source, _) = sentences[k :: len(languages)], SOURCE_AND_TARGET[family]
        assert pair.largest_logit_difference(share[:16], share[16:32], source, target) < MAX_DIFFERENCE
        for start in range(0, len(share), 50):
            beams = pair.compare_beams(share[start : start + 50], source, target, max_length=50)
            assert not beams.different
            equal, ties, at_limit = equal + beams.num_equal, ties + beams.num_ties, at_limit + beams.num_at_limit
    print(f"{family}: {equal} equal, {ties} ties, {at_limit} of the equal ones have the maximum length")
    assert equal + ties == len(sentences)
    assert at_limit < len(sentences) // 2
