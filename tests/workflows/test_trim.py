"""`manyglot trim`: the small model translates as the whole model without the removed subwords and languages."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch

import manyglot
from manyglot.batches.batch import collate_sources
from manyglot.config.experiment import Experiment
from manyglot.corpus.languages import Direction, Languages
from manyglot.decoding.beam_search import BeamSearch
from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.search_batch import SearchBatch
from manyglot.decoding.translator import Translator, saved_decoding_settings
from manyglot.errors import ManyglotError
from manyglot.model.guidance.base import MethodSettings
from manyglot.model.language_pack import load_with_packs
from manyglot.model.model_folder import TrainedModel, load_model, save_model
from manyglot.model.transformer import Transformer
from manyglot.model.trimming import trim_model
from manyglot.vocabulary.subword_model import UNK
from manyglot.vocabulary.trimming import TrimmedSubwords, trim_subword_model
from manyglot.vocabulary.vocabulary import Vocabulary
from manyglot.workflows.trim import TrimmedModel
from tests.commands import mistake, run
from tests.exporters.random_models import SETTINGS, VOCABULARY, random_model
from tests.importers.random_checkpoints import FAMILIES, write_checkpoint
from tests.importers.test_equality import TEXT
from tests.model.guidance.combinations import COMBINATIONS
from tests.model.random_packs import NEW, save_random_model, save_random_pack
from tests.model.random_packs import TEXT as OTHER_TEXT
from tests.model.variants import VARIANTS

pytestmark = [
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
REMOVED = -1e9
"""The logit of a removed subword. Its probability is exactly zero."""
FEW_SUBWORDS = ["Once upon a midnight dreary", "a curious volume"]


def without_rows(model: Transformer, kept: Collection[int]) -> Transformer:
    """Return the model with all logits masked except those of some rows."""
    settings = model.settings.model_copy(update={"output_bias": True})
    masked = Transformer(settings, model.methods, model.dimensions.first_tag_id, model.num_languages)
    bias_V = torch.zeros(len(model.embedding.weight)) if model.output_bias is None else model.output_bias.detach()
    is_removed_V = torch.tensor([row not in kept for row in range(len(bias_V))])
    masked.load_state_dict(model.state_dict() | {"output_bias": bias_V.masked_fill(is_removed_V, REMOVED)})
    return masked.to(model.embedding.weight.dtype).eval()


def rows_of(whole: TrainedModel, trimmed: TrainedModel) -> list[int]:
    """Return the row that each row of the trimmed model had."""
    old, new = whole.vocabulary, trimmed.vocabulary
    ids = {piece: i for i, piece in enumerate(old.subword_model.pieces()) if i > UNK}
    subwords = [ids[piece] for piece in new.subword_model.pieces()[UNK + 1 :]]
    return [*range(UNK + 1), *subwords, *(old.tag_id(old.languages.id(code)) for code in new.languages)]


@cache
def trimmed_subwords() -> TrimmedSubwords:
    """Return the subwords of a few sentences, for two of three languages."""
    return trim_subword_model(VOCABULARY.subword_model, set(chain(*VOCABULARY.encode(FEW_SUBWORDS))), ["de", "fr"])


def search(
    model: Transformer, sources: Sequence[Sequence[int]], languages: list[int], source_languages: list[int]
) -> list[list[Hypothesis]]:
    beam = BeamSearch(model, SETTINGS.model_copy(update={"max_length": 8}))
    tagged = collate_sources(sources, languages, beam.tags, source_languages)
    return beam.search(SearchBatch(tagged, languages, torch.tensor(languages[::-1])))


def check_equal_search(methods: Sequence[MethodSettings], **settings: Any) -> None:
    whole = random_model(methods, end=1, **settings)
    whole.model.double()
    old, kept = whole.vocabulary, ["de", "fr"]
    trimmed = trim_model(whole, kept, trimmed_subwords(), "whole")
    rows = rows_of(whole, trimmed)
    assert len(rows) < 0.8 * len(old)
    sources = [ids for ids in trimmed.vocabulary.encode(FEW_SUBWORDS) for _ in kept]
    targets = [0, 1] * len(FEW_SUBWORDS)
    found = search(trimmed.model, sources, targets, targets[::-1])
    old_ids = [old.languages.id(kept[i]) for i in targets]
    expected = search(
        without_rows(whole.model, rows), [[rows[i] for i in ids] for ids in sources], old_ids, old_ids[::-1]
    )
    assert len({best.score for best, *_ in found}) > 1
    for ours, theirs in zip(found, expected, strict=True):
        assert [tuple(rows[i] for i in each.ids) for each in ours] == [each.ids for each in theirs]
        assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], abs=1e-12)


@pytest.mark.parametrize("norm", ["post", pytest.param("pre", marks=pytest.mark.slow)])
@pytest.mark.parametrize("methods", COMBINATIONS.values(), ids=COMBINATIONS)
def test_the_search_finds_what_the_whole_model_finds_without_the_other_subwords(
    methods: Sequence[MethodSettings], norm: str
) -> None:
    check_equal_search(methods, norm=norm)


@pytest.mark.parametrize("settings", [*VARIANTS.values(), {"norm": "pre"}], ids=[*VARIANTS, "pre-norm"])
def test_other_architectures_are_trimmed(settings: dict[str, Any]) -> None:
    check_equal_search(COMBINATIONS["LAA + Token_tgt"], **settings)


@pytest.fixture(scope="module")
def nllb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An imported model."""
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("nllb")
    return manyglot.import_model(write_checkpoint("nllb", folder / "checkpoint", TEXT[:-1]), folder / "model")


