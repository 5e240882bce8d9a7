"""Evaluation of a model on many directions: translate everything at once, then score direction by direction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pydantic import Field

from manyglot.batches.dataset import Dataset
from manyglot.corpus.languages import Direction
from manyglot.decoding.translator import Translator
from manyglot.errors import CorpusError
from manyglot.evaluation.identify import Identifier, IdentifierName, make_identifier
from manyglot.evaluation.results import DirectionResult as DirectionResult
from manyglot.evaluation.results import Evaluation as Evaluation
from manyglot.evaluation.results import Example as Example
from manyglot.evaluation.scores import Measure, TokenizerName
from manyglot.evaluation.scoring import Scored, Translated, score_directions
from manyglot.progress import Bar, bar, say
from manyglot.settings import Settings


class EvaluationSettings(Settings):
    """What is translated, how it is compared with the references and how its language is told."""

    max_sentences: int | None = Field(None, ge=1)
    """Use at most this many test sentences of a direction; null uses all."""
    tokenizer: TokenizerName = "auto"
    """How BLEU splits words: auto (zh for Chinese, ja-mecab for Japanese, 13a for others, as the paper on TED-59),
    mecab (the same, and ko-mecab for Korean), 13a (for all, as the paper on OPUS-100), flores101 or flores200 (spBLEU).
    """
    detokenize: bool = False
    """Detokenise outputs and references by sacremoses first, for text that is tokenised, as TED-59 is."""
    identifier: IdentifierName = "py3langid"
    """What tells the language of a translation: py3langid, langid (the paper's for TED-59), langdetect (the paper's for
    OPUS-100; slow), pycld2, or a profile learnt from the training text (for languages that no tool knows, and for very
    short text)."""
    restrict: bool = True
    """Let the identifier choose among the languages of the data; false among all that it knows, as in the paper."""
    merge_variants: bool = True
    """Count Bosnian, Croatian and Serbian as one language when it is told, and both forms of Norwegian; false tells
    them apart, as the paper does. Regions and scripts, as in zh-cn and pt-br, never count."""

    @property
    def measure(self) -> Measure:
        """How translations are compared with references."""
        return Measure(self.tokenizer, self.detokenize)


def identifier_of(settings: EvaluationSettings, dataset: Dataset) -> Identifier:
    """The identifier that the settings ask for."""
    return make_identifier(settings.identifier, dataset, settings.restrict, settings.merge_variants)


def evaluate(
    translator: Translator,
    rows: Sequence[Mapping[str, str]],
    supervised: Sequence[Direction],
    zero_shot: Sequence[Direction],
    identifier: Identifier,
    settings: EvaluationSettings,
    pivot: str | None = None,
) -> Evaluation:
    """Translate and score the test rows in the given directions; those without any row are left out and named."""
    seen = set(supervised)
    tests = _tests(rows, [*supervised, *zero_shot], settings.max_sentences)
    settings.measure.check({direction.target for direction in tests})
    with bar(f"translating {len(tests)} directions", total=sum(map(len, tests.values()))) as progress:
        outputs = translate_directions(translator, tests, progress)
    translated = {
        d: Translated([row[d.source] for row in test], outputs[d], [row[d.target] for row in test])
        for d, test in tests.items()
    }
    scored = score_directions(translated, [d for d in tests if d not in seen], identifier, settings.measure)
    examples = [
        Example(*direction, each.result.zero_shot, *texts)
        for direction, each in scored.items()
        for texts in zip(*translated[direction], each.identified, strict=True)
    ]
    return Evaluation(
        [each.result for each in scored.values()],
        examples,
        identifier.name,
        settings.measure.chrf_signature(),
        pivot,
        {"decoding": translator.settings.model_dump(), "evaluation": settings.model_dump()},
        {direction: each.statistics for direction, each in scored.items()},
        _outputs_in(scored),
    )


def _outputs_in(scored: Mapping[Direction, Scored]) -> dict[str, dict[str, dict[str, int]]]:
    """How many outputs into a language are in which, without languages that the identifier does not know."""
    found: dict[str, dict[str, Counter[str]]] = {}
    for direction, each in scored.items():
        if each.result.language_accuracy is not None:
            kind = found.setdefault("zero-shot" if each.result.zero_shot else "supervised", {})
            kind.setdefault(direction.target, Counter()).update(each.identified)
    return {kind: {code: dict(told.most_common()) for code, told in those.items()} for kind, those in found.items()}


def _tests(
    rows: Sequence[Mapping[str, str]], directions: Sequence[Direction], max_sentences: int | None
) -> dict[Direction, Sequence[Mapping[str, str]]]:
    """The rows of each direction."""
    tests = {d: [row for row in rows if d.source in row and d.target in row][:max_sentences] for d in directions}
    empty = [direction for direction, test in tests.items() if not test]
    if len(empty) == len(directions):
        raise CorpusError("There is no test text in any direction.")
    if empty:
        say(f"Left out, because there is no test text: {', '.join(map(str, empty))}.")
    return {direction: test for direction, test in tests.items() if test}


def translate_directions(
    translator: Translator, tests: Mapping[Direction, Sequence[Mapping[str, str]]], progress: Bar | None = None
) -> dict[Direction, list[str]]:
    """All directions in one call, so that batches mix target languages and waste nothing."""
    texts = [row[direction.source] for direction, test in tests.items() for row in test]
    targets = [direction.target for direction, test in tests.items() for _ in test]
    outputs = iter(translator.translate(texts, targets, progress))
    return {direction: [next(outputs) for _ in test] for direction, test in tests.items()}
