"""An engine without a model, which translates by a rule and records its calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from manyglot.corpus.languages import Languages
from manyglot.decoding.engine import DEFAULT_BLOCK_SIZE, ScoringRequest, SearchRequest
from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.scored_translation import TranslationScore
from manyglot.decoding.settings import DecodingSettings
from manyglot.decoding.translator import Translator
from manyglot.progress import ProgressReporter
from manyglot.vocabulary.subword_model import SubwordModel, VocabularySettings, train_subword_model
from manyglot.vocabulary.vocabulary import Vocabulary

CODES = ("de", "en", "fr")
Rule = Callable[[str, str], list[str]]
"""Returns the hypotheses for a sentence and a target language, best first. The engine keeps the first `beam_size`."""


@cache
def subword_model() -> SubwordModel:
    letters = [f"{letter} {letter.upper()} {letter}." for letter in "abcdefghijklmnopqrstuvwxyz0123456789:"]
    return train_subword_model(letters * 2, VocabularySettings(size=90))


class StubEngine:
    preferred_block_size = short_block_size = DEFAULT_BLOCK_SIZE
    reads_source_language = False

    def __init__(self, rule: Rule) -> None:
        self.rule, self.languages, self.default_settings = rule, Languages(CODES), DecodingSettings(beam_size=2)
        self.vocabulary = Vocabulary(subword_model(), self.languages)
        self.calls: list[tuple[int, int, int]] = []
        """Number of nonempty sentences, beam size and sentence offset of each call."""

    def search(self, request: SearchRequest, progress: ProgressReporter | None = None) -> list[list[Hypothesis]]:
        sources, beam_size = request.sources, request.settings.beam_size
        self.calls.append((sum(map(bool, sources)), beam_size, request.sentence_offset))
        results = []
        for text, source, language in zip(
            self.vocabulary.decode(sources), sources, request.target_language_ids, strict=True
        ):
            outputs = self.rule(text, self.languages.codes[language])[:beam_size] if source else [""]
            ids = self.vocabulary.encode(outputs)
            results.append([Hypothesis(tuple(each), 0.0 - i) for i, each in enumerate(ids)])
        if progress is not None:
            progress.advance(self.calls[-1][0])
        return results

    def score(self, request: ScoringRequest, progress: ProgressReporter | None = None) -> list[TranslationScore]:
        """Return minus the number of characters of each translation."""
        texts = self.vocabulary.decode(request.translations)
        if progress is not None:
            progress.advance(len(texts))
        return [TranslationScore.from_length(-float(len(text)), 2, 1.0) for text in texts]


def stub(rule: Rule | None = None) -> Translator:
    """Return a translator with a stub engine. Without a rule, it translates `x` into `de` as `de:x`."""
    engine = StubEngine(rule or (lambda text, code: [f"{code}:{text}", f"{code}:{text}.", f"{code}:{text}.."]))
    return Translator(engine, engine.vocabulary)
