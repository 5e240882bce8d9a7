"""Language embedding embodiment (LEE): adds the embedding of the target language at switching points, Eqs. 1-2.

At each site and in every layer, x becomes x + E before the residual branches off: unscaled, without dropout or
projection. E is the embedding of the language's tag in the shared table, so LEE adds no parameters. No sequence
contains the tag itself. At `memory`, E is added once, to the encoder's output as the decoder reads it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from torch import Tensor

from manyglot.model.guidance.base import (
    GuidanceMethod,
    HookPoint,
    ModelDimensions,
    Site,
    SitedSettings,
    TargetLanguages,
)

SITE_BY_PAPER_NUMBER = {
    1: Site.ENC_FFN,
    2: Site.ENC_SELF,
    3: Site.DEC_FFN,
    4: Site.DEC_CROSS,
    5: Site.DEC_SELF,
    6: Site.MEMORY,
}
"""The paper's numbers of the six switching points. Its equations and code determine 4 and 5; 1, 2, 3 and 6 assume that
the numbers run from top to bottom in each stack."""


class LEESettings(SitedSettings):
    """Language embedding embodiment (LEE): adds the embedding of the target language to the states at its sites."""

    possible_sites: ClassVar = tuple(Site)
    method: Literal["lee"] = "lee"
    """The name of the method."""
    sites: tuple[Site, ...] = (Site.DEC_CROSS, Site.DEC_SELF)
    """The sites, which the paper calls switching points: enc.ffn, enc.self, dec.ffn, dec.cross, dec.self, memory, or
    their numbers in the paper, 1 to 6 in this order."""

    @classmethod
    def parse_site(cls, name: Any) -> Any:
        """Accept the paper's numbers as well as the names."""
        number = int(name) if isinstance(name, str) and name.isdecimal() else name
        return SITE_BY_PAPER_NUMBER.get(number, name) if type(number) is int else name  # a bool is an int too

    @classmethod
    def format_possible_sites(cls) -> str:
        """List the sites in the order of the paper's numbers."""
        return f"{', '.join(SITE_BY_PAPER_NUMBER.values())}, or their numbers in the paper, 1 to 6"


class LEE(GuidanceMethod):
    """x + E at the sites."""

    settings_type: ClassVar = LEESettings

    def __init__(self, settings: LEESettings, dimensions: ModelDimensions) -> None:
        super().__init__(settings, dimensions)
        self.sites = settings.sites

    def pre_sublayer(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        """Return x + E, Eqs. 1-2."""
        return x_BTD + target_languages.tag_embedding_BD[:, None].to(x_BTD.dtype) if point.site in self.sites else x_BTD

    def language_representations(self, tag_embedding_LD: Tensor) -> dict[str, Tensor]:
        """Return the embeddings of the tags."""
        return {"lee": tag_embedding_LD}
