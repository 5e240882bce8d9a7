"""Log-probabilities of the next token after each row, and the top tokens.

A search spends most of its time here, because the vocabulary is large. All steps share one score buffer: allocating
memory would take longer than the softmax.

A search in half precision approximates the logits: in half precision itself, or in 8-bit integers on a CPU that has
instructions for them. Tokens of similar probability would then get equal or wrong scores. The scorer therefore uses
these logits only to select candidates, and recomputes the logits of the candidates from the float32 weights. The
normalizer of the softmax is corrected too, by the best candidates, which have most of the probability.

Shape letters: N rows (beams), D model width, V vocabulary, C candidates, b blocks, T tokens of a block.
"""

from __future__ import annotations

import torch
from torch import Tensor

from manyglot.model.cpu_inference import Int8OutputLayer
from manyglot.model.output_layer import OutputLayer
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import EOS, PAD, UNK

MAX_TRANSPOSED_ROWS = 512
"""Up to this number of rows, a CPU multiplies faster with the operands swapped, despite the transposed copy."""
MAX_INT8_ROWS = 64
"""Number of rows of 8-bit products to score at once, so that their scores stay in the cache."""
BLOCK_TOKENS, MIN_TOKENS_FOR_BLOCKS = 64, 16_384
"""Number of tokens per block in `blockwise_topk`, and the number of tokens from which blocks are faster."""
NUM_NORMALIZING_CANDIDATES = 16
"""Number of candidates that correct the normalizer. It is constant, so that scores do not depend on the beam size (if
half-precision logits tie, they may in the fourth digit)."""


