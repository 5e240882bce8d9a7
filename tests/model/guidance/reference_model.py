"""The guided Transformer written out from the equations: one sentence, one head, one language at a time.

It uses the weights of a model but none of its code: no hooks, no batches, no grouped products. It implements every
method a second time, as a reference for the fast implementation.

Shape letters: T positions, S positions attended to, D model width, K width of a head.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from manyglot.model.attention import MultiHeadAttention
from manyglot.model.guidance.base import Site
from manyglot.model.layers import FeedForward, SubLayer
from manyglot.model.transformer import Transformer


def language_matrix(method: Any, language: int) -> Tensor:
    """Return W of one language, or U V^T if it has a low rank."""
    if method.rank is None:
        matrix_DD: Tensor = method.matrix_LDD[language]
        return matrix_DD
    left_DR, right_DR = method.left_LDR[language], method.right_LDR[language]
    columns = zip(left_DR.unbind(1), right_DR.unbind(1), strict=True)
    return torch.stack([torch.outer(u_D, v_D) for u_D, v_D in columns]).sum(dim=0)


class ReferenceModel:
    """A model that translates into one language; LAA^R uses the random language."""

    def __init__(self, model: Transformer, language: int, random_language: int) -> None:
        self.model, self.language = model, language
        methods: dict[str, Any] = dict(model.guidance.named_methods())
        self.lee, self.adapter = methods.get("lee"), methods.get("adapter")
        self.laln, self.lalt = methods.get("laln"), methods.get("lalt")
        self.laa_sites: tuple[Site, ...] = ()
        for name, which in (("laa", language), ("random_laa", random_language)):
            if name in methods:
                self.laa_sites, self.laa_DD = methods[name].sites, language_matrix(methods[name], which)
        self.tag_D = model.embedding.weight[model.dimensions.first_tag_id + language]

    def logits(self, source_S: Tensor, input_T: Tensor) -> Tensor:
        """Scores of the next symbol at every position."""
        model = self.model
        x_SD = self.embed(source_S, model.encoder_norm)
        for i, layer in enumerate(model.encoder):
            x_SD = self.sublayer(layer.attention_sublayer, i, x_SD, self.attention(layer.attention, None))
            x_SD = self.sublayer(layer.ffn_sublayer, i, x_SD, self.feed_forward(layer.ffn))
        memory_SD = model.encoder_final_norm(x_SD)
        if self.lalt is not None:  # H W
            matrix_DD = language_matrix(self.lalt, self.language)
            memory_SD = memory_SD @ matrix_DD + (memory_SD if self.lalt.residual else 0)
        if self.lee is not None and Site.MEMORY in self.lee.sites:
            memory_SD = memory_SD + self.tag_D
        x_TD = self.embed(input_T, model.decoder_norm)
        for i, layer in enumerate(model.decoder):
            x_TD = self.sublayer(layer.self_sublayer, i, x_TD, self.attention(layer.self_attention, None))
            x_TD = self.sublayer(layer.cross_sublayer, i, x_TD, self.attention(layer.cross_attention, memory_SD))
            x_TD = self.sublayer(layer.ffn_sublayer, i, x_TD, self.feed_forward(layer.ffn))
        return model.decoder_final_norm(x_TD) @ model.embedding.weight.T

    def embed(self, ids_T: Tensor, norm: torch.nn.Module) -> Tensor:
        """Dropout(LN(sqrt(D) E[token] + position))."""
        width, half = self.model.settings.width, self.model.settings.width // 2
        rows = []
        for position, token in enumerate(ids_T.tolist()):
            angles = [position / 10_000 ** (i / (half - 1)) for i in range(half)]
            wave = torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=torch.float64)
            rows.append(math.sqrt(width) * self.model.embedding.weight[token] + wave)
        return self.model.dropout(norm(torch.stack(rows)))

    def sublayer(self, part: SubLayer, layer: int, x_TD: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """LN(x + Dropout(f(x))) or x + Dropout(f(LN(x))), with LEE before, LALN in the norm, adapters in f or after."""
        site = part.point.site
        if self.lee is not None and site in self.lee.sites:
            x_TD = x_TD + self.tag_D

        def norm(y_TD: Tensor) -> Tensor:
            gain_D, bias_D = part.norm.weight, part.norm.bias
            if self.laln is not None and (site, layer) in self.laln.row_by_point:
                row = self.laln.row_by_point[site, layer]
                gain_D = gain_D + self.laln.gain_PLD[row, self.language]
                bias_D = bias_D + self.laln.bias_PLD[row, self.language]
            return F.layer_norm(y_TD, y_TD.shape[-1:], gain_D, bias_D)

        def adapt(y_TD: Tensor, before_residual: bool) -> Tensor:
            adapter = self.adapter
            if adapter is None or site not in adapter.sites or adapter.is_before_residual != before_residual:
                return y_TD
            return y_TD @ language_matrix(adapter, self.language) + (y_TD if adapter.residual else 0)

        if self.model.settings.norm == "post":
            x_TD = norm(x_TD + part.dropout(adapt(function(x_TD), True)))
        else:
            x_TD = x_TD + part.dropout(adapt(function(norm(x_TD)), True))
        return adapt(x_TD, False)

    def feed_forward(self, part: FeedForward) -> Callable[[Tensor], Tensor]:
        """max(0, x W1 + b1) W2 + b2."""

        def feed(x_TD: Tensor) -> Tensor:
            inner = (x_TD @ part.inner.weight.T + part.inner.bias).clamp(min=0)
            return inner @ part.outer.weight.T + part.outer.bias

        return feed

    def attention(self, part: MultiHeadAttention, memory_SD: Tensor | None) -> Callable[[Tensor], Tensor]:
        """Eqs. 3-5: each head has its columns of W^Q, W^K, W^V and W^lang, and its rows of W^O and W^lang^T."""
        width = self.model.settings.width // part.num_heads
        guided = part.point.site in self.laa_sites

        def attend(x_TD: Tensor) -> Tensor:
            seen_SD = x_TD if memory_SD is None else memory_SD
            total_TD = part.output.bias
            for i in range(part.num_heads):
                head = slice(i * width, (i + 1) * width)
                lang_DK = self.laa_DD[:, head] if guided else torch.zeros_like(part.query.weight.T[:, head])
                q_TK = x_TD @ (part.query.weight.T[:, head] + lang_DK) + part.query.bias[head]
                k_SK = seen_SD @ (part.key.weight.T[:, head] + lang_DK) + part.key.bias[head]
                v_SK = seen_SD @ (part.value.weight.T[:, head] + lang_DK) + part.value.bias[head]
                score_TS = q_TK @ k_SK.T / math.sqrt(width)
                if part.point.site == Site.DEC_SELF:
                    score_TS = score_TS.masked_fill(torch.ones_like(score_TS).triu(1).bool(), -torch.inf)
                z_TK = score_TS.softmax(dim=1) @ v_SK
                total_TD = total_TD + z_TK @ (part.output.weight.T[head] + lang_DK.T)
            return total_TD

        return attend
