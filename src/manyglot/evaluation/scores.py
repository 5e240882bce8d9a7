"""BLEU and chrF++ of translations against references, equal to sacreBLEU's to the last digit, with its signatures.

Signatures are written by sacreBLEU itself, and it splits words, except by 13a, which is most of the work and done for
many texts at once in `words.py`; n-grams are counted in `ngrams.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import sacrebleu.utils
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS

from manyglot.corpus.languages import primary
from manyglot.errors import ManyglotError
from manyglot.evaluation.ngrams import BLEU_ORDER, Counts, References
from manyglot.evaluation.words import words_13a

TokenizerName = Literal["auto", "13a", "mecab", "flores101", "flores200"]
TOKENIZERS: dict[str, dict[str, str]] = {
    "auto": {"zh": "zh", "ja": "ja-mecab"},
    "mecab": {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"},
    "13a": {},
    "flores101": {"": "flores101"},
    "flores200": {"": "flores200"},
}
"""How BLEU splits a language into words, by setting: 13a for languages that are not there, "" stands for all."""

BETA = 2
"""How much more recall counts than precision in chrF."""


@dataclass(frozen=True)
class Score:
    """The quality of one direction."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str


@dataclass(frozen=True)
class Measure:
    """How translations are compared with references: the way to split words, and whether they are detokenised."""

    tokenizer: TokenizerName = "auto"
    detokenize: bool = False

    def tokenizer_of(self, language: str) -> str:
        """The name that sacreBLEU has for the way to split a language."""
        table = TOKENIZERS[self.tokenizer]
        return table.get("") or table.get(primary(language), "13a")

    def check(self, languages: Iterable[str]) -> None:
        """Refuse languages whose tokenizer is not installed, before anything is translated."""
        for language in languages:
            _bleu(self.tokenizer_of(language))
            if self.detokenize:
                _detokenizer(primary(language))

    def plain(self, texts: Sequence[str], language: str) -> list[str]:
        """The texts as they are compared: detokenised, where that is asked for."""
        return list(map(_detokenizer(primary(language)), texts)) if self.detokenize else list(texts)

    def read(self, references: Sequence[str], language: str) -> References:
        """References, ready to be compared with outputs; both as `plain` gives them."""
        name = self.tokenizer_of(language)
        tokenizer = _bleu(name).tokenizer
        if name == "13a":
            return References(references, words_13a)
        return References(references, lambda texts: [tokenizer(text.rstrip()).split() for text in texts])

    def score(self, counts: Counts, language: str) -> Score:
        """Corpus BLEU and chrF++ from what was counted in each sentence."""
        bleu = bleu_score(counts.bleu_NS.sum(axis=0).tolist())
        chrf = chrf_score(counts.chrf_NS.sum(axis=0).tolist())
        return Score(bleu, chrf, self.bleu_signature(language), self.chrf_signature())

    def bleu_signature(self, language: str) -> str:
        """What sacreBLEU writes beside a BLEU."""
        metric = _bleu(self.tokenizer_of(language))
        metric.num_refs = 1
        return _noted(str(metric.get_signature()), self.detokenize)

    def chrf_signature(self) -> str:
        """What sacreBLEU writes beside a chrF++."""
        metric = CHRF(word_order=2)
        metric.num_refs = 1
        return _noted(str(metric.get_signature()), self.detokenize)


def score(outputs: Sequence[str], references: Sequence[str], language: str, measure: Measure | None = None) -> Score:
    """Corpus BLEU and chrF++ of translations into a language."""
    if len(outputs) != len(references):
        raise ManyglotError(f"{len(outputs)} translations cannot be scored against {len(references)} references.")
    measure = measure or Measure()
    read = measure.read(measure.plain(references, language), language)
    return measure.score(read.compare(measure.plain(outputs, language), range(len(outputs))), language)


def check_tokenizers(languages: Iterable[str]) -> None:
    """Refuse languages whose tokenizer is not installed."""
    Measure().check(languages)


def bleu_score(totals: Sequence[int]) -> float:
    """BLEU of a corpus from the sums of `Counts.bleu_NS`."""
    correct, total = list(totals[2 : 2 + BLEU_ORDER]), list(totals[2 + BLEU_ORDER :])
    return float(BLEU.compute_bleu(correct, total, totals[0], totals[1], smooth_method="exp").score)


def bleu_scores(totals_RS: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The same for many corpora at once, a row for each."""
    length, reference = (totals_RS[:, i].astype(np.float64) for i in range(2))
    correct, total = totals_RS[:, 2 : 2 + BLEU_ORDER], totals_RS[:, 2 + BLEU_ORDER :]
    with np.errstate(divide="ignore", invalid="ignore"):
        penalty = np.where(length < reference, np.exp(1 - reference / length), 1.0)
        smooth = 2.0 ** np.cumsum(correct == 0, axis=1)  # an order without a match counts as half a match, a quarter …
        precision = np.where(correct == 0, 1 / (smooth * total), correct / total)
        scores = 100 * penalty * np.exp(np.log(precision).mean(axis=1))
    return np.where(total.all(axis=1) & correct.any(axis=1), np.nan_to_num(scores), 0.0)


def chrf_score(totals: Sequence[int]) -> float:
    """chrF++ of a corpus from the sums of `Counts.chrf_NS`: the F-score of mean precision and mean recall."""
    precisions, recalls = [], []
    for i in range(0, len(totals), 3):
        output, reference, shared = totals[i : i + 3]
        if output and reference:
            precisions.append(shared / output)
            recalls.append(shared / reference)
    if not sum(precisions):
        return 0.0
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return 100 * ((1 + BETA**2) * precision * recall / (BETA**2 * precision + recall))


def _noted(signature: str, detokenized: bool) -> str:
    return f"{signature}|detok:sacremoses" if detokenized else signature


@cache
def _bleu(tokenizer: str) -> BLEU:
    if tokenizer.startswith("flores"):
        return _spbleu(tokenizer)
    try:
        return BLEU(tokenize=tokenizer)
    except (ImportError, RuntimeError):
        extra = tokenizer.split("-")[0]
        raise ManyglotError(f"BLEU needs the tokenizer {tokenizer}: pip install 'manyglot[{extra}]'.") from None


def _spbleu(tokenizer: str) -> BLEU:
    """Refuse a model that is not on this machine: sacreBLEU would fetch it in the middle of the work."""
    path = Path(sacrebleu.utils.SACREBLEU_DIR, "models", Path(SPM_MODELS[tokenizer]["url"]).name)
    fetch = f"`echo x | sacrebleu <(echo x) --tokenize {tokenizer}` fetches it where there is a network."
    if not path.exists():
        raise ManyglotError(f"spBLEU needs the model {path}. {fetch}")
    try:
        return BLEU(tokenize=tokenizer)
    except (OSError, RuntimeError):
        raise ManyglotError(f"{path} is not a SentencePiece model. Delete it; {fetch}") from None


@cache
def _detokenizer(language: str) -> Callable[[str], str]:
    try:
        from sacremoses import MosesDetokenizer
    except ImportError:
        raise ManyglotError("evaluation.detokenize needs sacremoses: pip install 'manyglot[moses]'.") from None
    tool = MosesDetokenizer(lang=language)
    return lambda text: str(tool.detokenize(text.split()))
