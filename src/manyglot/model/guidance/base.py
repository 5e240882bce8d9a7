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
from manyglot.model.guidance.language_matmul import LanguageGroups, LanguageMatrices, matmul_dtype
from manyglot.vocabulary.vocabulary import LanguageTags


class Site(StrEnum):
    """The sub-layers where a method can act, and the encoder's output as the decoder sees it."""

    ENC_SELF = "enc.self"
    ENC_FFN = "enc.ffn"
    MEMORY = "memory"
    DEC_SELF = "dec.self"
    DEC_CROSS = "dec.cross"
    DEC_FFN = "dec.ffn"


ENCODER_SITES = {Site.ENC_SELF, Site.ENC_FFN}
"""Those in the encoder; `memory` is behind it."""


class HookPoint(NamedTuple):
    """One place in the model where hooks are called: a site in one of the layers of its stack, counted from 0.

    `MEMORY` is there once and belongs to no layer; its layer is 0.
    """

    site: Site
    layer: int


@dataclass(frozen=True)
class TargetLanguages:
    """The target language of each row of a batch: of each sentence, or of each token where they are packed."""

    groups: LanguageGroups
    """Language ids, and the sentences grouped by them."""
    tag_embedding_BD: Tensor
    """Each language's tag in the shared embedding table, unscaled."""
    random_groups: LanguageGroups | None = None
    """A language drawn at random for each sentence, where a method asks for one."""
    sentence_level: tuple[TargetLanguages, Tensor] | None = None
    """Where rows are tokens: the targets of their sentences, and the sentence of each."""
    _cast: dict[int, Tensor] = field(default_factory=dict, repr=False, compare=False)

    @property
    def lang_B(self) -> Tensor:
        """The language id of each row."""
        return self.groups.lang_B

    def gather_rows(self, table_LD: Tensor) -> Tensor:
        """The row of a table of languages for each row of the batch."""
        if self.sentence_level is None:
            return table_LD[self.lang_B]
        # first per sentence, then per token: the backward pass sums over fewer rows
        per_sentence, sentence_N = self.sentence_level
        return per_sentence.gather_rows(table_LD)[sentence_N]

    def cast_table(self, table: Tensor, x: Tensor) -> Tensor:
        """A table in the type in which its products with x are computed; remembered, for it serves many layers."""
        dtype = matmul_dtype(x)
        if table.dtype == dtype or torch.compiler.is_compiling():  # a compiler sees by itself that it is done once
            return table.to(dtype)
        if id(table) not in self._cast:
            self._cast[id(table)] = table.to(dtype)
        return self._cast[id(table)]

    def per_token(self, sentence_N: Tensor) -> TargetLanguages:
        """The targets of tokens that belong to these sentences, one sentence after the other."""
        random_groups = None if self.random_groups is None else self.random_groups.per_token(sentence_N)
        return TargetLanguages(
            self.groups.per_token(sentence_N),
            self.tag_embedding_BD[sentence_N],
            random_groups,
            (self, sentence_N),
        )

    def select(self, rows_B: Tensor) -> TargetLanguages:
        """The targets of some sentences, in the given order and number."""
        random_groups = None if self.random_groups is None else self.random_groups.select(rows_B)
        return TargetLanguages(self.groups.select(rows_B), self.tag_embedding_BD[rows_B], random_groups)

    def sorted_by(self, groups: LanguageGroups) -> TargetLanguages:
        """The targets of the same sentences in the order of a choice of theirs."""
        assert groups is self.groups or groups is self.random_groups, (
            "the hook `preferred_grouping` returns one of the two"
        )
        assert groups.sort_order_B is not None

        def reorder(other: LanguageGroups) -> LanguageGroups:
            return other.sorted_groups() if other is groups else other.select(rows_B)

        rows_B = groups.sort_order_B
        return TargetLanguages(
            reorder(self.groups),
            self.tag_embedding_BD[rows_B],
            None if self.random_groups is None else reorder(self.random_groups),
        )


