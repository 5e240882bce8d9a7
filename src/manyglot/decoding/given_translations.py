"""Translations that were made elsewhere and are scored by forced decoding: their checks and warnings."""

from __future__ import annotations

from collections.abc import Iterable

from manyglot.corpus.textfiles import to_single_line
from manyglot.decoding.scored_translation import TextWarning
from manyglot.decoding.text_arguments import clean_text, reject_single_string
from manyglot.decoding.unknown_characters import describe_characters
from manyglot.errors import ManyglotError
from manyglot.vocabulary.vocabulary import Vocabulary


def read_given_translations(
    texts: Iterable[str], translations: Iterable[str], max_chars: int
) -> tuple[list[str], list[str]]:
    """Return texts and translations, each on one line; raise an error if they do not pair up or are too long."""
    lines, outputs = (
        [to_single_line(clean_text(text)) for text in reject_single_string(given)] for given in (texts, translations)
    )
    if len(lines) != len(outputs):
        raise ManyglotError(f"There are {len(lines)} texts and {len(outputs)} translations.")
    for number, pair in enumerate(zip(lines, outputs, strict=True), start=1):
        if (num_chars := max(map(len, pair))) > max_chars:
            raise ManyglotError(
                f"Text {number} or its translation has {num_chars:,} characters; at most {max_chars:,} are scored "
                f"at once. Split it, or raise max_chars."
            )
    return lines, outputs


def unknown_character_warnings(
    vocabulary: Vocabulary, source: tuple[str, str | None], translation: tuple[str, str]
) -> tuple[TextWarning, ...]:
    """Return a warning for each side, a text and its language, with characters that are not in the vocabulary."""
    unknown = [
        vocabulary.subword_model.for_language(code).unknown_characters(text) for text, code in (source, translation)
    ]
    return tuple(
        TextWarning(
            "unknown_characters",
            f"has {what} unknown to the model: {describe_characters(characters)}. The score counts <unk> instead.",
        )
        for what, characters in zip(("characters", "a translation with characters"), unknown, strict=True)
        if characters
    )
