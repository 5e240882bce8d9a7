"""A language pack is trained on text in a new language and leaves the model as it is."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.model.language_pack import LanguagePack, PackedLanguage
from manyglot.model.model_folder import load_model
from manyglot.model.run_models import list_checkpoints
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.sentencepiece_model import train_subword_model
from manyglot.vocabulary.subword_model import VocabularySettings
from manyglot.workflows.add_language import DEFAULTS
from tests.conftest import tiny_experiment

QUICK = {
    "batches": {"max_tokens": 300},
    "training": {"max_steps": 4, "warmup_steps": 1, "checkpoint_every": 2, "device": "cpu"},
    "validation": {"num_loss_pairs": 0, "num_supervised_sentences": 0, "num_zero_shot_sentences": 0},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    experiment = tiny_experiment(tmp_path_factory.mktemp("old"), guidance=[{"method": "adapter"}])
    manyglot.prepare(experiment)
    return manyglot.train(experiment).model_folder


def four_languages(**corpus: Any) -> dict[str, Any]:
    """Return settings with text in qad, which the model does not have, and in its languages."""
    text = {"kind": "synthetic", "num_languages": 4, "train_rows": 80, "dev_rows": 8, "test_rows": 8}
    return {"corpus": text | corpus, **QUICK}


def test_a_pack_is_trained_and_used(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.yaml"
    text.write_text(yaml.safe_dump(four_languages()), "utf-8")
    added = manyglot.add_language(model, text, str(tmp_path / "qad.pack"))
    assert added.languages == ("qad",)
    assert str(added).startswith(f"{tmp_path / 'qad.pack'}: qad, {added.num_parameters:,} parameters, ")
    assert str(added).endswith(" kB")
    printed = capsys.readouterr().err
    assert f"subwords   {len(load_model(model).vocabulary.subword_model)} copied, " in printed
    assert "! qad has only 80 training sentences, too few to learn a language." in printed
    assert "The model itself keeps all languages." in printed
    assert "3 copied (qaa, qab, qac), 1 new (qad), 0 dropped" in printed
    assert "Frozen: encoder, decoder, embeddings and guidance, except what is new in them." in printed
    pack = LanguagePack.load(tmp_path / "qad.pack")
    assert pack.trained_directions
    assert all("qad" in direction for direction in pack.trained_directions)
    trained = load_model(tmp_path / "qad.pack.training" / "run" / "model")
    assert f"{added.num_parameters:,} of" in printed
    old, new = (each.state_dict()["encoder.0.ffn.inner.weight"] for each in (load_model(model).model, trained.model))
    assert old.equal(new)
    translator = manyglot.load(model, device="cpu", packs=[added])
    assert len(translator.languages) == 4
    assert len(translator.translate(["a"], to="qad", source="qaa")) == 1
    evaluation = manyglot.evaluate(
        model, tmp_path / "qad.pack.training" / "data", True, tmp_path / "scores", packs=[added],
        overrides=["evaluation.max_sentences_per_direction=2"],
    )  # fmt: skip
    assert len(evaluation.to_dict()["directions"]) == 12
    assert (tmp_path / "scores" / "report.html").exists()


def test_an_interrupted_call_resumes(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LanguagePack, "save", interrupt)
        with pytest.raises(KeyboardInterrupt):
            manyglot.add_language(model, four_languages(), tmp_path / "qad.pack")
    checkpoints = list_checkpoints(tmp_path / "qad.pack.training" / "run" / "checkpoints")
    before = [path.stat().st_mtime_ns for path in checkpoints]
    manyglot.add_language(model, four_languages(), tmp_path / "qad.pack")
    assert [path.stat().st_mtime_ns for path in checkpoints] == before


def test_the_directions_are_those_of_the_new_languages(model: Path, tmp_path: Path) -> None:
    values = four_languages(central_language="qab") | {"training": QUICK["training"] | {"max_steps": 1}}  # type: ignore[operator]
    added = manyglot.add_language(model, values, tmp_path / "qad.pack")
    assert set(LanguagePack.load(added.folder).trained_directions) == {("qab", "qad"), ("qad", "qab")}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus": {"num_languages": 3}}, r"has all languages of the text \(qaa, qab, qac\)"),
        ({"init": {"model": "other"}}, "The section init is that of the model. Remove it."),
        ({"guidance": []}, "The section guidance is that of the model"),
        ({"vocabulary": {"size": 10}}, "vocabulary.size"),
        ({"run": "elsewhere"}, r"A pack is trained in .*qad\.pack\.training\. Remove the setting run"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    changes: dict[str, Any], message: str, model: Path, tmp_path: Path
) -> None:
    values = four_languages()
    for name, section in changes.items():
        values[name] = values.get(name, {}) | section if isinstance(section, dict) else section
    with pytest.raises(ManyglotError, match=message) as info:
        manyglot.add_language(model, values, tmp_path / "qad.pack")
    assert "\n" not in str(info.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        (
            {"training": {"max_steps": 50, "device": "cpu"}},
            r"\(training\.max_steps changed\)",
        ),
        ({"corpus": {"kind": "synthetic", "num_languages": 5, "train_rows": 80}}, r"\(corpus, vocabulary changed\)"),
    ],
)
def test_a_changed_text_needs_another_pack(
    changes: dict[str, Any], changed: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LanguagePack, "save", stop)
        with pytest.raises(KeyboardInterrupt):
            manyglot.add_language(model, four_languages(), tmp_path / "qad.pack")
    with pytest.raises(
        ManyglotError, match=rf"qad\.pack\.training is from an earlier .* {changed}\. Delete it, or .* -o"
    ):
        manyglot.add_language(model, four_languages() | changes, tmp_path / "qad.pack")
    with pytest.raises(ManyglotError, match=r"has no log.jsonl. Did you mean .*qad.pack.training/run\?"):
        manyglot.plot(tmp_path / "qad.pack.training", tmp_path / "curves.png")


@pytest.mark.parametrize(
    ("stated", "warmup_steps"),
    [({}, 200), ({"max_steps": 500}, 50), ({"max_steps": 1}, 0), ({"max_steps": 500, "warmup_steps": 9}, 9)],
)
def test_the_warm_up_fits_the_number_of_steps(
    stated: dict[str, int], warmup_steps: int, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(experiment: Experiment) -> None:
        assert experiment.training.warmup_steps == warmup_steps
        raise KeyboardInterrupt

    monkeypatch.setattr("manyglot.workflows.add_language.prepare_data", stop)
    with pytest.raises(KeyboardInterrupt):
        manyglot.add_language(model, four_languages() | {"training": stated}, tmp_path / "qad.pack")


def test_text_without_a_language_of_the_model_is_refused(model: Path, tmp_path: Path) -> None:
    for code in ("ka", "sw"):
        (tmp_path / f"train.{code}").write_text("a b c\n", "utf-8")
    values = four_languages() | {
        "corpus": {"kind": "multiway", "path": str(tmp_path), "languages": ["ka", "sw"], "central_language": "ka"}
    }
    with pytest.raises(ManyglotError, match="The text has no language of the model, only ka, sw"):
        manyglot.add_language(model, values, tmp_path / "new.pack")
    assert len(list(tmp_path.iterdir())) == 2


def test_an_existing_folder_is_kept(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ManyglotError, match="already exists"):
        manyglot.add_language(model, four_languages(), tmp_path)


@pytest.mark.filterwarnings("ignore:Recommended")
def test_a_tokenizer_that_splits_targets_differently_cannot_be_extended(trained: Experiment, tmp_path: Path) -> None:
    from tests.importers.random_checkpoints import write_checkpoint

    pytest.importorskip("transformers")
    write_checkpoint("marian", tmp_path / "marian", ["one two three", "eins zwei drei"] * 9, size=80)
    imported = manyglot.import_model(tmp_path / "marian", tmp_path / "model", source="qaa", target="qab")
    with pytest.raises(ManyglotError, match="splits targets by other rules than sources"):
        manyglot.add_language(imported, four_languages(), tmp_path / "qad.pack")


def test_a_pack_of_a_base_model_has_at_most_5_megabytes(tmp_path: Path) -> None:
    """The model has the default guidance, and the pack as many subwords as add-language trains."""
    size, rng = DEFAULTS["vocabulary"]["size"], random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 8))) for _ in range(20_000)]
    subword_model = train_subword_model(
        [" ".join(words[i : i + 50]) for i in range(0, 20_000, 50)], VocabularySettings(size=size)
    )
    with torch.device("meta"):
        model = Transformer(ModelSettings(), Experiment.model_fields["guidance"].default, 100, 1)
    shapes = {f"guidance.{name}": parameter.shape for name, parameter in model.guidance.named_parameters()}
    shapes["embedding.weight"] = torch.Size([size, model.settings.width])
    language = PackedLanguage(subword_model, {name: torch.randn(shape) for name, shape in shapes.items()})
    LanguagePack({"sw": language}, (Direction("en", "sw"),), "fingerprint", {}).save(tmp_path / "sw.pack")
    assert 2e6 < sum(path.stat().st_size for path in (tmp_path / "sw.pack").iterdir()) < 5e6
