"""A custom guidance method: one file, and one line that registers it.

This is language-aware attention (LAA) with low-rank matrices. The matrix of a language is the product of a D x r matrix
U and an r x D matrix V, so a language needs 2 D r parameters instead of D². (manyglot's own `laa` has a setting `rank`
that does more: it acts in the output projection too, and starts at zero.) The two classes are the whole method. The
line with `METHODS` makes it available to training, model folders, translation, folding and `language_representations`.
To use it on the command line too, put the classes into a file of src/manyglot/model/guidance/ and add `LowRank` to
METHODS there.

    python examples/custom_guidance.py [key=value ...]
"""

import sys
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

import manyglot
from manyglot.model import guidance
from manyglot.model.folding import fold_guidance
from manyglot.model.guidance.base import (
    GuidanceMethod,
    HookPoint,
    ModelDimensions,
    Site,
    SitedSettings,
    TargetLanguages,
)
from manyglot.model.guidance.language_matmul import language_matmul
from manyglot.model.model_folder import load_model


class LowRankSettings(SitedSettings):
    """Language-aware attention with low-rank matrices."""

    possible_sites: ClassVar = (Site.ENC_SELF, Site.DEC_SELF)
    method: Literal["low_rank"] = "low_rank"
    """The name of the method."""
    sites: tuple[Site, ...] = (Site.DEC_SELF,)
    """The attention sites."""
    rank: int = 8
    """Number of columns of U and rows of V."""


class LowRank(GuidanceMethod):
    """Adds x U V to query, key and value."""

    settings_type: ClassVar = LowRankSettings

    def __init__(self, settings: LowRankSettings, dimensions: ModelDimensions) -> None:
        super().__init__(settings, dimensions)
        self.sites = settings.sites
        num_languages, width, rank = dimensions.num_languages, dimensions.width, settings.rank
        self.down_LDR = nn.Parameter(torch.randn(num_languages, width, rank) / width**0.5)
        self.up_LRD = nn.Parameter(torch.randn(num_languages, rank, width) / rank**0.5)

    def qkv_term(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Return the term x U V with the matrices of each sentence's target language."""
        if point.site not in self.sites:
            return None
        return language_matmul(
            language_matmul(x_BTD, self.down_LDR, target_languages.groups),
            self.up_LRD,
            target_languages.groups,
        )

    def language_representations(self, tag_embedding_LD: Tensor) -> dict[str, Tensor]:
        """Return the matrices U V."""
        return {"low_rank": self.down_LDR @ self.up_LRD}


guidance.METHODS += (LowRank,)


if __name__ == "__main__":
    overrides = ["guidance=[{method: low_rank, rank: 16}]", "run=runs/low_rank", *sys.argv[1:]]
    experiment = manyglot.read_experiment(Path(__file__).with_name("synthetic.yaml"), overrides)
    manyglot.prepare(experiment)
    model_folder = manyglot.train(experiment).model_folder
    for group, scores in manyglot.evaluate(model_folder, experiment.data, zero_shot=True).averages().items():
        print(f"{group}: BLEU {scores['bleu']:.1f}, {scores['language_accuracy']:.0f}% in the right language")
    trained = load_model(model_folder)
    language = trained.vocabulary.languages.codes[-1]
    plain = fold_guidance(trained.model, trained.vocabulary.languages.id(language))
    print(f"folded for {language}: {sum(plain.num_parameters_by_part().values()):,} parameters, no guidance left")
