"""A source text as the translator sees it: split into sentences, without the characters to copy, and checked.

`read_source_texts` takes texts apart, and `SourceText.join` puts the translations of the sentences together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean

from manyglot.corpus.textfiles import to_single_line
from manyglot.decoding.scored_translation import TextWarning, Translation
from manyglot.decoding.text_splitter import SplitText, TextSplitter
from manyglot.decoding.unknown_characters import CopiedRuns, describe_characters, remove_unknown_runs
from manyglot.vocabulary.subword_model import UNK, SubwordModel

MAX_NAMED_LANGUAGES = 3
"""Number of languages that a warning suggests as the language of a text."""


@dataclass(frozen=True)
class SourceText:
    """A text to translate."""

    split: SplitText
    sentences: tuple[str, ...]
    """The sentences to translate, without the characters to copy."""
    copied_runs: tuple[CopiedRuns, ...]
    """The characters to copy to the translation of each sentence."""
    warnings: tuple[TextWarning, ...] = ()
    """Why parts of the text may be missing in its translation."""

    @property
    def is_split(self) -> bool:
        """Whether the text has several sentences that are translated one by one."""
        return len(self.sentences) > 1

    def join(self, hypotheses: Sequence[Sequence[Translation]], target: str) -> list[Translation]:
        """Join the n best translations of each sentence into the n best translations of the text.

        The k-th translation of the text joins the k-th translations of its sentences. A sentence with fewer
        translations contributes its last one. The score is the mean of the sentence scores.
        """
        if not self.is_split:
            (n_best,) = hypotheses
            texts = [self.copied_runs[0].add_to(translation.text) for translation in n_best]
            return [
                replace(translation, text=text, warnings=self.warnings)
                for translation, text in zip(n_best, texts, strict=True)
            ]
        num_translations = max(map(len, hypotheses))
        return [
            self._join([n_best[min(k, len(n_best) - 1)] for n_best in hypotheses], target)
            for k in range(num_translations)
        ]

    def _join(self, translations: Sequence[Translation], target: str) -> Translation:
        """Join one translation of each sentence."""
        judged = [translation.on_target for translation in translations if translation.on_target is not None]
        texts = [
            copied.add_to(translation.text) for copied, translation in zip(self.copied_runs, translations, strict=True)
        ]
        return Translation(
            text=self.split.join(texts, target),
            score=fmean(translation.score for translation in translations),
            on_target=all(judged) if judged else None,
            warnings=self.warnings,
        )


def read_source_texts(
    texts: Sequence[str], splitter: TextSplitter, languages: Sequence[str | None]
) -> list[SourceText]:
    """Split texts, separate the characters to copy, and check what remains. Equal texts are read once."""
    keys = list(zip(texts, languages, strict=True))
    splits = {key: splitter.split(*key) for key in dict.fromkeys(keys)}
    sentences = [to_single_line(sentence) for split in splits.values() for sentence in split.sentences]
    sentence_languages = [language for (_, language), split in splits.items() for _ in split.sentences]
    encoded = iter(zip(sentences, splitter.vocabulary.encode(sentences, sentence_languages), strict=True))
    sources = {
        key: _check_text(key, split, list(islice(encoded, len(split.sentences))), splitter)
        for key, split in splits.items()
    }
    return [sources[key] for key in keys]


def _check_text(
    text_and_language: tuple[str, str | None],
    split: SplitText,
    encoded: Sequence[tuple[str, list[int]]],
    splitter: TextSplitter,
) -> SourceText:
    """Return the text with its warnings, given its sentences and their subword ids."""
    text, language = text_and_language
    sentences = tuple(sentence for sentence, _ in encoded)
    copied_runs = (CopiedRuns(),) * len(sentences)
    warnings = []
    if any(UNK in ids for _, ids in encoded):
        unknown = splitter.vocabulary.subword_model.for_language(language).unknown_characters(text)
        languages = _languages_with_characters(unknown, splitter.vocabulary.subword_model) if language is None else ()
        warnings.append(_unknown_characters_warning(unknown, splitter.options.copy_unknown, languages))
        if splitter.options.copy_unknown:
            visible = [character for character in unknown if not character.isspace()]
            separated = [remove_unknown_runs(sentence, visible) for sentence in sentences]
            sentences, copied_runs = tuple(rest for rest, _ in separated), tuple(runs for _, runs in separated)
    num_subwords, max_subwords = max(len(ids) for _, ids in encoded), splitter.lengths.max_subwords
    if num_subwords > max_subwords:
        what = "a sentence of " if len(sentences) > 1 else ""
        message = f"has {what}{num_subwords} subwords, but the longest training text has {max_subwords}"
        warnings.append(TextWarning("too_long", f"{message}. Parts of it may be missing in the translation."))
    return SourceText(split, sentences, copied_runs, tuple(warnings))


def _languages_with_characters(characters: Sequence[str], subword_model: SubwordModel) -> list[str]:
    """Return the languages whose own subwords, such as those of a language pack, have all the characters."""
    text, own_subwords = "".join(characters), subword_model.further_languages
    return [code for code, subwords in own_subwords.items() if not subwords.unknown_characters(text)]


def _unknown_characters_warning(unknown: Sequence[str], copied: bool, languages: Sequence[str]) -> TextWarning:
    """Return the warning, given the languages whose own subwords have the characters."""
    consequence = "Whole words and symbols are copied." if copied else "They may be missing in the translation."
    if languages:
        names = " and ".join(languages[:MAX_NAMED_LANGUAGES])
        consequence += (
            f" The subwords of {names} have them: name the language of the text "
            f'(--from {languages[0]}, or source="{languages[0]}" in Python).'
        )
    return TextWarning(
        "unknown_characters", f"has characters unknown to the model: {describe_characters(unknown)}. {consequence}"
    )
