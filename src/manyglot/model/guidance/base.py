"""The seam between a Transformer and the methods that tell it the target language.

A method is a module with a few hooks, each doing nothing unless the method says so. The Transformer calls them at fixed
points and knows no method by name. Hooks are given the target language of each sentence, never a batch's single one.

Shape letters: B sentences, T tokens, D model width, L languages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import field_validator
from torch import Tensor, nn

from manyglot.config.settings import Settings
from manyglot.model.guidance.products import ByLanguage, Choice, product_dtype
from manyglot.vocabulary.vocabulary import Tags


class Site(StrEnum):
    """The sub-layers where a method can act, and the encoder's output as the decoder sees it."""

    ENC_SELF = "enc.self"
    ENC_FFN = "enc.ffn"
    MEMORY = "memory"
    DEC_SELF = "dec.self"
    DEC_CROSS = "dec.cross"
    DEC_FFN = "dec.ffn"


ENCODER = {Site.ENC_SELF, Site.ENC_FFN}
"""Those in the encoder; `memory` is behind it."""


class Point(NamedTuple):
    """One place in the model where hooks are called: a site in one of the layers of its stack, counted from 0.

    `MEMORY` is there once and belongs to no layer; its layer is 0.
    """

    site: Site
    layer: int


@dataclass(frozen=True)
class Target:
    """The target language of each row of a batch: of each sentence, or of each token where they are packed."""

    language: Choice
    """Language ids, and the sentences grouped by them."""
    tag_BD: Tensor
    """Each language's tag in the shared embedding table, unscaled."""
    drawn: Choice | None = None
    """A language drawn at random for each sentence, where a method asks for one."""
    sentences: tuple[Target, Tensor] | None = None
    """Where rows are tokens: the targets of their sentences, and the sentence of each."""
    _cast: dict[int, Tensor] = field(default_factory=dict, repr=False, compare=False)

    @property
    def lang_B(self) -> Tensor:
        """The language id of each row."""
        return self.language.index_B

    def take(self, table_LD: Tensor) -> Tensor:
        """The row of a table of languages for each row of the batch."""
        if self.sentences is None:
            return table_LD[self.lang_B]
        target, sentence_N = self.sentences  # sentence by sentence first: the gradient has fewer rows to add up
        return target.take(table_LD)[sentence_N]

    def cast(self, table: Tensor, x: Tensor) -> Tensor:
        """A table in the type in which its products with x are computed; remembered, for it serves many layers."""
        dtype = product_dtype(x)
        if table.dtype == dtype or torch.compiler.is_compiling():  # a compiler sees by itself that it is done once
            return table.to(dtype)
        if id(table) not in self._cast:
            self._cast[id(table)] = table.to(dtype)
        return self._cast[id(table)]

    def of_tokens(self, sentence_N: Tensor) -> Target:
        """The targets of tokens that belong to these sentences, one sentence after the other."""
        drawn = None if self.drawn is None else self.drawn.of_tokens(sentence_N)
        return Target(self.language.of_tokens(sentence_N), self.tag_BD[sentence_N], drawn, (self, sentence_N))

    def select(self, rows_B: Tensor) -> Target:
        """The targets of some sentences, in the given order and number."""
        drawn = None if self.drawn is None else self.drawn.select(rows_B)
        return Target(self.language.select(rows_B), self.tag_BD[rows_B], drawn)

    def in_order_of(self, choice: Choice) -> Target:
        """The targets of the same sentences in the order of a choice of theirs."""
        assert choice is self.language or choice is self.drawn, "the hook `choice` returns one of the two"
        assert choice.order_B is not None

        def moved(one: Choice) -> Choice:
            return one.ordered() if one is choice else one.select(rows_B)

        rows_B = choice.order_B
        return Target(moved(self.language), self.tag_BD[rows_B], None if self.drawn is None else moved(self.drawn))


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


class NormTerms(NamedTuple):
    """What to add to the gain and the bias of a layer norm, for each language."""

    gain_LD: Tensor
    bias_LD: Tensor


