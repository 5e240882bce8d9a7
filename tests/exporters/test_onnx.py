"""The program of an ONNX export reproduces the native search with onnxruntime alone, for all guidance methods."""

from __future__ import annotations

import builtins
import importlib.util
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import nn

from manyglot.config.base_settings import parse_settings
from manyglot.decoding.beam_search import BeamSearch
from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.loading import load
from manyglot.decoding.search_batch import SearchBatch
from manyglot.decoding.settings import DecodingSettings
from manyglot.decoding.translator import Translator
from manyglot.errors import FolderError, ManyglotError, SettingsError
from manyglot.exporters.onnx.export import MANIFEST_NAME, PROGRAM, export_to_onnx
from manyglot.exporters.onnx.language_maps import LanguageMaps, factorize
from manyglot.model import guidance
from manyglot.model.folding import FoldingError
from manyglot.model.guidance import METHODS, GuidanceMethod, parse_method_settings
from manyglot.model.guidance.base import MethodSettings
from manyglot.model.hook_probe import AffineMap
from manyglot.model.layers import DecoderLayer
from manyglot.model.model_folder import TrainedModel
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import EOS, PAD
from manyglot.workflows.export import EXPORTERS
from tests.exporters.random_models import CODES, SETTINGS, VOCABULARY, sentences
from tests.exporters.test_ctranslate2 import full_disk_for
from tests.model.guidance.combinations import COMBINATIONS
from tests.model.guidance.everywhere import Everywhere, EverywhereSettings

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

EXPORTABLE = [name for name, methods in COMBINATIONS.items() if "random_laa" not in {each.method for each in methods}]


