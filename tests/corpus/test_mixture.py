"""Several corpora as one, and shares of training text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

import manyglot
from manyglot.batches.prepare_dataset import PreparationSettings
from manyglot.config.base_settings import parse_settings
from manyglot.config.experiment import Experiment
from manyglot.corpus.base import Split
from manyglot.corpus.readers import CorpusSettings, open_corpus
from manyglot.errors import CorpusError, LanguageError, ManyglotError, SettingsError


def write(folder: Path, **lines: list[str]) -> dict[str, Any]:
    """Write line-aligned files; return the settings of a part."""
    folder.mkdir()
    for name, content in lines.items():
        split, code = name.split("_")
        (folder / f"{split}.{code}").write_text("".join(f"{line}\n" for line in content), "utf-8")
    return {"kind": "multiway", "path": str(folder)}


def open_settings(values: dict[str, Any]) -> Any:
    return open_corpus(TypeAdapter(CorpusSettings).validate_python(values))


@pytest.fixture
def parts(tmp_path: Path) -> list[dict[str, Any]]:
    old = write(tmp_path / "old", train_de=["eins", "zwei"], train_en=["one", "two"], dev_de=["drei"], dev_en=["three"])
    new = write(tmp_path / "new", train_deu=["vier", "fünf"], train_sw=["nne", "tano"], test_deu=["ja"], test_sw=["a"])
    return [old, new]


def test_rows_follow_one_another_and_languages_are_joined(parts: list[dict[str, Any]]) -> None:
    corpus = open_settings({"kind": "mixture", "parts": parts, "central_language": "de"})
    assert corpus.languages == ("de", "en", "sw")
    assert list(corpus.rows(Split.TRAIN)) == [
        {"de": "eins", "en": "one"},
        {"de": "zwei", "en": "two"},
        {"de": "vier", "sw": "nne"},
        {"de": "fünf", "sw": "tano"},
    ]
    assert list(corpus.rows(Split.DEV)) == [{"de": "drei", "en": "three"}]
    assert list(corpus.rows(Split.TEST)) == [{"de": "ja", "sw": "a"}]
    flores = open_settings({"kind": "mixture", "parts": parts, "central_language": "de", "code_style": "flores"})
    assert flores.languages == ("deu_Latn", "eng_Latn", "swh_Latn")


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.5, ["two", "four"]), (1.0, ["one", "two", "three", "four"]), (0.25, ["four"]),
     (1.5, ["one", "two", "two", "three", "four", "four"]), (0.01, [])],
)  # fmt: skip
def test_a_share_of_the_training_rows_is_used(share: float, expected: list[str], tmp_path: Path) -> None:
    words = ["one", "two", "three", "four"]
    settings = write(tmp_path / "text", train_en=words, train_de=words, dev_en=words, dev_de=words)
    corpus = open_settings(settings | {"train_share": share})
    assert [row["en"] for row in corpus.rows(Split.TRAIN)] == expected
    assert [row["en"] for row in corpus.rows(Split.DEV)] == words
    assert corpus.languages == ("de", "en")


def test_shares_weight_the_parts(parts: list[dict[str, Any]]) -> None:
    weighted = [parts[0] | {"train_share": 0.5}, parts[1] | {"train_share": 2}]
    corpus = open_settings({"kind": "mixture", "parts": weighted, "central_language": "de"})
    assert [row["de"] for row in corpus.rows(Split.TRAIN)] == ["zwei", "vier", "vier", "fünf", "fünf"]


def test_a_change_of_any_part_is_noticed(parts: list[dict[str, Any]]) -> None:
    settings = {"kind": "mixture", "parts": parts, "central_language": "de"}
    before = open_settings(settings).fingerprint()
    assert before == open_settings(settings).fingerprint()
    (Path(parts[1]["path"]) / "train.sw").write_text("nne\nsita\n", "utf-8")
    assert open_settings(settings).fingerprint() != before


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"parts": []}, "corpus.parts"),
        ({"parts": [{"kind": "mixture", "parts": []}]}, "corpus.parts.0.kind: 'mixture' is not known"),
        ({"parts": [{"kind": "multiway"}]}, "corpus.parts.0.path is required"),
        ({"parts": [{"kind": "multiway", "path": "x", "central_language": "de"}]},
         r"corpus.parts: part 0 sets central_language. Set corpus.central_language for the whole mixture"),
        ({"parts": [{"kind": "multiway", "path": "x", "train_share": 0}]}, "corpus.parts.0.train_share"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message) as info:
        parse_settings(Experiment, {"data": "d", "run": "r", "corpus": {"kind": "mixture"} | values})
    assert "\n" not in str(info.value)


def test_unknown_codes_are_allowed_in_parts_that_list_them(tmp_path: Path) -> None:
    part = write(tmp_path / "text", train_qxx=["a"], train_en=["one"])
    with pytest.raises(LanguageError, match="qxx"):
        open_settings({"kind": "mixture", "parts": [part]})
    listed = part | {"languages": ["qxx", "en"]}
    assert open_settings({"kind": "mixture", "parts": [listed]}).languages == ("qxx", "en")


def test_missing_text_is_named(parts: list[dict[str, Any]]) -> None:
    missing = {"kind": "multiway", "path": "nowhere"}
    with pytest.raises(CorpusError, match="nowhere is not a folder"):
        open_settings({"kind": "mixture", "parts": [*parts, missing], "central_language": "de"})


def test_a_model_is_prepared_from_a_mixture(tmp_path: Path) -> None:
    lines = [f"{word} {n}" for n in range(20) for word in ("one", "two", "three")]
    old = write(tmp_path / "old", train_de=lines, train_en=lines, dev_de=lines[:4], dev_en=lines[:4])
    new = write(tmp_path / "new", train_sw=lines, train_eng=lines, dev_sw=lines[:4], dev_eng=lines[:4])
    experiment = {
        "data": str(tmp_path / "data"),
        "run": str(tmp_path / "run"),
        "corpus": {"kind": "mixture", "parts": [old | {"train_share": 0.5}, new]},
        "vocabulary": {"size": 64},
    }
    dataset = manyglot.prepare(experiment)
    assert set(dataset.languages) == {"de", "en", "sw"}
    with pytest.raises(ManyglotError, match=r"was prepared from other text or settings \(corpus changed\)"):
        manyglot.prepare(experiment | {"corpus": {"kind": "mixture", "parts": [old, new]}})


def test_a_part_may_have_a_license_which_does_not_change_the_data(parts: list[dict[str, Any]]) -> None:
    def settings(*licenses: str | None) -> PreparationSettings:
        licensed = [part | {"license": name} for part, name in zip(parts, licenses, strict=True)]
        corpus = {"kind": "mixture", "parts": licensed}
        return parse_settings(PreparationSettings, {"corpus": corpus, "vocabulary": {}, "cleaning": {}})

    assert settings("CC0", None).corpus.parts[0].license == "CC0"  # type: ignore[union-attr]
    assert settings("CC0", "MIT").to_dict() == settings(None, None).to_dict()
    built_in = {"kind": "phrasebook", "languages": ["de", "en"]}  # it states the license of its text
    assert open_settings({"kind": "mixture", "parts": [built_in, *parts]}).languages == ("de", "en", "sw")
