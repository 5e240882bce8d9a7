"""Sampling: chooses tokens at random by their probabilities instead of searching for the best output.

Each beam is an independent sample. The samples depend on the seed, the sentence's index in the text, the sample's
index and the step, but not on the batch. Scores are length-normalized log-probabilities, as in beam search.

Shape letters: B sentences, K samples, N = B·K rows, V vocabulary, C candidates.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from manyglot.decoding.beam_search import BeamSearch, BeamSearchState, Candidates
from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.token_scorer import TokenScorer
from manyglot.model.cpu_inference import Int8OutputLayer
from manyglot.model.output_layer import OutputLayer
from manyglot.vocabulary.subword_model import EOS, PAD


class SamplingSearch(BeamSearch):
    """Samples `beam_size` outputs per sentence and returns them in order of their indices, not of their scores."""

    def _make_token_scorer(self, full_precision: OutputLayer | None, int8_layer: Int8OutputLayer | None) -> TokenScorer:
        """Return an exact scorer, because any token may be sampled."""
        return TokenScorer.exact(self.model, full_precision)

    def _initial_beam_scores(self, num_sentences: int) -> Tensor:
        """Return the scores of the first step. All beams may continue."""
        return super()._initial_beam_scores(num_sentences).zero_()

    def _select_candidates(self, state: BeamSearchState) -> Candidates:
        """Sample one token per beam. The second K candidates are impossible placeholders for beams that end."""
        num_sentences, beam_size = state.score_BK.shape
        step = state.ids_BKT.shape[2]
        token_BK = self._sample_tokens(self._uniform_samples(state, step)).view(num_sentences, beam_size)
        for i, sentence in enumerate(state.sentences):
            if (token := sentence.forced_token(step)) >= 0:
                token_BK[i] = token
        score_BK = state.score_BK + self._log_probs(state, token_BK)
        parent_BK = torch.arange(beam_size, device=token_BK.device).expand(num_sentences, beam_size)
        return Candidates(
            score_BC=torch.cat([score_BK, torch.full_like(score_BK, -torch.inf)], dim=1),
            parent_BC=parent_BK.repeat(1, 2),
            token_BC=torch.cat([token_BK, torch.full_like(token_BK, PAD)], dim=1),
        )

    @staticmethod
    def _ranking_key(finished: tuple[int, Hypothesis]) -> float:
        """Sort key that keeps the order of the samples. Those that end first are mostly short."""
        return finished[0]

    def _surviving_candidates(self, candidates: Candidates) -> Tensor:
        """Return each beam's own candidate, or its placeholder once the beam has ended."""
        beam_size = self.settings.beam_size
        beam_K = torch.arange(beam_size, device=candidates.token_BC.device)
        return torch.where(candidates.token_BC[:, :beam_size] == EOS, beam_K + beam_size, beam_K)

    def _uniform_samples(self, state: BeamSearchState, step: int) -> Tensor:
        """Return a uniform random number per row that depends on the seed, the sentence, the sample and the step."""
        seed, beam_size = self.settings.seed, self.settings.beam_size
        uniform_BK = np.stack(
            [np.random.default_rng([seed, s.sentence_number, step]).random(beam_size) for s in state.sentences]
        )
        return torch.from_numpy(uniform_BK).to(state.score_BK).flatten()

    def _sample_tokens(self, uniform_N: Tensor) -> Tensor:
        """Return one token per row by inverse transform sampling from the truncated distribution."""
        settings = self.settings
        logprob_NC, token_NC = self.token_scorer.masked_topk(settings.top_k or len(self.token_scorer.allowed_tokens))
        prob_NC = (logprob_NC / (settings.temperature or 1.0)).softmax(dim=1)
        preceding_NC = prob_NC.cumsum(dim=1) - prob_NC
        prob_NC = prob_NC.masked_fill(preceding_NC >= settings.top_p, 0.0)  # the best token always stays
        cumulative_NC = prob_NC.cumsum(dim=1)
        index_N1 = torch.searchsorted(cumulative_NC, uniform_N[:, None] * cumulative_NC[:, -1:], right=True)
        index_N1 = index_N1.clamp_max(logprob_NC.shape[1] - 1)
        return token_NC.gather(1, index_N1)[:, 0]