def random_model(methods: Sequence[MethodSettings], **changes: Any) -> TrainedModel:
    """Return a random model that ends its outputs, of different lengths."""
    torch.manual_seed(0)
    sizes = {"width": 16, "ffn_width": 32, "num_heads": 4, "num_encoder_layers": 1, "num_decoder_layers": 2}
    settings = parse_settings(ModelSettings, sizes | changes)
    model = Transformer(settings, methods, len(VOCABULARY.subword_model), len(CODES)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        model.embedding.weight *= 2
        last = model.decoder[-1]
        assert isinstance(last, DecoderLayer)
        norm = last.ffn_sublayer.norm if settings.norm == "post" else model.decoder_final_norm
        assert isinstance(norm, nn.LayerNorm)
        norm.weight[0], norm.bias[0] = 0, 1
        model.embedding.weight[:, 0] = 0
        model.embedding.weight[EOS, 0] = 3
    return TrainedModel(model, VOCABULARY, (), {"decoding": SETTINGS.model_dump()})


def search_natively(
    trained: TrainedModel, sources: list[list[int]], languages: list[int], settings: DecodingSettings = SETTINGS
) -> list[Hypothesis]:
    """Return the best hypotheses of the native beam search; the sources have their tags."""
    source_BS = nn.utils.rnn.pad_sequence([torch.tensor(source) for source in sources], True, PAD)
    search = BeamSearch(trained.model, settings)
    return [hypotheses[0] for hypotheses in search.search(SearchBatch(source_BS, languages))]


def load_program(folder: Path) -> Any:
    """Load the translator of the program in an export."""
    spec = importlib.util.spec_from_file_location("program", folder / PROGRAM.name)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    options = program.SessionOptions()
    options.intra_op_num_threads = 1
    return program.Translator(folder, options)


def check(trained: TrainedModel, program: Any, settings: DecodingSettings = SETTINGS) -> None:
    """Compare the program of an export with the native search, for all target languages."""
    program.manifest["decoding"] = settings.model_dump()
    sources = sentences()[0]
    for language, tags in enumerate(trained.model.tags_by_language()):
        rows = [[*tags.source_prefix(CODES.index("en")), *source, EOS] for source in sources]
        expected = search_natively(trained, rows, [language] * len(rows), settings)
        got = program.search(sources, CODES[language], "en")
        assert [ids for _, ids in got] == [list(each.ids) for each in expected]
        assert [score for score, _ in got] == pytest.approx([each.score for each in expected], abs=1e-5)


def check_mixed_languages(program: Any) -> None:
    """Compare the graphs with a language for each sentence to the graphs with one language for all."""
    source_BS = np.array([[5, 6, 7, EOS]] * len(CODES))
    together = first_step(program, source_BS, np.arange(len(CODES)))
    for language in range(len(CODES)):
        alone = first_step(program, source_BS[:1], np.array([language]))
        np.testing.assert_allclose(together[language], alone[0], atol=1e-5)


def first_step(program: Any, source_BS: Any, language: Any) -> Any:
    """Return the scores of the best first tokens."""
    state = {"source": source_BS, "language": language}
    names = [output.name for output in program.encoder.get_outputs()]
    state |= zip(names, program.encoder.run(None, state), strict=True)
    state |= {"token": np.full((len(source_BS), 1), EOS), "forced": np.full(len(source_BS), -1)}
    return program.decoder.run(["next_score"], state | {"beam_size": np.array([5])})[0]


def check_export(trained: TrainedModel, folder: Path) -> None:
    """Export a model and compare it with the native search."""
    export_to_onnx(trained, folder)
    program = load_program(folder)
    check(trained, program)
    check_mixed_languages(program)


@pytest.mark.parametrize(("index", "name"), list(enumerate(EXPORTABLE)), ids=EXPORTABLE)
def test_an_export_reproduces_the_native_search(index: int, name: str, tmp_path: Path) -> None:
    check_export(random_model(COMBINATIONS[name], norm=("post", "pre")[index % 2]), tmp_path / "model")


@pytest.mark.slow
@pytest.mark.parametrize(("index", "name"), list(enumerate(EXPORTABLE)), ids=EXPORTABLE)
def test_an_export_reproduces_the_native_search_with_the_other_norm(index: int, name: str, tmp_path: Path) -> None:
    check_export(random_model(COMBINATIONS[name], norm=("pre", "post")[index % 2]), tmp_path / "model")


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_method_of_ones_own_that_acts_everywhere(norm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guidance, "METHODS", (*METHODS, Everywhere))
    check_export(random_model([EverywhereSettings(), parse_method_settings({"method": "laln"})], norm=norm), tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"activation": "gelu", "embedding_norm": False, "scale_embeddings": False, "output_bias": True},
        {"activation": "silu", "positions": "learned", "max_positions": 128, "start_symbol": "pad"},
        {"norm": "pre", "position_offset": 2, "source_tag": True, "embedding_norm": False},
    ],
    ids=["no norm", "learned positions", "source tag"],
)
def test_the_settings_of_imported_models(changes: dict[str, Any], tmp_path: Path) -> None:
    check_export(random_model(COMBINATIONS["token"], **changes), tmp_path / "model")


def test_search_settings(tmp_path: Path) -> None:
    trained = random_model(COMBINATIONS["lee"])
    export_to_onnx(trained, tmp_path / "model")
    program = load_program(tmp_path / "model")
    for changes in ({"beam_size": 1}, {"beam_size": 6}, {"length_penalty": 0.0}, {"max_length": 2}):
        check(trained, program, parse_settings(DecodingSettings, SETTINGS.model_dump() | changes))


def test_the_program_runs_without_torch_and_manyglot(tmp_path: Path) -> None:
    trained = random_model(COMBINATIONS["LAA + Token_tgt"])
    export_to_onnx(trained, tmp_path / "model")
    for name in ("torch", "manyglot"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} must not be imported')")
    texts = ["weak and weary", "", "over many a curious volume", "Once"]

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(tmp_path / "model" / PROGRAM.name), *options],
            input="".join(f"{text}\n" for text in texts),
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
        )

    result = run("--to", "fr")
    assert (result.returncode, result.stderr) == (0, "")
    translator = Translator.from_trained_model(trained, SETTINGS, torch.device("cpu"))
    assert result.stdout.split("\n")[:-1] == translator.translate(texts, to="fr")
    wrong = run("--to", "xx")
    assert wrong.returncode == 2
    assert "error: argument --to: invalid choice: 'xx'" in wrong.stderr


