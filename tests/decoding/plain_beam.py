"""Beam search as it is defined: one sentence, no cache, every continuation of every beam in a list."""

from __future__ import annotations

import torch

from manyglot.decoding.beam import DecodingSettings, Hypothesis
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subwords import EOS, PAD, UNK


@torch.inference_mode()
def plain_beam(
    model: Transformer,
    source_S: torch.Tensor,
    language: int,
    settings: DecodingSettings,
    drawn: int = 0,
    prefix: tuple[int, ...] = (),
) -> list[Hypothesis]:
    """The finished hypotheses, best first."""
    tag, limit = model.tags()[language], settings.limit(len(source_S))
    lang_B, drawn_B = torch.tensor([language]), torch.tensor([drawn])
    scored_tags = len(tag.target) if tag.predicted else 0
    forbidden = {PAD, UNK, *range(model.dimensions.first_tag, len(model.embedding.weight))}

    def next_words(ids: tuple[int, ...]) -> list[float]:
        input_BT = torch.tensor([[EOS, *tag.target, *ids]])
        hidden = model(source_S[None], input_BT, lang_B, random_lang_B=drawn_B)
        return model.log_probabilities(hidden.decoder)[0, -1].tolist()

    start = 0.0
    if scored_tags:
        logprob_TV = model.log_probabilities(
            model(source_S[None], torch.tensor([[EOS, *tag.target]]), lang_B, random_lang_B=drawn_B).decoder
        )[0]
        start = sum(float(logprob_TV[i, word]) for i, word in enumerate(tag.target))
    live, finished = [((), start)], []
    for length in range(limit + 1):
        candidates = []
        for ids, score in live:
            for word, logprob in enumerate(next_words(ids)):
                if length < min(len(prefix), limit):
                    allowed = word == prefix[length]
                else:
                    allowed = word == EOS if length == limit else word not in forbidden
                if allowed:
                    candidates.append((score + logprob, ids, word))
        candidates.sort(key=lambda candidate: -candidate[0])
        candidates = candidates[: 2 * settings.beam]
        for score, ids, word in candidates[: settings.beam]:
            if word == EOS:
                total = len(ids) + 1 + scored_tags
                finished.append(Hypothesis(ids, score / total**settings.length_penalty))
        if len(finished) >= settings.beam:
            break
        live = [((*ids, word), score) for score, ids, word in candidates if word != EOS][: settings.beam]
    return sorted(finished, key=lambda hypothesis: -hypothesis.score)[: settings.beam]
