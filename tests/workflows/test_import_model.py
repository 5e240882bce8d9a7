"""`manyglot import`: what it writes, and what it refuses."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import manyglot
from manyglot.cli import main
from manyglot.corpus.languages import Direction
from manyglot.errors import LanguageError, ManyglotError
from manyglot.model.model_folder import load_model
from tests.importers.random_checkpoints import write_checkpoint
from tests.importers.test_equality import TEXT

pytest.importorskip("transformers")
NUM_DAMAGED = 30
pytestmark = [
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    for family in ("nllb", "marian", "marian_multilingual"):
        write_checkpoint(family, folder / family, TEXT[:-1], size=200, width=16)
    return folder


def test_the_command_writes_a_model_folder(
    checkpoints: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["import", str(checkpoints / "nllb"), "-o", str(tmp_path / "model"), "--json"])
    assert json.loads(capsys.readouterr().out) == {"model": str(tmp_path / "model")}
    trained = load_model(tmp_path / "model")
    assert trained.vocabulary.languages.codes == ("deu_Latn", "eng_Latn", "kat_Geor", "zho_Hans")
    assert len(trained.trained_directions) == 12
    assert trained.config["decoding"] | {"beam_size": 4, "max_length": 57} == trained.config["decoding"]
    assert "imported from nllb (m2m_100)" in str(manyglot.describe(tmp_path / "model"))


def test_an_imported_model_translates_and_is_evaluated(checkpoints: Path, tmp_path: Path) -> None:
    folder = manyglot.import_model(checkpoints / "nllb", tmp_path / "model")
    model = manyglot.load(folder, device="cpu").with_settings(max_length=5)
    with pytest.raises(ManyglotError, match="--to: onnx needs a SentencePiece model"):
        manyglot.export(folder, tmp_path / "onnx", export_format="onnx")
    assert not (tmp_path / "onnx").exists()
    assert len(model.translate(TEXT[:2], to="German", source="en")) == 2
    with pytest.raises(ManyglotError, match="--from"):
        model.translate(TEXT[:2], to="de")
    for code, line in (("de", TEXT[0]), ("en", TEXT[2])):
        (tmp_path / f"test.{code}").write_text(f"{line}\n", "utf-8")
    result = manyglot.evaluate(folder, test=tmp_path, overrides=["decoding.max_length=5"])
    assert {(each.source, each.target) for each in result.directions} == {("de", "en"), ("en", "de")}


def test_a_bilingual_model_has_one_target_language(checkpoints: Path, tmp_path: Path) -> None:
    folder = manyglot.import_model(checkpoints / "marian", tmp_path / "model")
    trained = load_model(folder)
    assert trained.config["guidance"] == []
    assert trained.trained_directions == (Direction("eng", "deu"),)
    model = manyglot.load(folder, device="cpu").with_settings(max_length=5)
    assert len(model.translate(TEXT[:2], to="de")) == 2
    with pytest.raises(LanguageError, match="English"):
        model.translate(TEXT[:2], to="en")


def test_tags_name_the_target_languages_of_marian(checkpoints: Path, tmp_path: Path) -> None:
    model = manyglot.load(manyglot.import_model(checkpoints / "marian_multilingual", tmp_path / "model"), device="cpu")
    assert model.languages.codes == ("deu", "nld", "zho_Hans")
    assert model.engine.languages.codes == ("deu", "eng", "nld", "zho_Hans")


def test_an_export_translates_into_the_same_languages(checkpoints: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    manyglot.export(manyglot.import_model(checkpoints / "marian_multilingual", tmp_path / "model"), tmp_path / "export")
    with pytest.raises(ManyglotError, match="--to: onnx needs a SentencePiece model"):
        manyglot.export(tmp_path / "model", tmp_path / "onnx", export_format="onnx")
    export = manyglot.load(tmp_path / "export")
    assert export.languages.codes == ("deu", "nld", "zho_Hans")
    assert len(export.with_settings(max_length=5).translate(TEXT[:2], to="nl")) == 2


def test_options_state_the_languages_of_marian(checkpoints: Path, tmp_path: Path) -> None:
    folder = copy_of(checkpoints / "marian", tmp_path)
    edit(folder / "tokenizer_config.json", source_lang="roa", target_lang=None)
    with pytest.raises(ManyglotError, match=r"has no target_lang. Give --target"):
        manyglot.import_model(folder, tmp_path / "model")
    with pytest.raises(ManyglotError, match=r"'roa' is not one language. Name the languages: --source"):
        manyglot.import_model(folder, tmp_path / "model", target="en")
    with pytest.raises(ManyglotError, match="one target language, not en, de"):
        manyglot.import_model(folder, tmp_path / "model", "fr,es", "en,de")
    with pytest.raises(ManyglotError, match="same language, en"):
        manyglot.import_model(folder, tmp_path / "model", "fr,en", "en")
    trained = load_model(manyglot.import_model(folder, tmp_path / "model", "fr,es", "en"))
    assert trained.trained_directions == (Direction("fr", "en"), Direction("es", "en"))
    with pytest.raises(ManyglotError, match="--source and --target apply to Marian models only"):
        manyglot.import_model(checkpoints / "nllb", tmp_path / "other", "de")


def test_weights_may_be_in_parts_and_in_half_precision(checkpoints: Path, tmp_path: Path) -> None:
    folder = copy_of(checkpoints / "nllb", tmp_path)
    whole = load_model(manyglot.import_model(folder, tmp_path / "whole")).model.state_dict()
    split_weights(folder, dtype=torch.float16)
    for name, tensor in load_model(manyglot.import_model(folder, tmp_path / "model")).model.state_dict().items():
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor, whole[name], rtol=1e-3, atol=1e-3)


def copy_of(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "checkpoint"))


def edit(path: Path, **changes: Any) -> None:
    values = json.loads(path.read_text("utf-8")) | changes
    path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}), "utf-8")


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def split_weights(folder: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write the weights as two parts and an index."""
    tensors = {name: tensor.to(dtype) for name, tensor in load_file(folder / "model.safetensors").items()}
    names = sorted(tensors)
    parts = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(names)}
    for part in sorted(set(parts.values())):
        save_file({name: tensors[name] for name in names if parts[name] == part}, folder / part)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": parts}))
    (folder / "model.safetensors").unlink()


