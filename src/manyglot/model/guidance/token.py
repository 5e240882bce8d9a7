"""Language tokens: a tag of the target language before the source or the target sentence.

On the source side the encoder reads `<tag> x1 … xn </s>`. On the target side the decoder reads `</s> <tag> y1 …`: the
tag follows the symbol that starts every target, and decoding forces it.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import model_validator
from torch import Tensor

from manyglot.model.guidance.base import GuidanceMethod, MethodSettings, ModelDimensions
from manyglot.vocabulary.vocabulary import LanguageTags


class LanguageTokenSettings(MethodSettings):
    """Language tokens: a tag of the target language in the sequence (Token_src, Token_tgt)."""

    method: Literal["token"] = "token"
    """The name of the method."""
    side: Literal["source", "target"] = "source"
    """The sentence that begins with the tag."""
    mode: Literal["faithful", "clean"] = "faithful"
    """For tags on the target side. faithful, as in the paper: the model predicts the tag, which counts in the loss and
    in the length of a translation. clean: the model does not predict the tag, which counts in neither."""

    @model_validator(mode="after")
    def _clean_needs_target(self) -> LanguageTokenSettings:
        if self.mode == "clean" and self.side == "source":
            raise ValueError("mode: clean needs side: target; a source tag is never predicted.")
        return self


class LanguageToken(GuidanceMethod):
    """Adds the tag to the sequence; the model itself stays a plain Transformer."""

    settings_type: ClassVar = LanguageTokenSettings

    def __init__(self, settings: LanguageTokenSettings, dimensions: ModelDimensions) -> None:
        super().__init__(settings, dimensions)
        self.settings = settings
        self.first_tag_id = dimensions.first_tag_id

    @property
    def affects_encoder(self) -> bool:
        """Whether the encoder reads the tag."""
        return self.settings.side == "source"

    def tags_for_language(self, language: int) -> LanguageTags:
        """Return the tag on its side."""
        tag = (self.first_tag_id + language,)
        if self.settings.side == "source":
            return LanguageTags(source=tag)
        return LanguageTags(target=tag, target_predicted=self.settings.mode == "faithful")

    def language_representations(self, tag_embedding_LD: Tensor) -> dict[str, Tensor]:
        """Return the embeddings of the tags."""
        return {"token": tag_embedding_LD}
