"""Scores of translations against references, by sacreBLEU; every number has its signature."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from manyglot.corpus.languages import primary
from manyglot.errors import ManyglotError

TOKENIZERS = {"zh": "zh", "ja": "ja-mecab"}
"""How BLEU splits a language into words; 13a for all others, as in the paper."""


@dataclass(frozen=True)
class Score:
    """The quality of one direction."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str


def score(outputs: Sequence[str], references: Sequence[str], language: str) -> Score:
    """Corpus BLEU and chrF++ of translations into a language."""
    if len(outputs) != len(references):
        raise ManyglotError(f"{len(outputs)} translations cannot be scored against {len(references)} references.")
    bleu, chrf = _bleu(_tokenizer(language)), CHRF(word_order=2)
    bleu_score, chrf_score = bleu.corpus_score(outputs, [references]), chrf.corpus_score(outputs, [references])
    return Score(bleu_score.score, chrf_score.score, str(bleu.get_signature()), str(chrf.get_signature()))


def check_tokenizers(languages: Iterable[str]) -> None:
    """Refuse languages whose tokenizer is not installed, before anything is translated."""
    for language in languages:
        _bleu(_tokenizer(language))


def _tokenizer(language: str) -> str:
    return TOKENIZERS.get(primary(language), "13a")


@cache
def _bleu(tokenizer: str) -> BLEU:
    try:
        return BLEU(tokenize=tokenizer)
    except (ImportError, RuntimeError):
        extra = f"sacrebleu[{tokenizer.split('-')[0]}]"
        raise ManyglotError(f"BLEU needs the tokenizer {tokenizer}: pip install '{extra}'.") from None
