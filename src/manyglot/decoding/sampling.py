"""Sampling: words drawn at random by their probabilities, instead of searching for the best output.

Every beam goes its own way. What is drawn depends on the seed, the place of the sentence in the text, the number of the
sample and the step, not on the batch. Scores are log-probabilities over the length, as in beam search.

Shape letters: B sentences, K samples, N = B·K rows, V vocabulary, C candidates.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from manyglot.decoding.beam import BeamSearch, Candidates, Hypothesis, State
from manyglot.vocabulary.subwords import EOS, PAD


class Sampler(BeamSearch):
    """Draws as many outputs as the beam is wide; they come in the order of their numbers, not of their scores."""

    def _first_scores(self, score_B: Tensor) -> Tensor:
        """All beams may go on."""
        return score_B[:, None].repeat(1, self.settings.beam)

    def _expand(self, state: State) -> Candidates:
        """One word for each beam, and nothing in place of those that end."""
        num_sentences, beam = state.score_BK.shape
        step = state.ids_BKT.shape[2]
        word_BK = self._draw(self._chances(state, step)).view(num_sentences, beam)
        for i, sentence in enumerate(state.sentences):
            if (word := sentence.forced(step)) >= 0:
                word_BK[i] = word
        score_BK = state.score_BK + self.next_words.of(word_BK.flatten()).view(num_sentences, beam)
        parent_BK = torch.arange(beam, device=word_BK.device).expand(num_sentences, beam)
        return Candidates(
            score_BC=torch.cat([score_BK, torch.full_like(score_BK, -torch.inf)], dim=1),
            parent_BC=parent_BK.repeat(1, 2),
            word_BC=torch.cat([word_BK, torch.full_like(word_BK, PAD)], dim=1),
        )

    @staticmethod
    def _order(finished: tuple[int, Hypothesis]) -> float:
        """By the number of the sample: the first to end would mostly be short."""
        return finished[0]

    def _live(self, candidates: Candidates) -> Tensor:
        """Each beam stays where it is; one that has ended is followed by nothing."""
        beam = self.settings.beam
        place_K = torch.arange(beam, device=candidates.word_BC.device)
        return torch.where(candidates.word_BC[:, :beam] == EOS, place_K + beam, place_K)

    def _chances(self, state: State, step: int) -> Tensor:
        """A number between 0 and 1 for each row, by the seed, the place, the number of the sample and the step."""
        seed, beam = self.settings.seed, self.settings.beam
        numbers = [np.random.default_rng([seed, sentence.place, step]).random(beam) for sentence in state.sentences]
        return torch.from_numpy(np.stack(numbers)).to(state.score_BK).flatten()

    def _draw(self, chance_N: Tensor) -> Tensor:
        """The words whose share of the probability, one after the other, holds the chance."""
        settings = self.settings
        logprob_NC, word_NC = self.next_words.best(settings.top_k or len(self.next_words.words))
        share_NC = (logprob_NC / (settings.temperature or 1.0)).softmax(dim=1)
        before_NC = share_NC.cumsum(dim=1) - share_NC
        share_NC = share_NC.masked_fill(before_NC >= settings.top_p, 0.0)  # the best word stays in any case
        upto_NC = share_NC.cumsum(dim=1)
        place_N = torch.searchsorted(upto_NC, chance_N[:, None] * upto_NC[:, -1:], right=True)
        place_N = place_N.clamp_max(logprob_NC.shape[1] - 1)
        return word_NC.gather(1, place_N)[:, 0]
