"""transformers loads an export with its stock classes, and its beam search returns our outputs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from manyglot.config.base_settings import parse_settings
from manyglot.corpus.languages import Languages
from manyglot.decoding.settings import DecodingSettings
from manyglot.decoding.translator import Translator
from manyglot.errors import FolderError, LanguageError, SettingsError
from manyglot.exporters.hf_transformers import export_to_transformers, symbol_names
from manyglot.model.folding import FoldingError
from manyglot.model.guidance import parse_method_settings
from manyglot.model.guidance.base import MethodSettings
from manyglot.model.model_folder import TrainedModel
from manyglot.vocabulary.subword_model import EOS, PAD, UNK
from manyglot.vocabulary.vocabulary import Vocabulary
from tests.exporters.random_models import CODES, SETTINGS, VOCABULARY, native, random_model, sentences
from tests.model.guidance.combinations import COMBINATIONS

transformers = pytest.importorskip("transformers")

NEAR_TIE = 1e-5
"""Outputs may differ if the scores of our two best hypotheses differ by less."""


@pytest.fixture(autouse=True)
def no_loading_messages(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail if transformers logs anything, such as missing or unused weights."""
    monkeypatch.setattr(transformers.utils.logging.get_logger("transformers"), "propagate", True)
    transformers.utils.logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="transformers", category=DeprecationWarning)
        yield
    assert not [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


def is_foldable(methods: Sequence[MethodSettings]) -> bool:
    return not any(
        each.method == "random_laa" or getattr(each, "placement", None) == "after_residual" for each in methods
    )


def load_exported(folder: Path) -> Any:
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()


def generate(
    model: Any, trained: TrainedModel, sources: Sequence[list[int]], languages: Sequence[int]
) -> list[list[int]]:
    """Return the outputs of transformers without special symbols; all sentences have the same tags of the target."""
    tags = [trained.model.tags_by_language()[language] for language in languages]
    ids = [[*tag.source_prefix(0), *source, EOS] for tag, source in zip(tags, sources, strict=True)]
    longest = max(map(len, ids))
    input_ids = torch.tensor([row + [PAD] * (longest - len(row)) for row in ids])
    forced: dict[str, Any] = {}
    if tags[0].target and tags[0].target_predicted:
        forced = {"forced_bos_token_id": tags[0].target[0]}
    elif tags[0].target:
        forced = {"decoder_input_ids": torch.tensor([[tags[0].start, *tags[0].target]] * len(ids))}
    with torch.inference_mode():
        outputs = model.generate(input_ids, attention_mask=(input_ids != PAD).long(), **forced).tolist()
    tag_ids = range(len(VOCABULARY.subword_model), len(VOCABULARY))
    return [[i for i in row if i not in (PAD, EOS) and i not in tag_ids] for row in outputs]


def check(trained: TrainedModel, folder: Path, settings: DecodingSettings = SETTINGS) -> int:
    """Compare the best hypotheses of both searches; return the number of sentences that end by themselves.

    Our limit of the length relative to the source, which transformers lacks, is disabled.
    """
    settings = settings.model_copy(update={"max_length_factor": 1000.0})
    (sources, languages), num_ended = sentences(), 0
    export_to_transformers(replace(trained, config={"decoding": settings.model_dump()}), folder, CODES)
    one_model = not (folder / CODES[0]).exists()
    for language, code in enumerate(CODES):
        model = load_exported(folder if one_model else folder / code)
        rows = [i for i in range(len(sources)) if languages[i] == language]
        ours = native(trained, [sources[i] for i in rows], [language] * len(rows), settings)
        theirs = generate(model, trained, [sources[i] for i in rows], [language] * len(rows))
        for hypotheses, output in zip(ours, theirs, strict=True):
            scores = [hypothesis.score for hypothesis in hypotheses]
            num_ended += len(output) < settings.max_length
            if len(scores) < 2 or scores[0] - scores[1] > NEAR_TIE:
                assert output == list(hypotheses[0].ids)
    return num_ended


FAST = {("laa", "post"), ("token", "pre"), ("LAA + Token_tgt", "post"), ("Adapter before the residual", "pre")}
"""Combinations of the default run. The others take some minutes."""


@pytest.mark.parametrize(
    ("name", "norm"),
    [
        pytest.param(name, norm, marks=() if (name, norm) in FAST or not is_foldable(methods) else pytest.mark.slow)
        for name, methods in COMBINATIONS.items()
        for norm in ("post", "pre")
    ],
)
def test_their_beam_search_equals_ours(name: str, norm: str, tmp_path: Path) -> None:
    trained = random_model(COMBINATIONS[name], norm, end=7)
    if is_foldable(COMBINATIONS[name]):
        assert check(trained, tmp_path / "model") > 0
        return
    with pytest.raises(FoldingError, match="cannot be folded"):
        export_to_transformers(trained, tmp_path / "model", ["de"])
    assert not list(tmp_path.iterdir())


def translate(folder: Path, texts: Sequence[str], **options: Any) -> list[str]:
    """Translate text as the model card says."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = load_exported(folder)
    tags = {name: tokenizer.convert_tokens_to_ids(tag) for name, tag in options.items()}
    outputs = model.generate(**tokenizer(texts, padding=True, return_tensors="pt"), **tags)
    translations: list[str] = tokenizer.batch_decode(outputs, skip_special_tokens=True)
    return translations


TEXTS = ["weary volume", "midnight, while I", "a quaint and curious </s>"]


@pytest.mark.parametrize("name", ["laa", "token", "Token_tgt", "LAA + Token_tgt"])
def test_text_goes_in_and_comes_out(name: str, tmp_path: Path) -> None:
    """Tags are read from the text if they belong to the source, and forced if they belong to the target."""
    decoding = {"beam_size": 2, "length_penalty": 0.5, "max_length": 50, "max_length_factor": 999.0}
    trained = replace(random_model(COMBINATIONS[name], end=7), config={"decoding": decoding})
    settings = parse_settings(DecodingSettings, decoding)
    translator = Translator.from_trained_model(trained, settings, torch.device("cpu"))
    translator = translator.with_text_options(split="never", warn=False)
    export_to_transformers(trained, tmp_path / "model", ["de"])
    prefix = ">>de<< " if name == "token" else ""
    assert translate(tmp_path / "model", [prefix + text for text in TEXTS]) == translator.translate(TEXTS, to="de")


@pytest.mark.parametrize(
    "changes", [{"beam_size": 1}, {"beam_size": 5}, {"length_penalty": 0.0}, {"length_penalty": 2.0}]
)
def test_settings_of_the_search_apply(changes: dict[str, Any], tmp_path: Path) -> None:
    trained = random_model(COMBINATIONS["token"], end=6)
    check(trained, tmp_path / "model", parse_settings(DecodingSettings, SETTINGS.model_dump() | changes))


def test_one_folder_serves_all_targets_of_a_model_with_tags(tmp_path: Path) -> None:
    trained = random_model(COMBINATIONS["Token_tgt"], end=3)
    assert export_to_transformers(trained, tmp_path / "model") == [tmp_path / "model"]
    outputs = {code: translate(tmp_path / "model", TEXTS, forced_bos_token_id=f">>{code}<<") for code in CODES}
    assert len({tuple(each) for each in outputs.values()}) > 1


def test_the_contents_of_an_export(tmp_path: Path) -> None:
    trained = random_model(COMBINATIONS["LAA + Token_tgt"])
    folders = export_to_transformers(trained, tmp_path / "model", ["fr", "German", "fr"])
    assert folders == [tmp_path / "model" / "fr", tmp_path / "model" / "de"]
    assert {path.name for path in folders[0].iterdir()} == {
        "README.md", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json",
    }  # fmt: skip
    generation = json.loads((folders[0] / "generation_config.json").read_text("utf-8"))
    assert generation["num_beams"] == SETTINGS.beam_size
    assert generation["max_length"] == SETTINGS.max_length + 3  # with start symbol, tag and end symbol
    assert generation["forced_bos_token_id"] == len(VOCABULARY) - 1
    assert [PAD] in generation["bad_words_ids"]
    assert [UNK] in generation["bad_words_ids"]
    assert "trust_remote_code" not in (folders[0] / "README.md").read_text("utf-8")


@pytest.mark.parametrize("name", ["laa", "token", "Token_tgt", "clean Token_tgt"])
def test_the_program_of_the_model_card_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export_to_transformers(random_model(COMBINATIONS[name], end=7), tmp_path / "model", ["de"])
    card = (tmp_path / "model" / "README.md").read_text("utf-8")
    program = card.split("```python\n")[1].split("```")[0].replace("path/of/this/folder", str(tmp_path / "model"))
    exec(program, {})
    printed = capsys.readouterr().out
    assert printed.startswith("['")
    assert ">>" not in printed


def test_settings_of_imported_models(tmp_path: Path) -> None:
    """BART and MBart have most settings of the Transformer, and source tags."""
    options = {"positions": "learned", "max_positions": 128, "activation": "gelu", "output_bias": True}
    trained = random_model(
        COMBINATIONS["Token_tgt"], "pre", 7, **options, scale_embeddings=False, source_tag=True, start_symbol="pad"
    )
    export_to_transformers(trained, tmp_path / "model")
    model = load_exported(tmp_path / "model")
    source = torch.tensor([[len(VOCABULARY) - 2, 5, 9, 30, EOS]])
    decoder_input = torch.tensor([[PAD, len(VOCABULARY) - 3, 7, 8, 20]])
    with torch.inference_mode():
        hidden = trained.model(source, decoder_input, torch.tensor([0])).decoded
        theirs = model(input_ids=source, decoder_input_ids=decoder_input).logits
        torch.testing.assert_close(theirs, trained.model.logits(hidden), rtol=1e-5, atol=1e-5)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    (subwords,) = VOCABULARY.encode(["weary"])
    assert tokenizer(">>en<< weary").input_ids == [len(VOCABULARY) - 2, *subwords, EOS]
    assert tokenizer.decode([PAD, len(VOCABULARY) - 3, *subwords, EOS], skip_special_tokens=True) == "weary"
    with pytest.raises(SettingsError, match=r"model\.embedding_norm: BART and MBart"):
        export_to_transformers(random_model(COMBINATIONS["token"], embedding_norm=False), tmp_path / "other")


def test_an_adapter_after_the_residual_is_refused(tmp_path: Path) -> None:
    methods = [parse_method_settings({"method": "adapter", "placement": "after_residual"})]
    with pytest.raises(FoldingError, match="adapter cannot be folded"):
        export_to_transformers(random_model(methods), tmp_path / "model", ["de"])
    assert not list(tmp_path.iterdir())


def test_mistakes_are_reported(tmp_path: Path) -> None:
    trained = random_model(COMBINATIONS["laa"])
    with pytest.raises(LanguageError, match="Unknown language 'xx'"):
        export_to_transformers(trained, tmp_path / "model", ["xx"])
    with pytest.raises(LanguageError, match="Give --target"):
        export_to_transformers(trained, tmp_path / "model")
    with pytest.raises(SettingsError, match="--quantization: --to transformers always writes float32"):
        export_to_transformers(trained, tmp_path / "model", ["de"], "int8")
    assert not list(tmp_path.iterdir())
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").touch()
    with pytest.raises(FolderError, match="already exists"):
        export_to_transformers(trained, tmp_path / "model", ["de"])


def test_a_tag_never_has_the_name_of_a_piece() -> None:
    class Named:
        serialized = b""

        def pieces(self) -> list[str]:
            return ["<pad>", "</s>", "<unk>", "de", ">>de<<"]

    names = symbol_names(Vocabulary(Named(), Languages(CODES)))  # type: ignore[arg-type]
    assert names[5:] == ["<>>de<<>", ">>en<<", ">>fr<<"]
