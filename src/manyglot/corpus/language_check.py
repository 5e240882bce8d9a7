"""Check a sample of each file of a corpus: is the text in the script and in the language that the file name says?

py3langid identifies the language. It does not know every language. For the others, only sentences that are copied from
another language of the same row count as wrong, because untranslated text is the most common defect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum

from manyglot.corpus.base import Row
from manyglot.corpus.languages import english_language_name
from manyglot.corpus.scripts import language_script_code, script_ratio
from manyglot.langid.other_language import MIN_LETTERS, can_find_other_language, find_other_languages
from manyglot.langid.variants import language_label

MAX_SAMPLED_SENTENCES = 1000
"""Sentences per file to sample, evenly spread over the file."""
MIN_WRONG_SHARE = 0.05
"""Report a file if more than this share of the checked sentences is wrong."""
MANY_SENTENCES, FEW_SENTENCES = 10, 3
"""Report another language if at least this many sentences are in it; few suffice if they are more than half. Lists of
names can look like other languages, but rarely so many like the same one."""
MAX_EXAMPLE_CHARACTERS = 80


class FileDefect(StrEnum):
    """What is wrong with the text of a file."""

    SCRIPT = "script"
    LANGUAGE = "language"


@dataclass(frozen=True)
class SuspiciousFile:
    """A file that is partly or entirely in another script or language than its name says."""

    file: str
    """Split and language, such as train.de; with the pair of languages in a bilingual corpus: train.de-en.de."""
    code: str
    defect: FileDefect
    wrong_share: float
    """Share of the checked sentences that are in the other script or language."""
    other_language: str
    """The other language; empty for a wrong script."""
    example: str
    """A wrong sentence."""

    def __str__(self) -> str:
        """Describe the defect for people."""
        language = english_language_name(self.code)
        example = self.example[:MAX_EXAMPLE_CHARACTERS] + ("…" if len(self.example) > MAX_EXAMPLE_CHARACTERS else "")
        if self.defect == FileDefect.SCRIPT:
            what = f"are not in the usual script of {language}"
        else:
            what = f"are {english_language_name(self.other_language)} ({self.other_language}), not {language}"
        return f"{self.file}: {self.wrong_share:.0%} of the sentences {what}, such as: {example}"

    def to_dict(self) -> dict[str, object]:
        """Return plain values for `--json`."""
        return asdict(self)


class FileSample:
    """An even sample of the sentences of one file, collected while the file is read."""

    def __init__(self, file: str, code: str) -> None:
        self.file, self.code = file, code
        self._num_seen, self._stride = 0, 1
        self._sentences: list[tuple[str, str]] = []
        """Each sentence with the other language of its row that has the same sentence, or an empty string."""

    def add(self, sentence: str, row: Row) -> None:
        """Add the next sentence of the file. Whenever the sample is full, every other sentence is dropped."""
        if self._num_seen % self._stride == 0:
            self._sentences.append((sentence, _copied_language(self.code, sentence, row)))
            if len(self._sentences) == MAX_SAMPLED_SENTENCES:
                self._sentences, self._stride = self._sentences[::2], 2 * self._stride
        self._num_seen += 1

    def find_defects(self) -> Iterator[SuspiciousFile]:
        """Check script and language."""
        script = language_script_code(self.code)
        if script is not None:
            wrong = [sentence for sentence, _ in self._sentences if script_ratio(sentence, script) < 0.5]
            if len(wrong) > MIN_WRONG_SHARE * len(self._sentences):
                share = len(wrong) / len(self._sentences)
                yield SuspiciousFile(self.file, self.code, FileDefect.SCRIPT, share, "", wrong[0])
                if share > 0.5:  # text in another script is hardly in the language, and one message suffices
                    return
        yield from self._find_other_language()

    def _find_other_language(self) -> Iterator[SuspiciousFile]:
        if can_find_other_language(self.code):
            found = find_other_languages([sentence for sentence, _ in self._sentences], self.code)
        else:
            found = [other if _num_letters(text) >= MIN_LETTERS else None for text, other in self._sentences]
        checked = [(text, other) for (text, _), other in zip(self._sentences, found, strict=True) if other is not None]
        counts = Counter(other for _, other in checked if other)
        if not counts:
            return
        other_language, count = counts.most_common(1)[0]
        share = count / len(checked)
        if share > MIN_WRONG_SHARE and count >= (FEW_SENTENCES if share > 0.5 else MANY_SENTENCES):
            example = next(text for text, other in checked if other == other_language)
            yield SuspiciousFile(self.file, self.code, FileDefect.LANGUAGE, share, other_language, example)


def _copied_language(code: str, sentence: str, row: Row) -> str:
    """Return another language of the row with the same sentence; variants, such as Croatian and Serbian, may agree."""
    label = language_label(code, True)
    return next((c for c, text in row.items() if text == sentence and language_label(c, True) != label), "")


def _num_letters(text: str) -> int:
    return sum(map(str.isalpha, text))
