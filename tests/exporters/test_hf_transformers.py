"""transformers loads an export with its stock classes, and its beam search returns our outputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from manyglot.decoding.settings import DecodingSettings
from manyglot.exporters.hf_transformers import export_to_transformers
from manyglot.model.folding import FoldingError
from manyglot.model.guidance.base import MethodSettings
from manyglot.model.model_folder import TrainedModel
from manyglot.vocabulary.subword_model import EOS, PAD
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

    Our limit of the length relative to the source, which transformers lacks, is disabled. An output of maximum length
    may differ, because transformers does not score the end symbol that it forces.
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
            if max(map(len, [output, *(each.ids for each in hypotheses)])) == settings.max_length:
                continue
            num_ended += 1
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
    trained = random_model(COMBINATIONS[name], norm, end=6)
    if is_foldable(COMBINATIONS[name]):
        assert check(trained, tmp_path / "model") > 2
        return
    with pytest.raises(FoldingError, match="cannot be folded"):
        export_to_transformers(trained, tmp_path / "model", ["de"])
    assert not list(tmp_path.iterdir())