class MethodSettings(Settings):
    """Base of the settings of a guidance method."""

    method: str
    """The name of the method."""


class SitedSettings(MethodSettings):
    """Base of the settings of a method that acts at some of the sites."""

    possible_sites: ClassVar[tuple[Site, ...]]
    sites: tuple[Site, ...]
    """Where it acts."""

    @field_validator("sites", mode="before")
    @classmethod
    def _sites_exist(cls, sites: Any) -> Any:
        if not isinstance(sites, list | tuple):
            raise ValueError(f"this should be a list, such as [{cls.possible_sites[0]}]; got {sites!r}.")
        possible = f"It can act at {cls.sites_in_words()}."
        named = [cls.site_of(site) for site in sites]
        for given, site in zip(sites, named, strict=True):
            if site not in list(cls.possible_sites):
                close = [] if given in list(Site) else get_close_matches(str(given), cls.possible_sites, n=1)
                meant = f" Did you mean '{close[0]}'?" if close else ""
                raise ValueError(f"this method cannot act at {given!s}.{meant} {possible}")
            if named.count(site) > 1:
                raise ValueError(f"{site} is named twice in {[*sites]}.")
        if not named:
            raise ValueError(f"an empty list would do nothing. {possible}")
        return named

    @classmethod
    def sites_in_words(cls) -> str:
        """The possible sites, for a message."""
        return ", ".join(cls.possible_sites)

    @classmethod
    def site_of(cls, name: Any) -> Any:
        """The site that a name in the settings means; other names than the sites' own may be added here."""
        return name


class Guidance(nn.Module):
    """What the Transformer calls; every hook is a no-op. Where each is called:

    | hook | what it sees |
    |---|---|
    | enter | what enters a sub-layer, before the residual is taken; at `memory`, what leaves the encoder |
    | project, project_memory, merge | the inputs and the heads' outputs inside an attention |
    | norm | the gain and bias of a sub-layer's layer norm |
    | leave | what leaves a sub-layer, after the residual (and the norm, in a post-norm model) |

    For one target language each hook should be an affine function of a single token's states: then the method can be
    folded into plain weights without a line of its own (see `model/folding.py`).
    """

    draws: bool = False
    """Whether sentences need a language drawn at random (`Target.drawn`)."""

    @property
    def in_encoder(self) -> bool:
        """Whether what the encoder reads or does depends on the target language: then it must run for each of them."""
        return True

    def tag(self, language: int) -> Tags:
        """The symbols to put into the sequences for a target language."""
        return Tags()

    def choice(self, target: Target) -> Choice | None:
        """The choice by which sentences should be ordered, so that grouped products need not move them.

        It is `target.language` or `target.drawn`.
        """
        return None

    def enter(self, point: Point, x_BTD: Tensor, target: Target) -> Tensor:
        """Change what enters a sub-layer, before the residual is taken; at `MEMORY`, what leaves the encoder."""
        return x_BTD

    def project(self, point: Point, x_BTD: Tensor, target: Target) -> Tensor | None:
        """A term for the projections of x inside attention: to query, key and value, in cross-attention to the query.

        It is asked for once and added to each of them.
        """
        return None

    def project_memory(self, memory_BSD: Tensor, target: Target) -> Tensor | None:
        """A term for the keys and values of every cross-attention, asked for once for all layers."""
        return None

    def merge(self, point: Point, z_BTD: Tensor, target: Target) -> Tensor | None:
        """A term to add to the output projection of attention, from the heads' outputs side by side."""
        return None

    def merge_matrices(self, point: Point, z_BTD: Tensor, target: Target) -> ByLanguage | None:
        """Where `merge` is a product with a matrix for each language: those matrices, as a linear layer has its weight.

        They may then be added to the output projection and `merge` is not asked for.
        """
        return None

    def norm(self, point: Point) -> NormTerms | None:
        """Terms to add to the gain and bias of the layer norm of a sub-layer, for each language."""
        return None

    def leave(self, point: Point, x_BTD: Tensor, target: Target) -> Tensor:
        """Change what leaves a sub-layer, after the residual and, in a post-norm model, the norm."""
        return x_BTD

    def representations(self, tag_LD: Tensor) -> dict[str, Tensor]:
        """What the method has learnt of each language, by name, languages first; the tags' embeddings are given."""
        return {}


