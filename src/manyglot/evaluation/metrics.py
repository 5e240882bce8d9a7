"""BLEU and chrF++, identical to sacreBLEU's to the last digit and with its signatures.

sacreBLEU writes the signatures and tokenizes. Only 13a, which takes most of the time, is reimplemented for many texts
at once in `tokenizer_13a.py`. `ngram_matches.py` counts the n-grams.
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

from manyglot.corpus.languages import base_language
from manyglot.errors import ManyglotError
from manyglot.evaluation.ngram_matches import BLEU_ORDER, NgramCounts, ReferenceNgrams
from manyglot.evaluation.tokenizer_13a import tokenize_13a

BleuTokenizerName = Literal["auto", "13a", "mecab", "flores101", "flores200"]
BLEU_TOKENIZERS: dict[str, dict[str, str]] = {
    "auto": {"zh": "zh", "ja": "ja-mecab"},
    "mecab": {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"},
    "13a": {},
    "flores101": {"": "flores101"},
    "flores200": {"": "flores200"},
    "char": {"": "char"},
}
"""sacreBLEU tokenizer by setting and language; 13a for languages not listed, "" stands for all languages. `char` is no
setting: validation uses it where the tokenizer of a language is not installed."""

CHRF_BETA = 2
"""Weight of recall relative to precision in chrF."""


@dataclass(frozen=True)
class BleuChrfScore:
    """Corpus BLEU and chrF++ of one direction, with their signatures."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str


@dataclass(frozen=True)
class BleuChrfScorer:
    """Computes BLEU and chrF++ with a given word tokenizer, optionally after detokenization."""

    tokenizer: BleuTokenizerName | Literal["char"] = "auto"
    detokenize: bool = False

    def tokenizer_name(self, language: str) -> str:
        """Return sacreBLEU's name of the tokenizer for a language."""
        tokenizers = BLEU_TOKENIZERS[self.tokenizer]
        return tokenizers.get("") or tokenizers.get(base_language(language), "13a")

    def check_tokenizers_installed(self, languages: Iterable[str]) -> None:
        """Raise an error if a language's tokenizer is not installed. Call this before translating."""
        for language in languages:
            _bleu_metric(self.tokenizer_name(language))
            if self.detokenize:
                _load_detokenizer(base_language(language))

    def detokenize_if_enabled(self, texts: Sequence[str], language: str) -> list[str]:
        """Return the texts as they are compared: detokenized if `detokenize` is set."""
        return list(map(_load_detokenizer(base_language(language)), texts)) if self.detokenize else list(texts)

    def index_references(self, references: Sequence[str], language: str) -> ReferenceNgrams:
        """Index references for comparison with outputs; pass both through `detokenize_if_enabled` first."""
        name = self.tokenizer_name(language)
        tokenizer = _bleu_metric(name).tokenizer
        if name == "13a":
            return ReferenceNgrams(references, tokenize_13a)
        return ReferenceNgrams(references, lambda texts: [tokenizer(text.rstrip()).split() for text in texts])

    def score_from_counts(self, counts: NgramCounts, language: str) -> BleuChrfScore:
        """Compute corpus BLEU and chrF++ from the counts of all sentences."""
        bleu = corpus_bleu(counts.bleu_counts_NS.sum(axis=0).tolist())
        chrf = corpus_chrf(counts.chrf_counts_NS.sum(axis=0).tolist())
        return BleuChrfScore(bleu, chrf, self.bleu_signature(language), self.chrf_signature())

    def bleu_signature(self, language: str) -> str:
        """Return sacreBLEU's signature of BLEU for a language."""
        metric = _bleu_metric(self.tokenizer_name(language))
        metric.num_refs = 1
        return _add_detokenizer(str(metric.get_signature()), self.detokenize)

    def chrf_signature(self) -> str:
        """Return sacreBLEU's signature of chrF++."""
        metric = CHRF(word_order=2)
        metric.num_refs = 1
        return _add_detokenizer(str(metric.get_signature()), self.detokenize)


def score_translations(
    outputs: Sequence[str], references: Sequence[str], language: str, scorer: BleuChrfScorer | None = None
) -> BleuChrfScore:
    """Compute corpus BLEU and chrF++ of translations into a language."""
    if len(outputs) != len(references):
        raise ManyglotError(
            f"The number of translations ({len(outputs)}) differs from the number of references ({len(references)})."
        )
    scorer = scorer or BleuChrfScorer()
    reference_ngrams = scorer.index_references(scorer.detokenize_if_enabled(references, language), language)
    outputs = scorer.detokenize_if_enabled(outputs, language)
    return scorer.score_from_counts(reference_ngrams.count_matches(outputs, range(len(outputs))), language)


