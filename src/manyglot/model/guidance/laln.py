"""Language-aware layer normalization (LALN): the target language selects the gain and bias of the layer norms.

LN(x) = (g + g_l) (x - mean) / deviation + (b + b_l) in the layer norm of each sub-layer (Zhang et al. 2020). The terms
of a language are added to the shared gain and bias and start at zero. The norms of the embeddings and the final norms
of pre-norm stacks stay shared: the 94M parameters in the paper match language-aware norms in its 30 sub-layers only.

Shape letters: D model width, L languages, P points.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from manyglot.model.guidance.base import GuidanceMethod, HookPoint, ModelDimensions, NormTerms, Site, SitedSettings


class LALNSettings(SitedSettings):
    """Language-aware layer normalization (LALN): gain and bias of the layer norms depend on the target language."""

    possible_sites: ClassVar = (Site.ENC_SELF, Site.ENC_FFN, Site.DEC_SELF, Site.DEC_CROSS, Site.DEC_FFN)
    method: Literal["laln"] = "laln"
    """The name of the method."""
    sites: tuple[Site, ...] = possible_sites
    """The sub-layers whose norms depend on the target language. Zhang et al. 2020 use all of them."""


class LALN(GuidanceMethod):
    """A gain and a bias per language and norm, added to the shared ones."""

    settings_type: ClassVar = LALNSettings

    def __init__(self, settings: LALNSettings, dimensions: ModelDimensions) -> None:
        super().__init__(settings, dimensions)
        depth = {"enc": dimensions.num_encoder_layers, "dec": dimensions.num_decoder_layers}
        points = [HookPoint(site, layer) for site in settings.sites for layer in range(depth[site.partition(".")[0]])]
        self.row_by_point = {point: row for row, point in enumerate(points)}
        self.gain_PLD = nn.Parameter(torch.zeros(len(points), dimensions.num_languages, dimensions.width))
        self.bias_PLD = nn.Parameter(torch.zeros_like(self.gain_PLD))

    def norm_terms(self, point: HookPoint) -> NormTerms | None:
        """Return the terms of all languages for this norm."""
        if point not in self.row_by_point:
            return None
        row = self.row_by_point[point]
        return NormTerms(self.gain_PLD[row], self.bias_PLD[row])

    def language_representations(self, tag_embedding_LD: Tensor) -> dict[str, Tensor]:
        """Return the gains and biases of each language, concatenated over all norms."""
        return {"laln": torch.cat([self.gain_PLD, self.bias_PLD]).transpose(0, 1).flatten(1)}