KEPT = {"nllb": "German, en", "m2m100": "de,en", "mbart50": "de,en", "marian_multilingual": "eng,deu"}
LATIN = [line for line in TEXT[:-1] if line.isascii() or "ä" in line]


def check_equal_translations(model: Path, small: Path) -> None:
    whole, trimmed = load_model(model), load_model(small)
    masked = replace(whole, model=without_rows(whole.model, set(rows_of(whole, trimmed))))
    results = []
    for each in (masked, trimmed):
        translator = Translator.from_trained_model(each, saved_decoding_settings(each), torch.device("cpu"))
        translator = translator.with_settings(max_length=12).with_text_options(split="never", warn=False)
        n_best = translator.translate_n_best(LATIN, to="de", source="en", n=4)
        scores = translator.score(LATIN, LATIN[::-1], to="de", source="en")
        results.append([n_best, [score.log_probability for score in scores]])
    (expected, expected_scores), (found, scores) = results
    assert [[each.text for each in row] for row in found] == [[each.text for each in row] for row in expected]
    assert scores == pytest.approx(expected_scores, rel=1e-5)
    assert [each.score for row in found for each in row] == pytest.approx(
        [each.score for row in expected for each in row], rel=1e-5
    )
    assert len({row[0].score for row in found}) > 2


def trim_to_latin(model: Path, family: str, tmp_path: Path) -> TrimmedModel:
    (tmp_path / "text").write_text("\n".join(LATIN), "utf-8")
    return manyglot.trim(model, tmp_path / "small", KEPT[family], text=tmp_path / "text")


