"""Reference greedy search: one sentence at a time, no cache."""

from __future__ import annotations

import torch
from torch import Tensor

from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.settings import DecodingSettings
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import EOS, PAD, UNK


@torch.inference_mode()
def plain_greedy(
    model: Transformer, source_S: Tensor, language: int, settings: DecodingSettings, random_language: int = 0
) -> Hypothesis:
    """Take the most probable token at each step until the end symbol."""
    tag = model.tags_by_language()[language]
    lang_B, random_lang_B = (torch.tensor([each], device=source_S.device) for each in (language, random_language))
    forbidden = [PAD, UNK, *range(model.dimensions.first_tag_id, len(model.embedding.weight))]
    prefix = [tag.start, *tag.target]
    ids, score = list(prefix), 0.0
    max_length = len(prefix) + settings.max_output_length(len(source_S))
    while True:
        input_BT = torch.tensor([ids], device=source_S.device)
        logprob_TV = model.log_probabilities(
            model(source_S[None], input_BT, lang_B, random_lang_B=random_lang_B).decoded
        )[0]
        logprob_V = logprob_TV[-1]
        logprob_V[forbidden] = -torch.inf
        token = EOS if len(ids) == max_length else int(logprob_V.argmax())
        score += 0.0 if len(ids) == max_length else float(logprob_V[token])
        if token == EOS:
            words = tuple(ids[len(prefix) :])
            length = len(words) + 1 + tag.num_predicted
            return Hypothesis(words, score / length**settings.length_penalty)
        ids.append(token)