class Method(Guidance):
    """Base of the methods: guidance that is made from settings."""

    settings_type: ClassVar[type[MethodSettings]]
    tells_target: ClassVar[bool] = True
    """Whether the model learns from this method which language to write."""
    excludes: ClassVar[Mapping[str, str]] = {}
    """Methods it makes no sense together with, each with the reason."""

    def __init__(self, settings: MethodSettings, dimensions: Dimensions) -> None:
        super().__init__()
        self._in_encoder = not isinstance(settings, SitedSettings) or bool(ENCODER & set(settings.sites))

    @property
    def in_encoder(self) -> bool:
        """As its sites say; without sites, it may be."""
        return self._in_encoder

    @torch.no_grad()
    def silence(self) -> None:
        """Set the parameters to where the method does nothing."""
        for parameter in self.parameters():
            parameter.zero_()


class Combined(Guidance):
    """Several methods at once: changes are applied in the order of the list, terms are summed."""

    def __init__(self, methods: Mapping[str, Guidance]) -> None:
        super().__init__()
        self.methods = nn.ModuleDict(methods)
        self.draws = any(method.draws for method in methods.values())

    def items(self) -> Iterable[tuple[str, Guidance]]:
        """The methods with their names, in order."""
        for name, method in self.methods.items():
            assert isinstance(method, Guidance)
            yield name, method

    @property
    def in_encoder(self) -> bool:
        """Whether any of them is."""
        return any(method.in_encoder for method in self._each())

    def _each(self) -> Iterable[Guidance]:
        for _, method in self.items():
            yield method

    def tag(self, language: int) -> Tags:
        """All tags, in the order of the methods."""
        return sum((method.tag(language) for method in self._each()), start=Tags())

    def choice(self, target: Target) -> Choice | None:
        """The first that a method asks for."""
        choices = (method.choice(target) for method in self._each())
        return next((choice for choice in choices if choice is not None), None)

    def enter(self, point: Point, x_BTD: Tensor, target: Target) -> Tensor:
        """Apply one after the other."""
        for method in self._each():
            x_BTD = method.enter(point, x_BTD, target)
        return x_BTD

    def project(self, point: Point, x_BTD: Tensor, target: Target) -> Tensor | None:
        """Sum the terms."""
        return _sum(method.project(point, x_BTD, target) for method in self._each())

    def project_memory(self, memory_BSD: Tensor, target: Target) -> Tensor | None:
        """Sum the terms."""
        return _sum(method.project_memory(memory_BSD, target) for method in self._each())

    def merge(self, point: Point, z_BTD: Tensor, target: Target) -> Tensor | None:
        """Sum the terms."""
        return _sum(method.merge(point, z_BTD, target) for method in self._each())

    def merge_matrices(self, point: Point, z_BTD: Tensor, target: Target) -> ByLanguage | None:
        """Those of the only method that merges."""
        merging = [method for method in self._each() if type(method).merge is not Guidance.merge]
        return merging[0].merge_matrices(point, z_BTD, target) if len(merging) == 1 else None

    def norm(self, point: Point) -> NormTerms | None:
        """Sum the terms."""
        found = [method.norm(point) for method in self._each()]
        terms = [each for each in found if each is not None]
        if not terms:
            return None
        return NormTerms(sum(t.gain_LD for t in terms), sum(t.bias_LD for t in terms))  # type: ignore[arg-type]

    def leave(self, point: Point, x_BTD: Tensor, target: Target) -> Tensor:
        """Apply one after the other."""
        for method in self._each():
            x_BTD = method.leave(point, x_BTD, target)
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
