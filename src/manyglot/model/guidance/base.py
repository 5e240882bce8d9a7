"""The seam between a Transformer and the methods that tell it the target language.

A method is a module with a few hooks, each doing nothing unless the method says so. The Transformer calls them at fixed
sites and knows no method by name. Hooks are given the target language of each sentence, never a batch's single one.

Shape letters: B sentences, T tokens, D model width, L languages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from torch import Tensor, nn

from manyglot.settings import Settings
from manyglot.vocabulary.vocabulary import Tags


class Site(StrEnum):
    """The sub-layers where a method can act, and the encoder's output as the decoder sees it."""

    ENC_SELF = "enc.self"
    ENC_FFN = "enc.ffn"
    MEMORY = "memory"
    DEC_SELF = "dec.self"
    DEC_CROSS = "dec.cross"
    DEC_FFN = "dec.ffn"


@dataclass(frozen=True)
class Target:
    """The target language of each sentence of a batch."""

    lang_B: Tensor
    """Language ids."""
    tag_BD: Tensor
    """Each language's tag in the shared embedding table, unscaled."""

    def select(self, rows_B: Tensor) -> Target:
        """The targets of some sentences, in the given order and number."""
        return Target(self.lang_B[rows_B], self.tag_BD[rows_B])


@dataclass(frozen=True)
class Dimensions:
    """What a method may need to know about the model to make its parameters."""

    width: int
    num_heads: int
    num_encoder_layers: int
    num_decoder_layers: int
    num_languages: int
    first_tag: int
    """Vocabulary id of the tag of language 0; the tags of the others follow."""


class MethodSettings(Settings):
    """Base of the settings of a guidance method."""

    method: str
    """The name of the method."""


class Guidance(nn.Module):
    """What the Transformer calls; every hook is a no-op. Where each is called:

    | hook | enc.self, dec.self, dec.cross | enc.ffn, dec.ffn | memory |
    |---|---|---|---|
    | enter | before the residual is taken | before the residual is taken | on the encoder's output |
    | project, merge | inside the attention | | |
    | leave | after the residual (and the norm, in a post-norm model) | the same | |
    """

    def tag(self, language: int) -> Tags:
        """The symbols to put into the sequences for a target language."""
        return Tags()

    def enter(self, site: Site, x_BTD: Tensor, target: Target) -> Tensor:
        """Change what enters a sub-layer, before the residual is taken; at `MEMORY`, what leaves the encoder."""
        return x_BTD

    def project(self, site: Site, x_BTD: Tensor, target: Target) -> Tensor | None:
        """A term to add to every projection of x inside attention: query, key and value.

        It is asked for once for each distinct input: once in self-attention, for the query side and for the memory in
        cross-attention.
        """
        return None

    def merge(self, site: Site, z_BTD: Tensor, target: Target) -> Tensor | None:
        """A term to add to the output projection of attention, from the heads' outputs side by side."""
        return None

    def leave(self, site: Site, x_BTD: Tensor, target: Target) -> Tensor:
        """Change what leaves a sub-layer, after the residual and, in a post-norm model, the norm."""
        return x_BTD

    def representations(self, tag_LD: Tensor) -> dict[str, Tensor]:
        """What the method has learnt of each language, by name, languages first; the tags' embeddings are given."""
        return {}


class Method(Guidance):
    """Base of the methods: guidance that is made from settings. All its parameters at zero must mean no guidance."""

    settings_type: ClassVar[type[MethodSettings]]

    def __init__(self, settings: MethodSettings, dimensions: Dimensions) -> None:
        super().__init__()


class Combined(Guidance):
    """Several methods at once: changes are applied in the order of the list, terms are summed."""

    def __init__(self, methods: Iterable[Guidance]) -> None:
        super().__init__()
        self.methods = nn.ModuleList(methods)

    def _each(self) -> Iterable[Guidance]:
        for method in self.methods:
            assert isinstance(method, Guidance)
            yield method

    def tag(self, language: int) -> Tags:
        """All tags, in the order of the methods."""
        return sum((method.tag(language) for method in self._each()), start=Tags())

    def enter(self, site: Site, x_BTD: Tensor, target: Target) -> Tensor:
        """Apply one after the other."""
        for method in self._each():
            x_BTD = method.enter(site, x_BTD, target)
        return x_BTD

    def project(self, site: Site, x_BTD: Tensor, target: Target) -> Tensor | None:
        """Sum the terms."""
        return _sum(method.project(site, x_BTD, target) for method in self._each())

    def merge(self, site: Site, z_BTD: Tensor, target: Target) -> Tensor | None:
        """Sum the terms."""
        return _sum(method.merge(site, z_BTD, target) for method in self._each())

    def leave(self, site: Site, x_BTD: Tensor, target: Target) -> Tensor:
        """Apply one after the other."""
        for method in self._each():
            x_BTD = method.leave(site, x_BTD, target)
        return x_BTD

    def representations(self, tag_LD: Tensor) -> dict[str, Tensor]:
        """All of them."""
        return {name: value for method in self._each() for name, value in method.representations(tag_LD).items()}


def _sum(terms: Iterable[Tensor | None]) -> Tensor | None:
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total