def config(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: edit(folder / "config.json", **changes)


def removed(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def without_second_part(folder: Path) -> None:
    split_weights(folder)
    (folder / "model-00002-of-00002.safetensors").unlink()


def with_part_elsewhere(folder: Path) -> None:
    split_weights(folder)
    edit(folder / "model.safetensors.index.json", weight_map={"x": "../x.safetensors"})


def with_nan(folder: Path) -> None:
    edit_weights(folder, lambda tensors: tensors["model.encoder.layers.0.fc1.bias"].fill_(torch.nan))


def with_small_weight(folder: Path) -> None:
    edit_weights(folder, lambda tensors: tensors.update({"model.encoder.layers.0.fc1.bias": torch.zeros(3)}))


def with_another_output_layer(folder: Path) -> None:
    edit_weights(folder, lambda tensors: tensors.update({"lm_head.weight": tensors["model.shared.weight"] + 1}))


NLLB_DEFECTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "no config": (removed("config.json"), "has no config.json, so it is not a model of transformers"),
    "damaged config": (lambda folder: (folder / "config.json").write_text("{"), "config.json is damaged"),
    "another architecture": (config(model_type="t5"), "model_type 't5' cannot be imported. Supported models: M2M100"),
    "experts": (config(model_type="nllb-moe"), "model_type 'nllb-moe' cannot be imported"),
    "no tokenizer": (removed("tokenizer.json"), "sentencepiece.bpe.model is missing, but the tokenizer"),
    "damaged tokenizer": (
        lambda folder: (folder / "tokenizer.json").write_text("{}"),
        "tokenizer.json is not a supported tokenizer, or it is damaged: it has no model",
    ),
    "another tokenizer": (
        lambda folder: edit(folder / "tokenizer_config.json", tokenizer_class="MBartTokenizer"),
        "'MBartTokenizer' cannot be imported with this model. Supported tokenizers: M2M100Tokenizer, NllbTokenizer",
    ),
    "no weights": (removed("model.safetensors"), "has no model.safetensors"),
    "pickled weights": (pickled, r"pytorch_model.bin is pickled.* python -c .*save_pretrained"),
    "damaged weights": (lambda folder: (folder / "model.safetensors").write_bytes(b"x" * 99), "cannot be read"),
    "a missing part": (
        without_second_part,
        "00002-of-00002.safetensors is missing, but model.safetensors.index.json lists",
    ),
    "a part elsewhere": (with_part_elsewhere, "is not the name of a safetensors file"),
    "another vocabulary size": (config(vocab_size=100), "vocab_size is 100, but model.shared.weight has the shape"),
    "another width": (config(d_model=32), "do not fit config.json"),
    "more layers": (config(encoder_layers=3), "lack model.encoder.layers.2"),
    "a vocabulary size of 10^12": (config(vocab_size=10**12), "vocab_size is 1,000,000,000,000, but"),
    "no vocabulary size": (config(vocab_size=None), "vocab_size should be a non-negative integer"),
    "another shape": (with_small_weight, "encoder.0.ffn.inner.bias has the shape \\[3\\], expected \\[32\\]"),
    "another activation": (config(activation_function="tanh"), "activation_function 'tanh' is not supported"),
    "another start symbol": (config(decoder_start_token_id=7), "decoder_start_token_id is 7, but only 2"),
    "untied embeddings": (with_another_output_layer, "have different embeddings"),
    "NaN": (with_nan, "NaN or infinity"),
    "bad decoding settings": (
        lambda folder: edit(folder / "generation_config.json", num_beams=0),
        "generation_config.json",
    ),
}
MARIAN_DEFECTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "no target model": (removed("target.spm"), "target.spm is missing"),
    "no table": (removed("vocab.json"), "vocab.json is missing"),
    "damaged model": (lambda folder: (folder / "source.spm").write_bytes(b"\xff"), "checkpoint does not fit|damaged"),
    "two vocabularies": (config(share_encoder_decoder_embeddings=False), "separate vocabularies"),
    "a list as table": (lambda folder: (folder / "vocab.json").write_text("[]"), "vocab.json is damaged"),
    "an id too large": (
        lambda folder: edit(folder / "vocab.json", x=10**9),
        "ids up to 1,000,000,000, but the weights",
    ),
    "an id twice": (lambda folder: edit(folder / "vocab.json", x=0), "two tokens have the same id"),
    "no end symbol": (lambda folder: edit(folder / "vocab.json", **{"</s>": None}), "no token '</s>'"),
}


