from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from manyglot.corpus.languages import Direction
from manyglot.evaluation.packed_texts import PackedTexts
from manyglot.evaluation.translation_examples import (
    DirectionExamples,
    TranslationExample,
    TranslationExamples,
    select_examples_by_direction,
    write_examples,
)

DE_FR, EN_DE = Direction("de", "fr"), Direction("en", "de")


def direction_examples(direction: Direction, size: int) -> DirectionExamples:
    texts = [[f"{name} {i}" for i in range(size)] for name in ("source", "output", "reference")]
    return DirectionExamples(direction, True, texts[0], PackedTexts(texts[1]), texts[2], np.array(["fr"] * size))


EXAMPLES = TranslationExamples([direction_examples(DE_FR, 3), direction_examples(EN_DE, 2)])


def test_examples_are_created_when_they_are_read() -> None:
    listed = list(EXAMPLES)
    assert listed == EXAMPLES
    assert len(EXAMPLES) == len(listed) == 5
    assert [EXAMPLES[i] for i in range(-5, 5)] == listed * 2
    assert EXAMPLES[1:4] == listed[1:4]
    assert listed[3] == TranslationExample("en", "de", True, "source 0", "output 0", "reference 0", "fr")
    assert len(TranslationExamples([])) == 0


def test_examples_are_selected_by_direction() -> None:
    indices = {EN_DE: [1], DE_FR: [2, 0, 7]}
    selected = list(select_examples_by_direction(EXAMPLES, indices))
    assert selected == list(select_examples_by_direction(list(EXAMPLES), indices))
    assert [(e.target, e.output) for e in selected] == [("fr", "output 0"), ("fr", "output 2"), ("de", "output 1")]


def test_a_line_of_the_file_has_the_fields_in_order(tmp_path: Path) -> None:
    write_examples(tmp_path / "translations.jsonl", EXAMPLES)
    lines = (tmp_path / "translations.jsonl").read_text("utf-8").splitlines()
    assert lines == [json.dumps(asdict(example), ensure_ascii=False) for example in EXAMPLES]