def corpus_bleu(count_sums: Sequence[int]) -> float:
    """Compute corpus BLEU from the column sums of `NgramCounts.bleu_counts_NS`."""
    correct, total = list(count_sums[2 : 2 + BLEU_ORDER]), list(count_sums[2 + BLEU_ORDER :])
    return float(BLEU.compute_bleu(correct, total, count_sums[0], count_sums[1], smooth_method="exp").score)


def corpus_bleu_batch(count_sums_RS: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Compute the BLEU of R corpora at once, one per row of count sums."""
    output_length, reference_length = (count_sums_RS[:, i].astype(np.float64) for i in range(2))
    correct, total = count_sums_RS[:, 2 : 2 + BLEU_ORDER], count_sums_RS[:, 2 + BLEU_ORDER :]
    with np.errstate(divide="ignore", invalid="ignore"):
        brevity_penalty = np.where(output_length < reference_length, np.exp(1 - reference_length / output_length), 1.0)
        smoothing = 2.0 ** np.cumsum(
            correct == 0, axis=1
        )  # exponential smoothing: orders without a match count 1/2, 1/4, …
        precision = np.where(correct == 0, 1 / (smoothing * total), correct / total)
        scores = 100 * brevity_penalty * np.exp(np.log(precision).mean(axis=1))
    return np.where(total.all(axis=1) & correct.any(axis=1), np.nan_to_num(scores), 0.0)


def corpus_chrf(count_sums: Sequence[int]) -> float:
    """Compute corpus chrF++ from the column sums of `NgramCounts.chrf_counts_NS`.

    This is the F-score of precision and recall averaged over the orders.
    """
    precisions, recalls = [], []
    for i in range(0, len(count_sums), 3):
        num_output, num_reference, num_shared = count_sums[i : i + 3]
        if num_output and num_reference:
            precisions.append(num_shared / num_output)
            recalls.append(num_shared / num_reference)
    if not sum(precisions):
        return 0.0
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return 100 * ((1 + CHRF_BETA**2) * precision * recall / (CHRF_BETA**2 * precision + recall))


def corpus_chrf_batch(count_sums_RS: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Compute the chrF++ of R corpora at once, one per row of count sums; a corpus may be a single sentence."""
    num_output_RO, num_reference_RO, num_shared_RO = (count_sums_RS[:, i::3].astype(np.float64) for i in range(3))
    is_counted_RO = (num_output_RO > 0) & (num_reference_RO > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        num_orders = is_counted_RO.sum(axis=1)
        precision = np.where(is_counted_RO, num_shared_RO / num_output_RO, 0).sum(axis=1) / num_orders
        recall = np.where(is_counted_RO, num_shared_RO / num_reference_RO, 0).sum(axis=1) / num_orders
        scores_R = 100 * (1 + CHRF_BETA**2) * precision * recall / (CHRF_BETA**2 * precision + recall)
    return np.where(np.isfinite(scores_R), scores_R, 0.0)


def _add_detokenizer(signature: str, detokenized: bool) -> str:
    return f"{signature}|detok:sacremoses" if detokenized else signature


@cache
def _bleu_metric(tokenizer: str) -> BLEU:
    if tokenizer.startswith("flores"):
        return _spbleu_metric(tokenizer)
    try:
        return BLEU(tokenize=tokenizer)
    except (ImportError, RuntimeError):
        extra = tokenizer.split("-")[0]
        raise ManyglotError(
            f"The BLEU tokenizer {tokenizer} is not installed: pip install 'manyglot[{extra}]'."
        ) from None


def _spbleu_metric(tokenizer: str) -> BLEU:
    """Return the spBLEU metric; raise an error if its model is missing, which sacreBLEU would otherwise download."""
    path = Path(sacrebleu.utils.SACREBLEU_DIR, "models", Path(SPM_MODELS[tokenizer]["url"]).name)
    how_to_download = f"`echo x | sacrebleu <(echo x) --tokenize {tokenizer}` downloads it."
    if not path.exists():
        raise ManyglotError(f"spBLEU needs the model {path}. {how_to_download}")
    try:
        return BLEU(tokenize=tokenizer)
    except (OSError, RuntimeError):
        raise ManyglotError(f"{path} is not a SentencePiece model. Delete it. {how_to_download}") from None


@cache
def _load_detokenizer(language: str) -> Callable[[str], str]:
    try:
        from sacremoses import MosesDetokenizer
    except ImportError:
        raise ManyglotError("evaluation.detokenize needs sacremoses: pip install 'manyglot[moses]'.") from None
    detokenizer = MosesDetokenizer(lang=language)
    return lambda text: str(detokenizer.detokenize(text.split()))