@dataclass(frozen=True)
class ModelDimensions:
    """What a method may need to know about the model to make its parameters."""

    width: int
    num_heads: int
    num_encoder_layers: int
    num_decoder_layers: int
    num_languages: int
    first_tag_id: int
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
        possible = f"It can act at {cls.format_possible_sites()}."
        parsed = [cls.parse_site(site) for site in sites]
        for given, site in zip(sites, parsed, strict=True):
            if site not in list(cls.possible_sites):
                close = [] if given in list(Site) else get_close_matches(str(given), cls.possible_sites, n=1)
                suggestion = f" Did you mean '{close[0]}'?" if close else ""
                raise ValueError(f"this method cannot act at {given!s}.{suggestion} {possible}")
            if parsed.count(site) > 1:
                raise ValueError(f"{site} is named twice in {[*sites]}.")
        if not parsed:
            raise ValueError(f"an empty list would do nothing. {possible}")
        return parsed

    @classmethod
    def format_possible_sites(cls) -> str:
        """The possible sites, for a message."""
        return ", ".join(cls.possible_sites)

    @classmethod
    def parse_site(cls, name: Any) -> Any:
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

    uses_random_language: bool = False
    """Whether sentences need a language drawn at random (`TargetLanguages.random_groups`)."""

    @property
    def affects_encoder(self) -> bool:
        """Whether what the encoder reads or does depends on the target language: then it must run for each of them."""
        return True

    def tags_for_language(self, language: int) -> LanguageTags:
        """The symbols to put into the sequences for a target language."""
        return LanguageTags()

    def preferred_grouping(self, target_languages: TargetLanguages) -> LanguageGroups | None:
        """The choice by which sentences should be ordered, so that grouped products need not move them.

        It is `target.groups` or `target.random_groups`.
        """
        return None

    def pre_sublayer(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        """Change what enters a sub-layer, before the residual is taken; at `MEMORY`, what leaves the encoder."""
        return x_BTD

    def projection_term(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """A term for the projections of x inside attention: to query, key and value, in cross-attention to the query.

        It is asked for once and added to each of them.
        """
        return None

    def memory_term(self, memory_BSD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """A term for the keys and values of every cross-attention, asked for once for all layers."""
        return None

    def output_term(self, point: HookPoint, z_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """A term to add to the output projection of attention, from the heads' outputs side by side."""
        return None

    def output_matrices(
        self, point: HookPoint, z_BTD: Tensor, target_languages: TargetLanguages
    ) -> LanguageMatrices | None:
        """The matrices behind `output_term`, if it is a product with one matrix per language; laid out as `nn.Linear`.

        The executor may add them to the output projection; it then does not call `output_term`.
        """
        return None

    def norm_terms(self, point: HookPoint) -> NormTerms | None:
        """Terms to add to the gain and bias of the layer norm of a sub-layer, for each language."""
        return None

    def post_sublayer(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        """Change what leaves a sub-layer, after the residual and, in a post-norm model, the norm."""
        return x_BTD

    def language_representations(self, tag_embedding_LD: Tensor) -> dict[str, Tensor]:
        """What the method has learnt of each language, by name, languages first; the tags' embeddings are given."""
        return {}


class GuidanceMethod(Guidance):
    """Base of the methods: guidance that is made from settings."""

    settings_type: ClassVar[type[MethodSettings]]
    conveys_target_language: ClassVar[bool] = True
    """Whether the model learns from this method which language to write."""
    incompatible_methods: ClassVar[Mapping[str, str]] = {}
    """Methods it makes no sense together with, each with the reason."""

    def __init__(self, settings: MethodSettings, dimensions: ModelDimensions) -> None:
        super().__init__()
        self._affects_encoder = not isinstance(settings, SitedSettings) or bool(ENCODER_SITES & set(settings.sites))

    @property
    def affects_encoder(self) -> bool:
        """As its sites say; without sites, it may be."""
        return self._affects_encoder

    @torch.no_grad()
    def reset_to_identity(self) -> None:
        """Set the parameters to where the method does nothing."""
        for parameter in self.parameters():
            parameter.zero_()


class CombinedGuidance(Guidance):
    """Several methods at once: changes are applied in the order of the list, terms are summed."""

    def __init__(self, methods: Mapping[str, Guidance]) -> None:
        super().__init__()
        self.methods = nn.ModuleDict(methods)
        self.uses_random_language = any(method.uses_random_language for method in methods.values())

    def items(self) -> Iterable[tuple[str, Guidance]]:
        """The methods with their names, in order."""
        for name, method in self.methods.items():
            assert isinstance(method, Guidance)
            yield name, method

    @property
    def affects_encoder(self) -> bool:
        """Whether any of them is."""
        return any(method.affects_encoder for method in self._methods_in_order())

    def _methods_in_order(self) -> Iterable[Guidance]:
        for _, method in self.items():
            yield method

    def tags_for_language(self, language: int) -> LanguageTags:
        """All tags, in the order of the methods."""
        return sum((method.tags_for_language(language) for method in self._methods_in_order()), start=LanguageTags())

    def preferred_grouping(self, target_languages: TargetLanguages) -> LanguageGroups | None:
        """The first that a method asks for."""
        groupings = (method.preferred_grouping(target_languages) for method in self._methods_in_order())
        return next((groups for groups in groupings if groups is not None), None)

    def pre_sublayer(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        """Apply one after the other."""
        for method in self._methods_in_order():
            x_BTD = method.pre_sublayer(point, x_BTD, target_languages)
        return x_BTD

    def projection_term(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Sum the terms."""
        return _sum(method.projection_term(point, x_BTD, target_languages) for method in self._methods_in_order())

    def memory_term(self, memory_BSD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Sum the terms."""
        return _sum(method.memory_term(memory_BSD, target_languages) for method in self._methods_in_order())

    def output_term(self, point: HookPoint, z_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Sum the terms."""
        return _sum(method.output_term(point, z_BTD, target_languages) for method in self._methods_in_order())

    def output_matrices(
        self, point: HookPoint, z_BTD: Tensor, target_languages: TargetLanguages
    ) -> LanguageMatrices | None:
        """Those of the only method that merges."""
        with_output_term = [
            method for method in self._methods_in_order() if type(method).output_term is not Guidance.output_term
        ]
        return (
            with_output_term[0].output_matrices(point, z_BTD, target_languages) if len(with_output_term) == 1 else None
        )

    def norm_terms(self, point: HookPoint) -> NormTerms | None:
        """Sum the terms."""
        all_terms = [method.norm_terms(point) for method in self._methods_in_order()]
        terms = [each for each in all_terms if each is not None]
        if not terms:
            return None
        return NormTerms(sum(t.gain_LD for t in terms), sum(t.bias_LD for t in terms))  # type: ignore[arg-type]

    def post_sublayer(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        """Apply one after the other."""
        for method in self._methods_in_order():
            x_BTD = method.post_sublayer(point, x_BTD, target_languages)
        return x_BTD

    def language_representations(self, tag_embedding_LD: Tensor) -> dict[str, Tensor]:
        """All of them."""
        return {
            name: value
            for method in self._methods_in_order()
            for name, value in method.language_representations(tag_embedding_LD).items()
        }


def _sum(terms: Iterable[Tensor | None]) -> Tensor | None:
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total