def test_the_program_refuses_a_sentence_that_is_too_long(tmp_path: Path) -> None:
    export_to_onnx(random_model(COMBINATIONS["lee"], positions="learned", max_positions=128), tmp_path / "model")
    program = load_program(tmp_path / "model")
    with pytest.raises(ValueError, match="a sentence of 129 tokens; the limit is 128"):
        program.search([[5] * 128], "de")
    program.search([[5] * 127], "de")


def test_the_contents_of_an_export_folder(tmp_path: Path) -> None:
    import onnx

    folder = tmp_path / "model"
    assert EXPORTERS["onnx"](random_model(COMBINATIONS["Adapter_enc,dec"]), folder) == [folder]
    names = {"encoder.onnx", "decoder.onnx", "weights.bin", "subwords.model", "pieces.json"}
    assert {path.name for path in folder.iterdir()} == names | {"README.md", MANIFEST_NAME, PROGRAM.name}
    manifest = json.loads((folder / MANIFEST_NAME).read_text("utf-8"))
    assert manifest["languages"] == list(CODES)
    assert manifest["decoding"]["beam_size"] == SETTINGS.beam_size
    assert manifest["files"].keys() == names
    with pytest.raises(FolderError, match=r"It is an export to ONNX: run .*translate\.py"):
        load(folder)
    for name in ("encoder.onnx", "decoder.onnx"):
        onnx.checker.check_model(folder / name, full_check=True)
        assert (folder / name).stat().st_size < 2**16  # the weights are elsewhere


def test_equal_tables_are_stored_once(tmp_path: Path) -> None:
    """LAA has one matrix per language for all layers, and its transpose for the outputs."""
    sizes = []
    for name in ("token", "LAA everywhere"):
        export_to_onnx(random_model(COMBINATIONS[name]), tmp_path / name)
        sizes.append((tmp_path / name / "weights.bin").stat().st_size)
    assert sizes[1] - sizes[0] == 2 * 4096  # each of them is smaller than the alignment


@pytest.mark.parametrize("placement", ["before_residual", "after_residual"])
def test_matrices_of_low_rank_are_stored_as_factors(placement: str, tmp_path: Path) -> None:
    """An adapter has a table of each factor for all layers, with 4 languages, width 64 and rank 2."""
    sizes = []
    for rank in ({}, {"rank": 2}):
        trained = random_model([parse_method_settings({"method": "adapter", "placement": placement} | rank)], width=64)
        export_to_onnx(trained, tmp_path / str(rank))
        sizes.append((tmp_path / str(rank) / "weights.bin").stat().st_size)
    num_languages = len(CODES)
    assert sizes[0] - sizes[1] == num_languages * 64 * 64 * 4 - 2 * 4096  # each of the small ones fills an alignment


