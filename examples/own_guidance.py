"""A guidance method of your own: one file, and one line that makes it known.

LAA with matrices of low rank: the matrix of a language is U V, D x r times r x D, so that a language costs 2 D r
parameters instead of D². The two classes are the whole method; the line with `METHODS` makes it known to training,
model folders, translation, folding and `representations`. To have it on the command line too, put the classes into a
file of src/manyglot/model/guidance/ and the name into METHODS there.

    python examples/own_guidance.py [key=value ...]
"""

import sys
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

import manyglot
from manyglot.model import guidance
from manyglot.model.folder import load_model
from manyglot.model.folding import fold
from manyglot.model.guidance.base import Dimensions, Method, Point, Site, SitedSettings, Target
from manyglot.model.guidance.products import times


class LowRankSettings(SitedSettings):
    """LAA with matrices of low rank."""

    possible_sites: ClassVar = (Site.ENC_SELF, Site.DEC_SELF)
    method: Literal["low_rank"] = "low_rank"
    """The name of the method."""
    sites: tuple[Site, ...] = (Site.DEC_SELF,)
    """The attentions."""
    rank: int = 8
    """Columns of U and rows of V."""


class LowRank(Method):
    """x U V added to query, key and value."""

    settings_type: ClassVar = LowRankSettings

    def __init__(self, settings: LowRankSettings, dimensions: Dimensions) -> None:
        super().__init__(settings, dimensions)
        self.sites = settings.sites
        num_languages, width, rank = dimensions.num_languages, dimensions.width, settings.rank
        self.down_LDR = nn.Parameter(torch.randn(num_languages, width, rank) / width**0.5)
        self.up_LRD = nn.Parameter(torch.randn(num_languages, rank, width) / rank**0.5)

    def project(self, point: Point, x_BTD: Tensor, target: Target) -> Tensor | None:
        """The term x U V, by the target language of each sentence."""
        if point.site not in self.sites:
            return None
        return times(times(x_BTD, self.down_LDR, target.language), self.up_LRD, target.language)

    def representations(self, tag_LD: Tensor) -> dict[str, Tensor]:
        """The matrices."""
        return {"low_rank": self.down_LDR @ self.up_LRD}


guidance.METHODS += (LowRank,)


if __name__ == "__main__":
    overrides = ["guidance=[{method: low_rank, rank: 16}]", "run=runs/low_rank", *sys.argv[1:]]
    experiment = manyglot.read_experiment(Path(__file__).with_name("synthetic.yaml"), overrides)
    manyglot.prepare(experiment)
    model_folder = manyglot.train(experiment)
    for group, scores in manyglot.evaluate(model_folder, experiment.data, zero_shot=True).averages().items():
        print(f"{group}: BLEU {scores['bleu']:.1f}, {scores['language_accuracy']:.0f}% in the right language")
    trained = load_model(model_folder)
    language = trained.vocabulary.languages.codes[-1]
    plain = fold(trained.model, trained.vocabulary.languages.id(language))
    print(f"folded for {language}: {sum(plain.num_parameters().values()):,} parameters, no guidance left")