@pytest.mark.parametrize(("break_it", "message"), NLLB_DEFECTS.values(), ids=NLLB_DEFECTS)
def test_a_folder_with_a_defect_is_refused(
    break_it: Callable[[Path], None], message: str, checkpoints: Path, tmp_path: Path
) -> None:
    check_refused("nllb", break_it, message, checkpoints, tmp_path)


@pytest.mark.parametrize(("break_it", "message"), MARIAN_DEFECTS.values(), ids=MARIAN_DEFECTS)
def test_a_marian_folder_with_a_defect_is_refused(
    break_it: Callable[[Path], None], message: str, checkpoints: Path, tmp_path: Path
) -> None:
    check_refused("marian", break_it, message, checkpoints, tmp_path)


def check_refused(
    family: str, break_it: Callable[[Path], None], message: str, checkpoints: Path, tmp_path: Path
) -> None:
    folder = copy_of(checkpoints / family, tmp_path)
    break_it(folder)
    with pytest.raises(ManyglotError, match=message) as info:
        manyglot.import_model(folder, tmp_path / "model")
    assert "\n" not in str(info.value)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"], "nothing is written"


def test_a_name_that_is_not_cached_and_an_absent_folder_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ManyglotError, match="hf://owner/name is not in the cache"):
        manyglot.import_model("hf://owner/name", tmp_path / "model")
    with pytest.raises(ManyglotError, match="is not a folder"):
        manyglot.import_model(tmp_path / "absent", tmp_path / "model")


@pytest.mark.parametrize("family", ["nllb", "marian"])
def test_damaged_files_are_refused_or_change_little(family: str, checkpoints: Path, tmp_path: Path) -> None:
    """Whatever bytes change: one line, or a model folder."""
    errors: list[str] = []
    rng, names = random.Random(1), [path.name for path in sorted((checkpoints / family).iterdir())]
    for case in range(NUM_DAMAGED):
        folder = Path(shutil.copytree(checkpoints / family, tmp_path / f"checkpoint-{case}"))
        path = folder / names[case % len(names)]
        content = bytearray(path.read_bytes())
        for _ in range(rng.choice((1, 1, 1, 20))):
            start = rng.randrange(len(content)) if case % 2 else rng.randrange(min(len(content), 2000))
            content[start : start + rng.choice((0, 1, 8))] = rng.choice(
                (b"", b"0", b"[", b"99999999999", rng.randbytes(1))
            )
        path.write_bytes(content)
        try:
            manyglot.import_model(folder, tmp_path / f"model-{case}")
        except ManyglotError as error:
            errors.append(str(error))
            folder = tmp_path / f"model-{case}"
        assert folder.name.startswith("checkpoint") or not folder.exists()
    assert len(errors) > NUM_DAMAGED // 3
    assert not [error for error in errors if "\n" in error or len(error) > 1000]