class TokenScorer:
    """Scores the next token of each row with the model's output layer.

    Call `compute_scores` once per step. `masked_topk` and `token_log_probs` then read the scores of that step.
    `full_precision` is the output layer before it was rounded, and `int8_layer` its approximation, if there is one.
    """

    def __init__(
        self,
        model: Transformer,
        full_precision: OutputLayer | None = None,
        int8_layer: Int8OutputLayer | None = None,
    ) -> None:
        assert int8_layer is None or full_precision is not None, "approximate scores need a correction"
        self.weight_VD, self.bias_V = model.output_layer.detach()
        self.full_precision, self.int8_layer = full_precision, int8_layer
        self.dtype = torch.promote_types(self.weight_VD.dtype, torch.float32)
        self.allowed_tokens = range(1, model.dimensions.first_tag_id)
        """Ids that outputs may contain, apart from UNK. Padding, UNK and tags are never generated, but they keep their
        share of the probability."""
        tags = range(model.dimensions.first_tag_id, len(self.weight_VD))
        self._forbidden_tokens = torch.tensor([PAD, UNK, *tags], device=self.weight_VD.device)
        self._buffer = self.weight_VD.new_empty(0, dtype=self.dtype)
        self._is_corrected = False

    @classmethod
    def exact(cls, model: Transformer, full_precision: OutputLayer | None) -> TokenScorer:
        """Return a scorer that computes all logits in full precision, for a search that needs all of them."""
        scorer = cls(model)
        if full_precision is not None:
            scorer.weight_VD, scorer.bias_V = full_precision
        return scorer

    def compute_scores(self, hidden_ND: Tensor) -> None:
        """Compute the log-probabilities of all tokens from the last hidden state of each row."""
        self._hidden_ND, self._score_NV = hidden_ND, self._score_buffer(len(hidden_ND))
        # The search on a GPU does not correct the normalizer, so forced decoding must not do so there either.
        self._is_corrected = self.full_precision is None or not hidden_ND.is_cpu
        num_rows = len(hidden_ND) if self.int8_layer is None else MAX_INT8_ROWS
        parts = zip(torch.split(hidden_ND, num_rows), torch.split(self._score_NV, num_rows), strict=True)
        self._log_normalizer_N = torch.cat([self._compute_log_probs(*part) for part in parts])

    def masked_topk(self, k: int) -> tuple[Tensor, Tensor]:
        """Return the log-probabilities and ids of the k most probable tokens of each row.

        This overwrites the scores of forbidden tokens.
        """
        self._score_NV.index_fill_(1, self._forbidden_tokens, -torch.inf)
        if self.full_precision is None:
            return self._topk(min(k, len(self.weight_VD)))
        num_candidates = max(2 * k, NUM_NORMALIZING_CANDIDATES)
        rough_NC, token_NC = self._topk(min(num_candidates, len(self.weight_VD)))
        logprob_NC = self._full_precision_log_probs(token_NC).masked_fill(rough_NC.isneginf(), -torch.inf)
        if not self._is_corrected:
            logprob_NC -= self._correct_normalizer(rough_NC, logprob_NC)[:, None]
        logprob_NC, index_NC = logprob_NC.topk(min(k, logprob_NC.shape[1]))
        return logprob_NC, token_NC.gather(1, index_NC)

    def token_log_probs(self, token_N: Tensor) -> Tensor:
        """Return the log-probability of one given token per row."""
        if self.full_precision is None:
            return self._score_NV.gather(1, token_N[:, None])[:, 0]
        if not self._is_corrected:
            self.masked_topk(1)
        return self._full_precision_log_probs(token_N[:, None])[:, 0]

    def _topk(self, k: int) -> tuple[Tensor, Tensor]:
        num_blocks = len(self.weight_VD) // BLOCK_TOKENS
        if self._score_NV.is_cpu and len(self.weight_VD) >= MIN_TOKENS_FOR_BLOCKS and k <= num_blocks // 4:
            return blockwise_topk(self._score_NV, k)
        return self._score_NV.topk(k)

    def _full_precision_log_probs(self, token_NC: Tensor) -> Tensor:
        """Recompute the log-probabilities of some tokens from the full-precision weights."""
        assert self.full_precision is not None
        return self.full_precision.logits_of(token_NC, self._hidden_ND) - self._log_normalizer_N[:, None]

    def _correct_normalizer(self, rough_NC: Tensor, logprob_NC: Tensor) -> Tensor:
        """Correct the best candidates in the sum of the softmax, and return the change of the log normalizer."""
        rough_NC, logprob_NC = rough_NC[:, :NUM_NORMALIZING_CANDIDATES], logprob_NC[:, :NUM_NORMALIZING_CANDIDATES]
        change_N = torch.log1p((logprob_NC.exp() - rough_NC.exp()).sum(dim=1))
        self._log_normalizer_N, self._is_corrected = self._log_normalizer_N + change_N, True
        return change_N

    def _score_buffer(self, num_rows: int) -> Tensor:
        """Return a view of the score buffer with this number of rows. The buffer grows if it is too small."""
        size = num_rows * len(self.weight_VD)
        if self._buffer.numel() < size:
            self._buffer = self._buffer.new_empty(size)
        return self._buffer[:size].view(num_rows, -1)

    def _compute_log_probs(self, hidden_ND: Tensor, out_NV: Tensor) -> Tensor:
        """Write the log-probabilities of all tokens to `out_NV`, and return the normalizers."""
        logit_NV = out_NV
        if self.int8_layer is not None:
            logit_NV = self.int8_layer.logits(hidden_ND)
        else:
            self._compute_logits(hidden_ND, out_NV)
        if self.bias_V is not None:
            logit_NV += self.bias_V
        logit_N = logit_NV[:, EOS].clone()  # every language has an end symbol; other tokens may be impossible
        torch.log_softmax(logit_NV, dim=1, out=out_NV)
        return logit_N - out_NV[:, EOS]

    def _compute_logits(self, hidden_ND: Tensor, out_NV: Tensor) -> None:
        """Write the logits of all tokens without the bias to `out_NV`."""
        hidden_ND = hidden_ND.to(self.weight_VD.dtype)
        if hidden_ND.dtype != out_NV.dtype:
            out_NV.copy_(hidden_ND @ self.weight_VD.T)
        elif hidden_ND.is_cpu and len(hidden_ND) <= MAX_TRANSPOSED_ROWS:
            out_NV.copy_((self.weight_VD @ hidden_ND.T).T)
        else:
            torch.mm(hidden_ND, self.weight_VD.T, out=out_NV)


def blockwise_topk(score_NV: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k highest scores of each row and their ids, as `topk` does, but faster on a CPU.

    Only the k blocks with the highest maximum can contain them.
    """
    num_blocked = score_NV.shape[1] // BLOCK_TOKENS * BLOCK_TOKENS
    score_NbT = torch.unflatten(score_NV[:, :num_blocked], 1, (-1, BLOCK_TOKENS))
    block_Nk1 = score_NbT.amax(dim=2).topk(k).indices[:, :, None]
    candidate_NC = score_NbT.gather(1, block_Nk1.expand(-1, -1, BLOCK_TOKENS)).flatten(1)
    id_NC = (block_Nk1 * BLOCK_TOKENS + torch.arange(BLOCK_TOKENS)).flatten(1)
    rest = torch.arange(num_blocked, score_NV.shape[1]).expand(len(score_NV), -1)
    candidate_NC, id_NC = torch.cat([candidate_NC, score_NV[:, num_blocked:]], 1), torch.cat([id_NC, rest], 1)
    top_Nk, index_Nk = candidate_NC.topk(k)
    return top_Nk, id_NC.gather(1, index_Nk)
