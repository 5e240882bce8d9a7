"""A model with source tags is prepared, trained, validated, used and exported like any other."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import manyglot
from manyglot.errors import LanguageError
from tests.commands import mistake, run
from tests.conftest import tiny_experiment

MODEL = {"width": 16, "ffn_width": 32, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
OPTIONS = {"source_tag": True, "positions": "learned", "max_positions": 128, "activation": "gelu", "output_bias": True}


def test_a_model_with_source_tags_trains_and_translates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stdin: io.BytesIO
) -> None:
    experiment = tiny_experiment(
        tmp_path, model=MODEL | OPTIONS, guidance=[{"method": "token", "side": "target"}], training={"max_steps": 4}
    )
    manyglot.prepare(experiment)
    folder = manyglot.train(experiment).model_folder
    assert folder is not None
    model = manyglot.load(folder)
    german, english = model.languages.codes[:2]
    text = manyglot.evaluate(folder, experiment.data).examples[0].source_text
    with pytest.raises(LanguageError, match="reads the source language"):
        model.translate([text], to=english)
    expected = model.translate([text, text], to=english, source=[german, english])
    assert model.translate(text, to=english, source=german) == expected[0]
    assert model.score([text], expected[:1], to=english, source=german)[0].score < 0
    assert model.with_settings(pivot=model.languages.codes[2]).translate([text], to=english, source=german)
    request = {"text": text, "to": english}
    stdin.write("\n".join(json.dumps(each) for each in (request | {"from": german}, request)).encode())
    stdin.seek(0)
    out, _ = run(capsys, "translate", folder, "--format", "jsonl", code=1)
    named, unnamed = map(json.loads, out.splitlines())
    assert named["output"] == expected[0]
    assert "reads the source language" in unnamed["problem"]
    assert "Name it with --from" in mistake(capsys, "translate", folder, "--to", english)
    manyglot.export(folder, tmp_path / "exported")
    exported = manyglot.load(tmp_path / "exported")
    assert exported.translate([text, text], to=english, source=[german, english]) == expected
    with pytest.raises(LanguageError, match="reads the source language"):
        exported.translate([text], to=english)
