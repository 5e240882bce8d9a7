"""Reference beam search by definition: one sentence, no cache, a list of every continuation of every beam."""

from __future__ import annotations

import torch

from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.settings import DecodingSettings
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import EOS, PAD, UNK


@torch.inference_mode()
def plain_beam(
    model: Transformer,
    source_S: torch.Tensor,
    language: int,
    settings: DecodingSettings,
    random_language: int = 0,
    prefix: tuple[int, ...] = (),
) -> list[Hypothesis]:
    """Return the finished hypotheses, best first."""
    tag, max_length = model.tags_by_language()[language], settings.max_output_length(len(source_S))
    lang_B, random_lang_B = torch.tensor([language]), torch.tensor([random_language])
    forbidden = {PAD, UNK, *range(model.dimensions.first_tag_id, len(model.embedding.weight))}

    def next_token_log_probs(ids: tuple[int, ...]) -> list[float]:
        input_BT = torch.tensor([[tag.start, *tag.target, *ids]])
        hidden = model(source_S[None], input_BT, lang_B, random_lang_B=random_lang_B)
        return model.log_probabilities(hidden.decoded)[0, -1].tolist()

    live, finished = [((), 0.0)], []
    for length in range(max_length + 1):
        candidates = []
        for ids, score in live:
            for token, logprob in enumerate(next_token_log_probs(ids)):
                if length < min(len(prefix), max_length):
                    allowed = token == prefix[length]
                else:
                    allowed = token == EOS if length == max_length else token not in forbidden
                if allowed:
                    candidates.append((score + (0.0 if length == max_length else logprob), ids, token))
        candidates.sort(key=lambda candidate: -candidate[0])
        candidates = candidates[: 2 * settings.beam_size]
        for score, ids, token in candidates[: settings.beam_size]:
            if token == EOS:
                total = len(ids) + 1 + tag.num_predicted
                finished.append(Hypothesis(ids, score / total**settings.length_penalty))
        if len(finished) >= settings.beam_size:
            break
        live = [((*ids, token), score) for score, ids, token in candidates if token != EOS][: settings.beam_size]
    return sorted(finished, key=lambda hypothesis: -hypothesis.score)[: settings.beam_size]