@hypothesis_settings(max_examples=25)
@given(rank=st.integers(0, 16), scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_factorize_finds_the_rank(rank: int, scale: float) -> None:
    rng = torch.Generator().manual_seed(rank)
    left_DR, right_RD = (torch.randn(*shape, generator=rng).double() for shape in ((32, rank), (rank, 32)))
    a_DD = scale * left_DR @ right_RD
    factors = factorize(a_DD)
    if rank == 16:
        assert factors is None, "two such factors are as large as the matrix"
        return
    assert factors is not None
    assert [each.shape for each in factors] == [(32, rank), (rank, 32)]
    torch.testing.assert_close(factors[0] @ factors[1], a_DD, rtol=0, atol=1e-8 * scale)


def test_matrices_of_different_ranks_are_joined() -> None:
    rng = torch.Generator().manual_seed(0)
    eye_DD, full_DD = torch.eye(16).double(), torch.randn(16, 16, generator=rng).double()
    matrices = [eye_DD, eye_DD + full_DD[:, :1] @ full_DD[:1], eye_DD + full_DD[:, :3] @ full_DD[:3], full_DD]
    for num_languages, shapes in enumerate([[], [(2, 16, 1), (2, 1, 16)], [(3, 16, 3), (3, 3, 16)], [(4, 16, 16)]], 1):
        maps = LanguageMaps.from_changes(AffineMap(a_DD, torch.zeros(16).double()) for a_DD in matrices[:num_languages])
        if not shapes:
            assert maps is None
            continue
        assert maps is not None
        assert [each.shape for each in maps.matrices] == shapes
        product_LDD = maps.matrices[0] if len(shapes) == 1 else maps.matrices[0] @ maps.matrices[1]
        for a_DD, product_DD in zip(matrices, product_LDD + np.eye(16) * maps.adds_input, strict=False):
            np.testing.assert_allclose(product_DD, a_DD, atol=1e-6)


@pytest.mark.parametrize("name", ["LAA everywhere", "Adapter_enc,dec"])
def test_an_int8_export_is_smaller_and_translates_alike(name: str, tmp_path: Path) -> None:
    trained = random_model(COMBINATIONS[name], width=64, ffn_width=256)
    for folder, quantization in (("float32", None), ("int8", "int8")):
        export_to_onnx(trained, tmp_path / folder, quantization=quantization)
    sizes = [(tmp_path / folder / "weights.bin").stat().st_size for folder in ("float32", "int8")]
    assert sizes[1] < 0.6 * sizes[0]
    sources = sentences()[0]
    expected = search_natively(trained, [[*source, EOS] for source in sources], [2] * len(sources))
    got = load_program(tmp_path / "int8").search(sources, CODES[2])
    differences = [abs(a - b.score) for (a, _), b in zip(got, expected, strict=True)]
    assert 0 < statistics.median(differences) < 0.1


def test_mistakes_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = random_model(COMBINATIONS["lee"])
    with pytest.raises(ManyglotError, match="random_laa cannot be exported to ONNX: it uses a random language"):
        export_to_onnx(random_model(COMBINATIONS["random_laa"]), tmp_path / "model")
    with pytest.raises(SettingsError, match="--target: an ONNX export always has all languages"):
        export_to_onnx(trained, tmp_path / "model", ["de"])
    with pytest.raises(SettingsError, match=r"--quantization: 'int88' is not known\. Did you mean 'int8'"):
        export_to_onnx(trained, tmp_path / "model", quantization="int88")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ManyglotError, match=r"pip install 'manyglot\[onnx\]'"):
        export_to_onnx(trained, tmp_path / "model")
    monkeypatch.undo()
    assert not list(tmp_path.iterdir())
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(FolderError, match="full already exists"):
        export_to_onnx(trained, tmp_path / "full")


def test_an_export_on_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = random_model(COMBINATIONS["lee"])
    for name in ("weights.bin", "decoder.onnx", "pieces.json", MANIFEST_NAME, PROGRAM.name):
        with monkeypatch.context() as patch:
            patch.setattr("builtins.open", full_disk_for(name, builtins.open))
            patch.setattr("io.open", full_disk_for(name, builtins.open))
            with pytest.raises(FolderError, match=r"Cannot write .*model: No space left on device; make room"):
                export_to_onnx(trained, tmp_path / "model")
        assert not list(tmp_path.iterdir())


def test_a_method_that_mixes_positions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mixing(GuidanceMethod):
        settings_type = EverywhereSettings

        def pre_sublayer(self, point: Any, x_BTD: torch.Tensor, target_languages: Any) -> torch.Tensor:
            return x_BTD + x_BTD.mean(dim=1, keepdim=True)

    monkeypatch.setattr(guidance, "METHODS", (*METHODS, Mixing))
    with pytest.raises(FoldingError, match="everywhere cannot be folded: its hooks do not depend on the states of a"):
        export_to_onnx(random_model([EverywhereSettings()]), tmp_path / "model")
