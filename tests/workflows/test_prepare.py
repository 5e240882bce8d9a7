"""`prepare` warns about languages whose characters the subword model lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

import manyglot
from manyglot.vocabulary.subword_model import VocabularySettings
from manyglot.workflows.prepare import explain_unknown_subwords
from tests.model.random_packs import TEXT, subwords


def test_unknown_subwords_are_one_line_with_a_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subwords("de", "en").save(tmp_path / "subwords.model")
    for code in ("en", "ka"):
        for split in ("train", "dev", "test"):
            (tmp_path / f"{split}.{code}").write_text("\n".join(TEXT[code]) + "\n", "utf-8")
    vocabulary = {"sentencepiece_model": str(tmp_path / "subwords.model"), "size": 70}
    values = {
        "data": str(tmp_path / "data"), "run": str(tmp_path / "run"), "vocabulary": vocabulary,
        "corpus": {"kind": "multiway", "path": str(tmp_path), "languages": ["en", "ka"]},
    }  # fmt: skip
    for _ in range(2):  # prepared data that is used again has the same problem
        manyglot.prepare(values)
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("! ")]
        assert "! Many subwords are unknown and will be lost: ka " in line
        assert "Set vocabulary.language_specific: [ka], which gives them subwords of their own." in line
    values |= {"data": str(tmp_path / "own"), "vocabulary": vocabulary | {"language_specific": ["ka"]}}
    manyglot.prepare(values)
    assert "! " not in capsys.readouterr().err


def test_the_remedy_depends_on_the_settings() -> None:
    def explain(unknown: int, **settings: object) -> str | None:
        counts = {code: {"subwords": 1000, "unknown": unknown} for code in ("az", "be", "cs", "da", "el", "fi")}
        counts |= {"en": {"subwords": 1000, "unknown": 10}, "xx": {}}
        return explain_unknown_subwords(counts, VocabularySettings.model_validate(settings))

    assert explain(10) is None
    listed = "az 2.0%, be 2.0%, cs 2.0%, da 2.0%, el 2.0% and 1 more languages"
    own = explain(20, sentencepiece_model="m", language_specific=["sw"])
    assert own is not None
    assert f"{listed}. Set vocabulary.language_specific: [sw, az, be, cs, da, el, fi]," in own
    for settings in ({}, {"sentencepiece_model": "m", "language_specific": ["az"]}):
        assert "Set vocabulary.byte_fallback: true, or raise" in (explain(20, **settings) or "")
