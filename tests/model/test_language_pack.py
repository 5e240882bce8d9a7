"""Language packs add languages to a model, and change nothing else, to the last bit."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
import torch

import manyglot
from manyglot.decoding.scored_translation import Translation
from manyglot.decoding.translator import Translator
from manyglot.errors import ManyglotError
from manyglot.model.guidance import parse_method_settings
from manyglot.model.language_pack import LanguagePack, add_packs
from manyglot.model.model_folder import load_model
from tests.model.guidance.combinations import COMBINATIONS, LOW_RANK
from tests.model.random_packs import NEW, TEXT, save_random_model, save_random_pack

ADAPTER = [parse_method_settings({"method": "adapter", "residual": False})]
SENTENCES = [*TEXT["de"], *TEXT["en"], *TEXT["sw"], ""]
TARGETS = ["en", "de"] * 6 + ["de"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_random_model(tmp_path_factory.mktemp("models") / "model", ADAPTER).folder or Path()


@pytest.fixture(scope="module")
def packs(model: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("packs")
    return [save_random_pack(folder / f"{code}.pack", load_model(model), code) for code in NEW]


def results_of(translator: Translator) -> object:
    translator = translator.with_text_options(warn=False)
    n_best = translator.translate_n_best(SENTENCES, to=TARGETS, n=3, source=[*["de"] * 4, *["en"] * 4, *["de"] * 5])
    scores = translator.score(TEXT["de"], TEXT["en"], to="en", source="de")
    return n_best, translator.translate(SENTENCES, to=TARGETS, source="en"), scores


TAGS_AND_BIAS = {"norm": "pre", "source_tag": True, "output_bias": True}
HALF_PRECISION = {"precision": "bfloat16"}
FAST = {
    ("adapter", "plain"),
    ("adapter", "half precision"),
    ("LAA + Token_tgt", "tags"),
    ("LALT + LEE + LAA", "plain"),
    ("LAA^R + Token_src", "tags"),
}
"""Combinations of the default run, and the settings of their models. The others take half a minute."""


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        pytest.param(name, settings, marks=() if (name, settings) in FAST else pytest.mark.slow)
        for name in COMBINATIONS
        for settings in ("plain", "tags", "half precision")
    ],
)
def test_old_directions_keep_every_bit(name: str, settings: str, tmp_path: Path) -> None:
    changes = TAGS_AND_BIAS if settings == "tags" else {}
    original = save_random_model(tmp_path / "model", COMBINATIONS[name], **changes)
    packs = [save_random_pack(tmp_path / f"{code}.pack", original, code, seed) for seed, code in enumerate(NEW)]
    decoding = HALF_PRECISION if settings == "half precision" else {}
    expected = results_of(manyglot.load(tmp_path / "model", device="cpu").with_settings(**decoding))
    into_swahili = set()
    for chosen in ([packs[0]], packs, packs[::-1]):
        translator = manyglot.load(tmp_path / "model", device="cpu", packs=chosen).with_settings(**decoding)
        assert results_of(translator) == expected
        mixed = translator.translate_n_best(
            [*SENTENCES, TEXT["ka"][0]], to=[*TARGETS, "de"], n=3, source=[*["de"] * 4, *["en"] * 4, *["de"] * 5, "ka"]
        )
        assert mixed[:-1] == expected[0]  # type: ignore[index]
        if len(chosen) > 1:
            outputs = translator.translate_n_best(TEXT["ka"], to="sw", source="ka", n=3)
            into_swahili.add(repr([outputs, translator.score(TEXT["ka"], TEXT["sw"], to="sw", source="ka")]))
    assert len(into_swahili) == 1, "the order of the packs matters"


@pytest.mark.parametrize("name", LOW_RANK)
def test_a_pack_has_the_factors_of_its_language(name: str, tmp_path: Path) -> None:
    original = save_random_model(tmp_path / "model", COMBINATIONS[name])
    pack = LanguagePack.load(save_random_pack(tmp_path / "sw.pack", original, "sw"))
    weights, extended = pack.languages["sw"].weights, add_packs(original, [pack])
    swahili, german = (extended.vocabulary.languages.id(code) for code in ("sw", "de"))
    for parameter, value_LDR in extended.model.guidance.named_parameters():
        assert torch.equal(value_LDR[[swahili]], weights[f"guidance.{parameter}"])
        old_LDR = original.model.guidance.get_parameter(parameter)
        assert torch.equal(value_LDR[german], old_LDR[original.vocabulary.languages.id("de")])


def test_a_target_language_gets_only_its_own_subwords(model: Path, packs: list[Path]) -> None:
    translator = manyglot.load(model, device="cpu", packs=packs)
    assert translator.languages.codes == ("de", "en", "ka", "sw")
    letters = {code: set("".join(lines)) for code, lines in TEXT.items()}
    for source in TEXT:
        for target in NEW:
            outputs = "".join(translator.translate(TEXT[source], to=target, source=source))
            assert set(outputs) <= letters[target] | {" ", "⁇"}
        assert not set("".join(translator.translate(TEXT[source], to="de", source=source))) & (
            letters["ka"] - letters["de"]
        )


def test_the_subwords_of_a_pack_split_a_source_only_if_its_language_is_named(model: Path, packs: list[Path]) -> None:
    alone, translator = manyglot.load(model, device="cpu"), manyglot.load(model, device="cpu", packs=packs)

    def translate(model: Translator, source: str | None = None) -> list[Translation]:
        """Translate without the warnings, which name the languages of packs that know the characters."""
        (n_best,) = model.translate_n_best(TEXT["sw"][:1], to="en", n=3, source=source)
        return [replace(each, warnings=()) for each in n_best]

    unnamed = translate(translator)
    assert unnamed == translate(alone)
    assert unnamed == translate(translator, "de")
    assert unnamed != translate(translator, "sw")


def test_unknown_characters_are_those_of_the_language(model: Path, packs: list[Path]) -> None:
    translator = manyglot.load(model, device="cpu", packs=packs)
    with pytest.warns(match=r"unknown to the model.*The subwords of ka have them: .*\(--from ka, or source=\"ka\" in"):
        translator.translate(TEXT["ka"], to="en")
    with pytest.warns(match=r"may be missing in the translation\.$"):
        translator.translate(["\u2603"], to="en")
    with pytest.warns(match=r"may be missing in the translation\.$"):
        translator.translate(TEXT["ka"][:1], to="en", source="en")
    assert not any(each[0].warnings for each in translator.translate_n_best(TEXT["ka"], to="en", n=1, source="ka"))
    (score,) = translator.score(TEXT["ka"][:1], TEXT["sw"][:1], to="sw", source="ka")
    assert not score.warnings


def test_scores_equal_those_of_a_search(model: Path, packs: list[Path]) -> None:
    translator = manyglot.load(model, device="cpu", packs=packs)
    for direction in permutations(("de", *NEW), 2):
        source, target = direction
        ((best,),) = translator.translate_n_best(TEXT[source][:1], to=target, n=1, source=source)
        (given,) = translator.score(TEXT[source][:1], [best.text], to=target, source=source)
        encoded = translator.vocabulary.encode_targets([best.text], [target])
        if translator.vocabulary.decode(encoded) == [best.text] and best.text and len(encoded[0]) < 12:
            assert given.score >= best.score - 1e-4


def test_the_same_weights_translate_alike_with_and_without_a_pack(model: Path, packs: list[Path]) -> None:
    """The extended model copies every old weight."""
    original = load_model(model)
    extended = add_packs(original, [LanguagePack.load(packs[0])])
    size = len(original.vocabulary.subword_model)
    assert torch.equal(extended.model.embedding.weight[:size], original.model.embedding.weight[:size])
    assert extended.model.encoder is original.model.encoder
    assert extended.original is original


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_continuous_batching_keeps_every_bit(model: Path, packs: list[Path]) -> None:
    expected = results_of(manyglot.load(model, device="cuda"))
    translator = manyglot.load(model, device="cuda", packs=packs).with_text_options(warn=False)
    assert results_of(translator) == expected
    letters = set("".join(TEXT["sw"])) | {" ", "⁇"}
    n_best = translator.translate_n_best(TEXT["ka"], to="sw", source="ka", n=3)
    on_cpu = manyglot.load(model, device="cpu", packs=packs).translate_n_best(TEXT["ka"], to="sw", source="ka", n=3)
    for mine, theirs in zip(n_best, on_cpu, strict=True):
        assert set(mine[0].text) <= letters
        assert mine[0].score == pytest.approx(theirs[0].score, abs=0.02)


@pytest.fixture
def pack(model: Path, tmp_path: Path) -> Path:
    return save_random_pack(tmp_path / "sw.pack", load_model(model), "sw")


def expect_error(model: Path, packs: list[Path], message: str) -> None:
    with pytest.raises(ManyglotError, match=message) as info:
        manyglot.load(model, device="cpu", packs=packs)
    assert "\n" not in str(info.value)


def test_another_model_refuses_a_pack(pack: Path, tmp_path: Path) -> None:
    other = save_random_model(tmp_path / "other", ADAPTER, seed=3).folder
    assert other is not None
    expect_error(other, [pack], "belongs to another model than .*other")


def test_a_language_is_added_once(model: Path, pack: Path, packs: list[Path]) -> None:
    expect_error(model, [pack, *packs], r"sw.pack adds the language 'sw', but so does .*sw.pack")


@pytest.mark.parametrize("name", ["pack.json", "weights.safetensors", "subwords.sw.model"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "altered", "link"])
def test_a_damaged_pack_is_one_error(name: str, damage: str, model: Path, pack: Path, tmp_path: Path) -> None:
    path = pack / name
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
        if name != "pack.json":
            return  # the checksum protects the others
    else:
        middle = len(content) // 2
        altered = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        path.write_bytes(content[:-5] if damage == "truncated" else altered)
    expect_error(model, [pack], "pack")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("nowhere", r"nowhere does not exist\.$"),
        ("a.pack,b.pack", "does not exist. To use several packs, repeat --pack."),
        (".", r"is not a language pack \(it has no pack.json\)"),
        ("model", "is not a language pack"),
    ],
)
def test_another_folder_is_not_a_pack(wrong: str, message: str, model: Path) -> None:
    expect_error(model, [model.parent / wrong], message)


def test_a_pack_is_not_a_model_and_its_training_is_not_a_pack(model: Path, pack: Path) -> None:
    with pytest.raises(ManyglotError, match=f"It is a language pack: give the model .*, and --pack {pack}"):
        manyglot.load(pack)
    training = pack.with_name(f"{pack.name}.training")
    (training / "run").mkdir(parents=True)
    expect_error(model, [training], f"is not a language pack, but the folder of its training. The pack is {pack}.")
