"""An export reproduces the native search token for token, and a damaged export is rejected in one line."""

from __future__ import annotations

import builtins
import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

from manyglot.batches.batch import collate_sources
from manyglot.batches.source_lengths import SourceLengths
from manyglot.config.base_settings import parse_settings
from manyglot.decoding.ctranslate2.engine import CTranslate2Engine
from manyglot.decoding.ctranslate2.manifest import MANIFEST_NAME
from manyglot.decoding.engine import ScoringRequest, SearchRequest
from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.loading import load
from manyglot.decoding.native_engine import NativeEngine
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import FolderError, LanguageError, ManyglotError, SettingsError
from manyglot.exporters.ctranslate2 import export_to_ctranslate2
from manyglot.model.folding import FoldingError
from manyglot.model.guidance import parse_method_settings
from manyglot.model.model_folder import TrainedModel
from manyglot.vocabulary.sentencepiece_model import SentencePieceModel
from manyglot.vocabulary.subword_model import EOS, PAD, UNK
from manyglot.vocabulary.vocabulary import Vocabulary
from tests.exporters.random_models import CODES, SETTINGS, TEXT, VOCABULARY, native, random_model, sentences
from tests.model.guidance.combinations import COMBINATIONS
from tests.model.variants import VARIANTS
from tests.sealing import forge_export_seals

pytest.importorskip("ctranslate2")

UNFOLDABLE = {"random_laa", "adapter"}
EXPORTABLE = [
    *(name for name, methods in COMBINATIONS.items() if not UNFOLDABLE & {each.method for each in methods}),
    "Low-rank LAA + low-rank Adapter before the residual",
]


def exported(trained: TrainedModel, folder: Path, quantization: str | None = None) -> CTranslate2Engine:
    export_to_ctranslate2(trained, folder, CODES, quantization)
    return CTranslate2Engine.load(folder, inter_threads=1, intra_threads=1)


def as_native_engine(trained: TrainedModel) -> NativeEngine:
    return NativeEngine(trained.model, trained.vocabulary.languages, SETTINGS, torch.device("cpu"))


def ends_at_once(
    trained: TrainedModel, source: list[int], language: int, settings: DecodingSettings, source_language: int = 0
) -> bool:
    """Return whether the end symbol is a candidate right after a forced tag, where CTranslate2 ignores it."""
    tags = trained.model.tags_by_language()
    if not tags[language].target:
        return False
    input_BT = torch.tensor([[tags[language].start, *tags[language].target]])
    with torch.inference_mode():
        source_BS = collate_sources([source], [language], tags, [source_language])
        hidden_BTD = trained.model(source_BS, input_BT, torch.tensor([language])).decoded
        first = trained.model.log_probabilities(hidden_BTD)[0, -1].topk(2 * settings.beam_size).indices
    return EOS in first.tolist()


def check(trained: TrainedModel, engine: CTranslate2Engine, settings: DecodingSettings) -> int:
    """Compare all hypotheses, but only the best one if lengths differ or the maximum length is reached.

    CTranslate2 counts a tag in the length even if the model does not predict it. Return the number of sentences that
    ended by themselves.
    """
    sources, languages = sentences()
    ours = native(trained, sources, languages, settings)
    theirs = engine.search(SearchRequest(sources, languages, settings))
    num_ended = 0
    for source, language, expected, got in zip(sources, languages, ours, theirs, strict=True):
        if ends_at_once(trained, source, language, settings):
            continue
        max_length = settings.max_output_length(
            len(trained.model.tags_by_language()[language].source) + len(source) + 1
        )
        ended = all(len(each.ids) < max_length for each in expected)
        num_ended += ended
        tags = trained.model.tags_by_language()[language]
        compared = len(expected) if ended and tags.num_predicted == len(tags.target) else 1
        assert [each.ids for each in got[:compared]] == [each.ids for each in expected[:compared]]
        for a, b in zip(got[:compared], expected, strict=False):
            assert a.score == pytest.approx(b.score, abs=2e-4)
    return num_ended


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("name", EXPORTABLE)
def test_an_export_reproduces_the_native_search(name: str, norm: str, tmp_path: Path) -> None:
    trained = random_model(COMBINATIONS[name], norm)
    check(trained, exported(trained, tmp_path / "model"), SETTINGS)


