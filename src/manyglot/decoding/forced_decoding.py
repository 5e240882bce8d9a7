"""Forced decoding: the log-probability that a model gives to translations made elsewhere.

The decoder reads each translation at once, as in training. The scores equal those of `BeamSearch` for the same
subwords: target tags score nothing but count in the length if the model predicts them, the end symbol scores nothing
after a translation of maximum length, and half precision is corrected in the same way.

Shape letters: B sentences, S source tokens, T target tokens, N target positions of all sentences, D model width,
V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from manyglot.batches.batch import collate
from manyglot.decoding.engine import ScoringRequest
from manyglot.decoding.scored_translation import TranslationScore
from manyglot.decoding.token_scorer import TokenScorer
from manyglot.model.cpu_inference import Int8OutputLayer
from manyglot.model.output_layer import OutputLayer
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import PAD

MAX_SCORED_POSITIONS = 1280
"""Number of target positions that are scored at once. Each one needs memory for the scores of the whole vocabulary."""


class ForcedDecoder:
    """Scores given translations with one model, in batches of mixed target languages."""

    def __init__(
        self,
        model: Transformer,
        full_precision: OutputLayer | None = None,
        int8_layer: Int8OutputLayer | None = None,
    ) -> None:
        self.model, self.tags = model, model.tags_by_language()
        self.token_scorer = TokenScorer(model, full_precision, int8_layer)

    def index_batches(self, request: ScoringRequest) -> Iterator[list[int]]:
        """Yield the indices of sentences of similar length in batches within the size limit, longest first."""
        lengths = [
            max(len(source), len(translation)) + 1
            for source, translation in zip(request.sources, request.translations, strict=True)
        ]
        batch: list[int] = []
        for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
            if batch and (len(batch) + 1) * lengths[batch[0]] > request.settings.max_batch_tokens:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    @torch.inference_mode()
    def score(
        self,
        request: ScoringRequest,
        rows: Sequence[int],
        source_languages: Sequence[int | None],
        random_lang_B: Tensor,
    ) -> list[TranslationScore]:
        """Return the scores of some translations of a request."""
        device = self.model.embedding.weight.device
        batch = collate(
            [request.sources[row] for row in rows],
            [request.translations[row] for row in rows],
            [request.target_language_ids[row] for row in rows],
            self.tags,
            [source_languages[row] for row in rows],
        )
        label_BT = batch.label_BT.to(device)
        hidden_BTD = self.model(
            batch.source_BS.to(device),
            batch.input_BT.to(device),
            batch.lang_B.to(device),
            random_lang_B=random_lang_B.to(device),
        ).decoded
        is_counted_BT = label_BT != PAD
        is_scored_BT = is_counted_BT.clone()
        num_tags = len(self.tags[0].target)
        is_scored_BT[:, :num_tags] = False
        for i, (row, num_source_tokens) in enumerate(
            zip(rows, (batch.source_BS != PAD).sum(dim=1).tolist(), strict=True)
        ):
            length, limit = len(request.translations[row]), request.settings.max_output_length(num_source_tokens)
            if length == min(limit, self.model.max_output_length(self.tags[0])):
                is_scored_BT[i, num_tags + length] = False  # the search forces this end symbol
        logprob_BT = torch.zeros(label_BT.shape, dtype=torch.float64, device=device)
        logprob_BT[is_scored_BT] = self._token_log_probs(hidden_BTD[is_scored_BT], label_BT[is_scored_BT])
        totals, lengths = logprob_BT.sum(dim=1).tolist(), is_counted_BT.sum(dim=1).tolist()
        penalty = request.settings.length_penalty
        return [TranslationScore.from_length(*each, penalty) for each in zip(totals, lengths, strict=True)]

    def _token_log_probs(self, hidden_ND: Tensor, label_N: Tensor) -> Tensor:
        """Return the log-probability of the label at each position."""
        parts = []
        for start in range(0, len(label_N), MAX_SCORED_POSITIONS):
            positions = slice(start, start + MAX_SCORED_POSITIONS)
            self.token_scorer.compute_scores(hidden_ND[positions])
            parts.append(self.token_scorer.token_log_probs(label_N[positions]).double())
        return torch.cat(parts)
