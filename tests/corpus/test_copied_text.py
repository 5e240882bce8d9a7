from __future__ import annotations

from manyglot.corpus.copied_text import CopiedTextCounter


def warnings(*rows: dict[str, str]) -> list[str]:
    counter = CopiedTextCounter()
    assert list(counter.count(rows)) == list(rows)
    return list(counter.warnings())


def test_a_copy_of_another_language_is_reported() -> None:
    copied = [{"de": f"line {i}", "en": f"line {i}", "fr": f"ligne {i}"} for i in range(60)]
    (message,) = warnings(*copied, *({"de": f"Zeile {i}", "en": f"row {i}"} for i in range(40)))
    assert message.startswith("60% of the training sentences in German (de) and English (en) are the same. Check both")


def test_few_copies_and_variants_are_not_reported() -> None:
    assert not warnings(*({"de": "a", "en": "a"} for _ in range(19)))
    assert not warnings(*({"de": f"a{i}", "en": f"a{i % 4}"} for i in range(100)))
    assert not warnings(*({"hr": "a", "sr": "a"} for _ in range(100)))