@pytest.mark.parametrize("name", ["laa", "Token_tgt", "clean Token_tgt"])
def test_an_export_gives_translations_the_native_scores(name: str, tmp_path: Path) -> None:
    trained, (sources, languages) = random_model(COMBINATIONS[name]), sentences()
    engine = exported(trained, tmp_path / "model")
    settings, translations = SETTINGS.model_copy(update={"length_penalty": 0.6}), [[], *sources[:0:-1]]
    request = ScoringRequest([[], *sources[1:]], translations, languages, settings)
    native_engine = as_native_engine(trained)
    for ours, theirs in zip(native_engine.score(request), engine.score(request), strict=True):
        assert theirs.log_probability == pytest.approx(ours.log_probability, rel=1e-4, abs=1e-4)
        assert theirs.score == pytest.approx(ours.score, rel=1e-4, abs=1e-4)
    with pytest.raises(ManyglotError, match="handles at most"):
        engine.score(ScoringRequest([[5]], [[5] * 10**5], [0], settings))


@pytest.mark.parametrize("guidance", ["token", pytest.param("LAA + Token_tgt", marks=pytest.mark.slow)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_an_export_reproduces_variants_of_the_model(variant: str, guidance: str, tmp_path: Path) -> None:
    trained = random_model(COMBINATIONS[guidance], **{"norm": "post", **VARIANTS[variant]})
    engine, native_engine = exported(trained, tmp_path / "model"), as_native_engine(trained)
    sources, languages = sentences(30)
    source_languages = [(language + row) % 3 for row, language in enumerate(languages)]
    request = SearchRequest(sources, languages, SETTINGS, source_language_ids=source_languages)
    ours = native_engine.search(request)
    inputs = zip(sources, languages, source_languages, strict=True)
    is_comparable = [not ends_at_once(trained, source, to, SETTINGS, language) for source, to, language in inputs]
    assert sum(is_comparable) >= 10
    for mine, theirs, is_same in zip(ours, engine.search(request), is_comparable, strict=True):
        assert not is_same or mine[0].ids == theirs[0].ids
    translations = [hypotheses[0].ids for hypotheses in ours]
    scoring = ScoringRequest(sources, translations, languages, SETTINGS, source_language_ids=source_languages)
    for hypotheses, a, b in zip(ours, native_engine.score(scoring), engine.score(scoring), strict=True):
        assert a.score == pytest.approx(hypotheses[0].score, abs=1e-5)
        assert b.score == pytest.approx(a.score, abs=2e-4)
    assert all(exported(trained, tmp_path / "int8", "int8").search(request))
    readme = next((tmp_path / "model").rglob("README.md")).read_text()
    if trained.model.settings.source_tag:
        assert "source = ['<2de>', " in readme
        with pytest.raises(LanguageError, match="reads the source language"):
            engine.search(replace(request, source_language_ids=None))
    if trained.model.settings.max_positions:
        assert (
            len(
                engine.search(
                    SearchRequest(
                        [[5] * 120], [0], SETTINGS.model_copy(update={"max_length": 200}), source_language_ids=[0]
                    )
                )
            )
            == 1
        )
        with pytest.raises(ManyglotError, match="handles at most 128 tokens"):
            engine.search(SearchRequest([[5] * 128], [0], SETTINGS, source_language_ids=[0]))


@pytest.mark.parametrize("name", ["laa", "token", "Token_tgt", "clean Token_tgt"])
def test_an_export_reproduces_every_search_setting(name: str, tmp_path: Path) -> None:
    trained = random_model(COMBINATIONS[name], end=5)
    engine = exported(trained, tmp_path / "model")
    num_ended = 0
    for changes in (
        {"beam_size": 1},
        {"beam_size": 5},
        {"length_penalty": 0.0},
        {"length_penalty": 0.6},
        {"max_length": 5},
    ):
        num_ended += check(trained, engine, parse_settings(DecodingSettings, SETTINGS.model_dump() | changes))
    assert num_ended > 1


def test_forbidden_tokens_are_never_generated(tmp_path: Path) -> None:
    trained = random_model(COMBINATIONS["laa"])
    with torch.no_grad():
        trained.model.embedding.weight[[PAD, UNK, len(VOCABULARY) - 1], 0] = 5
    sources, languages = sentences()
    results = exported(trained, tmp_path / "model").search(SearchRequest(sources, languages, SETTINGS))
    words = {i for hypotheses in results for each in hypotheses for i in each.ids}
    assert words <= set(range(UNK + 1, len(VOCABULARY.subword_model)))
    settings = parse_settings(DecodingSettings, {"beam_size": 1})
    best = native(trained, sources, languages, settings)
    greedy = CTranslate2Engine.load(tmp_path / "model").search(SearchRequest(sources, languages, settings))
    assert [each[0].ids for each in greedy] == [each[0].ids for each in best]


def test_the_contents_of_an_export_folder(tmp_path: Path) -> None:
    lengths = SourceLengths(subwords_p99=7, sentences_p99=2, max_subwords=9)
    trained = replace(random_model(COMBINATIONS["laa"]), source_lengths=lengths)
    files = {"README.md", "config.json", "manyglot.json", "model.bin", "shared_vocabulary.json", "subwords.model"}
    assert export_to_ctranslate2(trained, tmp_path / "one", ["de"]) == [tmp_path / "one"]
    assert {path.name for path in (tmp_path / "one").iterdir()} == files
    manifest = json.loads((tmp_path / "one" / MANIFEST_NAME).read_text("utf-8"))
    assert manifest["languages"] == list(CODES)
    assert list(manifest["targets"]) == ["de"]
    assert manifest["decoding"]["beam_size"] == SETTINGS.beam_size
    assert load(tmp_path / "one").text_splitter.lengths == lengths
    assert (tmp_path / "one" / "subwords.model").read_bytes() == VOCABULARY.subword_model.serialized
    folders = export_to_ctranslate2(trained, tmp_path / "two", ["fr", "de", "fr"])
    assert folders == [tmp_path / "two" / "fr", tmp_path / "two" / "de"]
    engine = CTranslate2Engine.load(tmp_path / "two")
    assert engine.targets == ("de", "fr")
    assert engine.languages == VOCABULARY.languages
    with pytest.raises(LanguageError, match=r"not exported for 'en'\. Exported target languages: de, fr"):
        engine.search(SearchRequest([[5]], [1], SETTINGS))
    with pytest.raises(LanguageError, match="needs its own weights"):
        export_to_ctranslate2(trained, tmp_path / "all")


def test_target_languages_may_have_any_name(tmp_path: Path) -> None:
    folders = export_to_ctranslate2(random_model(COMBINATIONS["laa"]), tmp_path, ["French", "deu", "fr"])
    assert folders == [tmp_path / "fr", tmp_path / "de"]
    with pytest.raises(LanguageError, match=r"Swahili \(sw\) is not among the model's languages"):
        export_to_ctranslate2(random_model(COMBINATIONS["laa"]), tmp_path / "other", ["Swahili"])


def test_tags_let_one_folder_serve_all_languages(tmp_path: Path) -> None:
    assert export_to_ctranslate2(random_model(COMBINATIONS["token"]), tmp_path / "all") == [tmp_path / "all"]
    engine = CTranslate2Engine.load(tmp_path / "all")
    assert engine.targets == CODES
    assert engine.search(SearchRequest([[], [5]], [0, 2], SETTINGS))[0] == [Hypothesis((), 0.0)]


def test_symbol_names_are_distinct(tmp_path: Path) -> None:
    """This holds even if an external subword model has pieces with the names of our symbols."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(TEXT),
        model_writer=model,
        vocab_size=len(VOCABULARY.subword_model),  # <s> gets no id from us, and <pad> has no piece in the model
        pad_id=-1,
        user_defined_symbols=["<pad>", "<2de>"],
        model_type="bpe",
        minloglevel=2,
    )
    brought = Vocabulary(SentencePieceModel(model.getvalue()), VOCABULARY.languages)
    trained = replace(random_model(COMBINATIONS["token"]), vocabulary=brought)
    assert len(brought) == len(VOCABULARY)
    export_to_ctranslate2(trained, tmp_path / "model")
    names = json.loads((tmp_path / "model" / "shared_vocabulary.json").read_text("utf-8"))
    assert len(set(names)) == len(names) == len(brought)
    assert names[PAD] == "<<pad>>"
    assert names[len(brought.subword_model) :] == ["<<2de>>", "<2en>", "<2fr>"]
    check(trained, CTranslate2Engine.load(tmp_path / "model"), SETTINGS)


@pytest.mark.parametrize("name", ["laa", "token", "Token_tgt"])
def test_the_readme_works_without_manyglot(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = random_model(COMBINATIONS[name])
    export_to_ctranslate2(trained, tmp_path / "model", ["fr"])
    program = (tmp_path / "model" / "README.md").read_text("utf-8").split("```python\n")[1].split("```")[0]
    assert "manyglot." not in program.replace("manyglot.json", "")
    monkeypatch.chdir(tmp_path / "model")
    exec(program, {})
    assert "<2" not in capsys.readouterr().out


@pytest.mark.parametrize("quantization", ["int8", "int16", "bfloat16"])
def test_quantized_models_load_and_run(quantization: str, tmp_path: Path) -> None:
    trained = random_model(COMBINATIONS["lee"])
    engine = exported(trained, tmp_path / "small", quantization)
    sources, languages = sentences(6)
    assert all(engine.search(SearchRequest(sources, languages, SETTINGS)))
    export_to_ctranslate2(trained, tmp_path / "plain", ["de"])
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("small/de", "plain")]
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize("name", ["adapter", "random_laa"])
def test_guidance_that_cannot_be_folded_is_rejected_without_traces(name: str, tmp_path: Path) -> None:
    after_residual = [parse_method_settings({"method": "adapter", "placement": "after_residual"})]
    methods = after_residual if name == "adapter" else COMBINATIONS[name]
    with pytest.raises(FoldingError, match=f"{name} cannot be folded"):
        export_to_ctranslate2(random_model(methods), tmp_path / "model", ["de"])
    assert not list(tmp_path.iterdir())


def test_mistakes_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = random_model(COMBINATIONS["laa"])
    with pytest.raises(LanguageError, match="Unknown language 'xx'"):
        export_to_ctranslate2(trained, tmp_path / "model", ["xx"])
    with pytest.raises(SettingsError, match="Did you mean 'int8'"):
        export_to_ctranslate2(trained, tmp_path / "model", ["de"], "int88")
    export_to_ctranslate2(trained, tmp_path / "model", ["de"])
    with pytest.raises(ManyglotError, match="at most 4096 tokens"):
        CTranslate2Engine.load(tmp_path / "model").search(SearchRequest([[5] * 4096], [0], SETTINGS))
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ManyglotError, match=r"pip install 'manyglot\[ctranslate2\]'"):
        export_to_ctranslate2(trained, tmp_path / "other", ["de"])
    with pytest.raises(ManyglotError, match="Install ctranslate2"):
        CTranslate2Engine.load(tmp_path / "model")


def test_a_damaged_export_is_rejected(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    export_to_ctranslate2(random_model(COMBINATIONS["laa"]), whole, ["de"])
    manifest = json.loads((whole / MANIFEST_NAME).read_text("utf-8"))
    fields = ("suppressed_tokens", "num_positions", "files", "targets", "source_lengths", "quantization")
    damages = {
        "no readable manyglot.json": {MANIFEST_NAME: "{"},
        "export format 2": {MANIFEST_NAME: json.dumps(manifest | {"format": 2})},
        "num_positions is required": {
            MANIFEST_NAME: json.dumps({k: v for k, v in manifest.items() if k != "num_positions"})
        },
        "not sorted": {MANIFEST_NAME: json.dumps(manifest | {"languages": ["fr", "en", "de"]})},
        "targets was changed since the export": {MANIFEST_NAME: json.dumps(manifest | {"targets": {"de": {}}})},
        "num_positions was changed since": {MANIFEST_NAME: json.dumps(manifest | {"num_positions": 7})},
        "is not a setting": {MANIFEST_NAME: json.dumps(manifest | {"run": "rm"})},
        "the checksum of 'format' is missing": {MANIFEST_NAME: json.dumps(manifest | {"checksums": {}})},
        "model.bin differs from the exported file": {"model.bin": "short"},
        "config.json differs from the exported file": {"config.json": "{}"},
    }
    for name in fields:
        checksums = {key: value for key, value in manifest["checksums"].items() if key != name}
        text = json.dumps(manifest | {"checksums": checksums})
        damages[f"the checksum of '{name}' is missing"] = {MANIFEST_NAME: text}
    for number, (message, files) in enumerate(damages.items()):
        folder = shutil.copytree(whole, tmp_path / str(number))
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        with pytest.raises(FolderError, match=message) as caught:
            CTranslate2Engine.load(folder)
        assert "\n" not in str(caught.value)
    unknown = shutil.copytree(whole, tmp_path / "unknown")
    forge_export_seals(unknown, targets={"de": {"source": ["<2xx>"]}})
    with pytest.raises(FolderError, match="no symbol <2xx>"):
        CTranslate2Engine.load(unknown)
    (whole / "subwords.model").unlink()
    with pytest.raises(FolderError, match=r"subwords\.model differs from the exported file"):
        CTranslate2Engine.load(whole)
    with pytest.raises(FolderError, match="does not exist"):
        CTranslate2Engine.load(tmp_path / "nowhere")


def test_the_decoding_settings_of_an_export_may_be_edited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export_to_ctranslate2(random_model(COMBINATIONS["laa"]), tmp_path / "model", ["de"])
    path = tmp_path / "model" / MANIFEST_NAME
    manifest = json.loads(path.read_text("utf-8"))
    manifest["decoding"]["beam_size"] = 9
    path.write_text(json.dumps(manifest), encoding="utf-8")
    assert CTranslate2Engine.load(tmp_path / "model").default_settings.beam_size == 9
    assert capsys.readouterr().err == f"{path} was edited since the export (decoding).\n"


def test_a_type_that_cannot_store_the_weights_is_refused_without_traces(tmp_path: Path) -> None:
    trained = random_model(COMBINATIONS["laa"])
    with torch.no_grad():
        trained.model.embedding.weight[5, 5] = 1e6
    with pytest.raises(ManyglotError, match=r"NaN or infinity.* If float16 cannot store the weights, choose another"):
        export_to_ctranslate2(trained, tmp_path / "model", ["de"], "float16")
    assert not list(tmp_path.iterdir())
    export_to_ctranslate2(trained, tmp_path / "model", ["de"])


def test_an_export_on_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = random_model(COMBINATIONS["laa"])
    for name in ("model.bin", "config.json", "subwords.model", MANIFEST_NAME):
        with monkeypatch.context() as patch:
            patch.setattr("builtins.open", full_disk_for(name, builtins.open))
            patch.setattr("io.open", full_disk_for(name, builtins.open))
            with pytest.raises(FolderError, match=r"Cannot write .*model: No space left on device; make room"):
                export_to_ctranslate2(trained, tmp_path / "model", ["de"])
        assert not list(tmp_path.iterdir())
    export_to_ctranslate2(trained, tmp_path / "model", ["de"])


def full_disk_for(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that opens files, and /dev/full for writing to a file of this name."""

    def opened(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        is_full = "w" in mode and name in os.path.basename(os.fspath(file)) if not isinstance(file, int) else False
        return original("/dev/full" if is_full else file, mode, *arguments, **named)

    return opened
