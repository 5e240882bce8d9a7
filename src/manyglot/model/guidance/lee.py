"""Language embedding embodiment (LEE): the embedding of the target language added at switching points, Eqs. 1-2.

At each site x becomes x + E before the residual is taken, in every layer: unscaled, without dropout or projection. E is
the row of the language's tag in the shared embedding table, so there are no new parameters; the tag itself is in no
sequence. At `memory` E is added once, to the encoder's output as the decoder sees it.
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
"""The paper's names of the six switching points. Its equations and code fix 4 and 5; 1, 2, 3 and 6 are the reading in
which numbers go from top to bottom in each stack."""


class LEESettings(SitedSettings):
    """The embedding of the target language added to the states at switching points (LEE)."""

    possible_sites: ClassVar = tuple(Site)
    method: Literal["lee"] = "lee"
    """The name of the method."""
    sites: tuple[Site, ...] = (Site.DEC_CROSS, Site.DEC_SELF)
    """The switching points: enc.ffn, enc.self, dec.ffn, dec.cross, dec.self, memory, or the paper's numbers for these,
    1 to 6."""

    @classmethod
    def parse_site(cls, name: Any) -> Any:
        """The paper's numbers are names too."""
        number = int(name) if isinstance(name, str) and name.isdecimal() else name
        return SITE_BY_PAPER_NUMBER.get(number, name) if type(number) is int else name  # true is no number

    @classmethod
    def format_possible_sites(cls) -> str:
        """The sites in the order of their numbers."""
        return f"{', '.join(SITE_BY_PAPER_NUMBER.values())}, or the paper's numbers for these, 1 to 6"


class LEE(GuidanceMethod):
    """x + E at the sites."""

    settings_type: ClassVar = LEESettings

    def __init__(self, settings: LEESettings, dimensions: ModelDimensions) -> None:
        super().__init__(settings, dimensions)
        self.sites = settings.sites

    def pre_sublayer(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        """y + E of Eqs. 1-2."""
        return x_BTD + target_languages.tag_embedding_BD[:, None].to(x_BTD.dtype) if point.site in self.sites else x_BTD

    def language_representations(self, tag_embedding_LD: Tensor) -> dict[str, Tensor]:
        """The embeddings of the tags."""
        return {"lee": tag_embedding_LD}