def test_an_imported_model_translates_as_without_the_other_subwords(nllb: Path, tmp_path: Path) -> None:
    small = trim_to_latin(nllb, "nllb", tmp_path)
    assert small.after.num_subwords < 0.8 * small.before.num_subwords
    assert small.after.num_languages == 2
    check_equal_translations(nllb, small.folder)


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"nllb", "marian"}))
def test_all_imported_families_are_trimmed(family: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    model = manyglot.import_model(write_checkpoint(family, tmp_path / "checkpoint", TEXT[:-1]), tmp_path / "model")
    check_equal_translations(model, trim_to_latin(model, family, tmp_path).folder)


def test_the_command_writes_a_model_folder(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = run(
        capsys, "trim", trained.run, "--languages", "qaa,qac", "--data", trained.data, "-o", tmp_path / "small"
    )
    assert out.startswith(f"{tmp_path / 'small'}: qaa, qac\n")
    small, whole = load_model(tmp_path / "small"), load_model(trained.run / "model")
    assert small.vocabulary.languages.codes == ("qaa", "qac")
    assert {"qab"}.isdisjoint(code for direction in small.trained_directions for code in direction)
    assert small.config == whole.config | {
        "vocabulary": whole.config["vocabulary"] | {"size": len(small.vocabulary.subword_model)}
    }
    assert small.source_lengths == whole.source_lengths
    shown = str(manyglot.describe(tmp_path / "small"))
    assert f"step {small.training_info['step']} of 6" in shown
    assert f", trimmed from {trained.run}" in shown
    card = (tmp_path / "small" / "README.md").read_text("utf-8")
    assert "It is a part of the model `run`, which has 3 languages and 120 subwords." in card
    assert "validation metric" not in card
    with pytest.raises(ManyglotError, match="Unknown language 'qab'"):
        manyglot.load(small.folder or "").translate(["a"], to="qab")


def test_prepared_data_and_its_text_give_the_same_subwords(trained: Experiment, tmp_path: Path) -> None:
    text = trained.data / "text"
    (tmp_path / "text.yaml").write_text(f"{{path: {text}, languages: [qaa, qac]}}", "utf-8")
    files = [path for path in text.iterdir() if path.suffix != ".qab"]
    arguments: list[dict[str, Any]] = [
        {"data": trained.data},
        {"text": text},
        {"text": tmp_path / "text.yaml"},
        {"text": files},
    ]
    results = [
        manyglot.trim(trained.run, tmp_path / str(number), ["qaa", "qac"], **each)
        for number, each in enumerate(arguments)
    ]
    for result in results:
        assert result.after == replace(results[0].after, num_bytes=result.after.num_bytes)
        assert (result.folder / "subwords.model").read_bytes() == (results[0].folder / "subwords.model").read_bytes()
    assert results[0].after.num_subwords < results[0].before.num_subwords == 120
    assert "subwords" in repr(results[0])


def test_only_languages_are_dropped_without_text(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = manyglot.export(trained.run, tmp_path / "half", export_format="manyglot")[0]
    out, err = run(capsys, "trim", half, "--languages", "qac", "--languages", "QAB", "-o", tmp_path / "small", "--json")
    assert "All subwords stay." in err
    assert "all of them are zero-shot" in err
    sizes = json.loads(out)
    assert sizes["languages"] == ["qab", "qac"]
    assert sizes["before"]["num_subwords"] == sizes["after"]["num_subwords"] == 120
    assert sizes["before"]["num_embedding_parameters"] - sizes["after"]["num_embedding_parameters"] == 16
    assert (
        sizes["after"]["num_bytes"]
        < sizes["before"]["num_bytes"]
        < (trained.run / "model" / "model.safetensors").stat().st_size
    )
    assert (half / "subwords.model").read_bytes() == (tmp_path / "small" / "subwords.model").read_bytes()


def test_a_trimmed_model_is_exported_and_trained_further(trained: Experiment, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    small = manyglot.trim(trained.run, tmp_path / "small", "qaa,qac", data=trained.data)
    manyglot.export(small, tmp_path / "ctranslate2", "qac")
    manyglot.export(small, tmp_path / "transformers", "qac", "transformers")
    sources = ["ba to ku", "zi"]
    expected = manyglot.load(small, device="cpu").with_text_options(warn=False).translate(sources, to="qac")
    exported = manyglot.load(tmp_path / "ctranslate2").with_text_options(warn=False).translate(sources, to="qac")
    assert exported == expected
    experiment = trained.to_dict() | {
        "data": str(tmp_path / "data"),
        "run": str(tmp_path / "run"),
        "init": {"model": str(small.folder)},
        "vocabulary": {"sentencepiece_model": str(small.folder / "subwords.model")},
        "training": trained.to_dict()["training"] | {"max_steps": 1},
    }
    manyglot.prepare(experiment)
    manyglot.train(experiment)
    with pytest.raises(ManyglotError, match="has other subwords than the model"):
        manyglot.trim(small, tmp_path / "again", data=trained.data)
    assert manyglot.trim(small, tmp_path / "again", data=tmp_path / "data").after.num_languages == 2


def test_a_model_with_further_languages_is_trimmed(tmp_path: Path) -> None:
    original = save_random_model(tmp_path / "original", COMBINATIONS["adapter"])
    packs = [save_random_pack(tmp_path / f"{code}.pack", original, code, seed) for seed, code in enumerate(NEW)]
    save_model(tmp_path / "model", replace(load_with_packs(tmp_path / "original", packs), original=None))
    (tmp_path / "text").write_text("die Katze schläft", "utf-8")
    small = manyglot.trim(tmp_path / "model", tmp_path / "small", "de,sw", text=tmp_path / "text")
    whole, trimmed = load_model(tmp_path / "model").vocabulary, load_model(small.folder).vocabulary
    assert list(trimmed.subword_model.further_languages) == ["sw"]
    assert len(trimmed.subword_model.original) < len(whole.subword_model.original)
    for lines, code in ((["die Katze"], "de"), (OTHER_TEXT["sw"], "sw")):
        old, new = (
            [each.subword_model.pieces()[i] for i in each.encode(lines, [code])[0]] for each in (whole, trimmed)
        )
        assert old == new
    translator = manyglot.load(small, device="cpu").with_text_options(warn=False)
    outputs = translator.translate(OTHER_TEXT["de"], to="sw", source="de")
    assert set("".join(outputs)) <= {*"".join(OTHER_TEXT["sw"]), " ", "⁇"}


MISTAKES = {
    "an unknown language": (["--languages", "qaa,qax"], r"Unknown language 'qax'. Did you mean"),
    "another language": (["--languages", "qaa,German"], r"German \(de\) is not among the model's languages"),
    "one language": (["--languages", "qaa"], "at least two languages, but only qaa is left"),
    "one language twice": (["--languages", "qaa,QAA"], "at least two languages"),
    "nothing to trim": ([], "There is nothing to trim. Give --languages, --text or --data"),
    "an empty file": (["--text", "empty"], "empty has no text in qaa, qab, qac"),
    "a missing file": (["--text", "nowhere"], "no file or folder nowhere"),
    "text in other languages": (["--languages", "qaa,qab", "--text", "corpus"], "no text in qaa, qab"),
    "text without one language": (["--languages", "qaa,qab", "--text", "one"], r"no text in qab \(qab\), so its"),
    "no prepared data": (["--data", "corpus"], "corpus is not a prepared dataset"),
    "an existing folder": (["--languages", "qaa,qab", "-o", "corpus"], "corpus already exists"),
    "no model": (["--languages", "qaa,qab", "model"], "model does not exist|unexpected extra argument"),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line_and_nothing_is_written(
    arguments: list[str],
    message: str,
    trained: Experiment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").write_text("\n\n", "utf-8")
    for folder, codes in (("corpus", ("de", "fr")), ("one", ("qaa", "qac"))):
        (tmp_path / folder).mkdir()
        for code in codes:
            (tmp_path / folder / f"train.{code}").write_text("ba\n", "utf-8")
    before = sorted(tmp_path.rglob("*"))
    output = [] if "-o" in arguments else ["-o", "small"]
    monkeypatch.setenv("MANYGLOT_QUIET", "")  # restored afterward
    assert re.search(message, mistake(capsys, "--quiet", "trim", trained.run, *output, *arguments))
    assert sorted(tmp_path.rglob("*")) == before


def test_text_needs_letters_of_each_language(nllb: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("\n".join(LATIN), "utf-8")
    with pytest.raises(ManyglotError, match=r"no text in zho_Hans \(Chinese \(Hans\)\), so its subwords would"):
        manyglot.trim(nllb, tmp_path / "small", "de,zh", text=tmp_path / "text")
    assert not (tmp_path / "small").exists()


def test_text_and_data_complete_each_other(trained: Experiment, tmp_path: Path) -> None:
    (tmp_path / "train.qac").write_text("ba ku\n", "utf-8")
    with pytest.raises(ManyglotError, match=r"no text in qab"):
        manyglot.trim(trained.run, tmp_path / "a", "qab,qac", text=tmp_path)
    both = manyglot.trim(trained.run, tmp_path / "a", "qab,qac", text=tmp_path, data=trained.data)
    alone = manyglot.trim(trained.run, tmp_path / "b", "qab,qac", data=trained.data)
    assert both.after.num_subwords >= alone.after.num_subwords


def test_a_model_needs_a_language_of_each_side(tmp_path: Path) -> None:
    trained = save_random_model(tmp_path / "model", COMBINATIONS["laa"])
    vocabulary = Vocabulary(trained.vocabulary.subword_model, Languages(["de", "en", "fr"]))
    model = Transformer(trained.model.settings, trained.model.methods, len(vocabulary.subword_model), 3)
    directions = (Direction("en", "de"), Direction("en", "fr"))
    one_sided = replace(
        trained, model=model, vocabulary=vocabulary, trained_directions=directions, targets=("de", "fr")
    )
    save_model(tmp_path / "one-sided", one_sided)
    with pytest.raises(ManyglotError, match=r"it translates from en into de, fr\. Keep a language of each side"):
        manyglot.trim(tmp_path / "one-sided", tmp_path / "small", "de,fr")
    small = load_model(manyglot.trim(tmp_path / "one-sided", tmp_path / "small", "fr,en").folder)
    assert (small.targets, small.trained_directions) == (("fr",), (Direction("en", "fr"),))
    assert 'to="fr"' in (tmp_path / "small" / "README.md").read_text("utf-8")
