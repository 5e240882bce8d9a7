"""The interface between a Transformer and the methods that tell it the target language.

A method is a module with a few hooks, each a no-op by default. The Transformer calls the hooks at fixed points and
knows no method by name. Every sentence of a batch has its own target language.

Shape letters: B sentences, T tokens, D model width, L languages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import field_validator
from torch import Tensor, nn

from manyglot.config.base_settings import Settings
from manyglot.model.guidance.language_matmul import LanguageGroups, LanguageMatrices, matmul_dtype, pad_rank
from manyglot.vocabulary.vocabulary import LanguageTags


class Site(StrEnum):
    """Where a method can act: the sub-layers, and the encoder's output as the decoder reads it (`memory`)."""

    ENC_SELF = "enc.self"
    ENC_FFN = "enc.ffn"
    MEMORY = "memory"
    DEC_SELF = "dec.self"
    DEC_CROSS = "dec.cross"
    DEC_FFN = "dec.ffn"


ENCODER_SITES = {Site.ENC_SELF, Site.ENC_FFN}
"""The sites inside the encoder; `memory` comes after it."""


class HookPoint(NamedTuple):
    """A site in one layer, where the model calls hooks. Layers count from 0 in each stack; `MEMORY` has layer 0."""

    site: Site
    layer: int


@dataclass(frozen=True)
class TargetLanguages:
    """The target language of each row of a batch. A row is a sentence, or a token in a packed batch."""

    groups: LanguageGroups
    """The rows grouped by target language."""
    tag_embedding_BD: Tensor
    """The embedding of each row's language tag, unscaled, from the shared embedding table."""
    random_groups: LanguageGroups | None = None
    """The rows grouped by a random language, if a method uses one."""
    sentence_level: tuple[TargetLanguages, Tensor] | None = None
    """If rows are tokens: the target languages of the sentences, and the sentence of each token."""
    _cast: dict[tuple[int, torch.dtype], Tensor] = field(default_factory=dict, repr=False, compare=False)

    @property
    def lang_B(self) -> Tensor:
        """The language id of each row."""
        return self.groups.lang_B

    def gather_rows(self, table_LD: Tensor) -> Tensor:
        """For each row of the batch, gather the row of its language from a table with one row per language."""
        if self.sentence_level is None:
            return table_LD[self.lang_B]
        # first per sentence, then per token: the backward pass sums over fewer rows
        per_sentence, sentence_N = self.sentence_level
        return per_sentence.gather_rows(table_LD)[sentence_N]

    def cast_table(self, table: Tensor, x: Tensor) -> Tensor:
        """Cast a table to the data type of its products with x. The result is cached, because many layers use it."""
        dtype = matmul_dtype(x)
        return table if table.dtype == dtype else self._cached(table, dtype, lambda: table.to(dtype))

    def cast_factor(self, factor_LDR: Tensor, x: Tensor) -> Tensor:
        """Cast a factor of low-rank matrices like `cast_table`, and pad its rank if a grouped kernel requires it."""
        dtype = matmul_dtype(x)
        return self._cached(factor_LDR, dtype, lambda: pad_rank(factor_LDR.to(dtype)))

    def _cached(self, table: Tensor, dtype: torch.dtype, convert: Callable[[], Tensor]) -> Tensor:
        if torch.compiler.is_compiling():  # the compiler removes repeated work itself
            return convert()
        key = id(table), dtype
        if key not in self._cast:
            self._cast[key] = convert()
        return self._cast[key]

    def per_token(self, sentence_N: Tensor) -> TargetLanguages:
        """Expand sentences to tokens; `sentence_N` is the sentence of each token, in ascending order."""
        random_groups = None if self.random_groups is None else self.random_groups.per_token(sentence_N)
        return TargetLanguages(
            self.groups.per_token(sentence_N),
            self.tag_embedding_BD[sentence_N],
            random_groups,
            (self, sentence_N),
        )

    def select(self, rows_B: Tensor) -> TargetLanguages:
        """Select rows by index; a row may be repeated."""
        random_groups = None if self.random_groups is None else self.random_groups.select(rows_B)
        return TargetLanguages(self.groups.select(rows_B), self.tag_embedding_BD[rows_B], random_groups)

    def sorted_by(self, groups: LanguageGroups) -> TargetLanguages:
        """Sort the rows by `groups`, which must be this object's `groups` or `random_groups` and not sorted yet."""
        assert groups is self.groups or groups is self.random_groups, (
            "`groups_to_sort_by` must return `groups` or `random_groups`"
        )
        assert groups.sort_order_B is not None

        def reorder(other: LanguageGroups) -> LanguageGroups:
            return other.groups_of_sorted_rows() if other is groups else other.select(rows_B)

        rows_B = groups.sort_order_B
        return TargetLanguages(
            reorder(self.groups),
            self.tag_embedding_BD[rows_B],
            None if self.random_groups is None else reorder(self.random_groups),
        )


@dataclass(frozen=True)
class ModelDimensions:
    """The dimensions of the model from which a method creates its parameters."""

    width: int
    num_encoder_layers: int
    num_decoder_layers: int
    num_languages: int
    first_tag_id: int
    """Vocabulary id of the tag of language 0; the other tags follow in order."""


class NormTerms(NamedTuple):
    """Terms that are added to the gain and bias of a layer norm, one row per language."""

    gain_LD: Tensor
    bias_LD: Tensor


class MethodSettings(Settings):
    """Base class for the settings of a guidance method."""

    method: str
    """The name of the method."""

    def check_width(self, width: int) -> None:
        """Raise a SettingsError if the method does not fit a model of this width."""


class SitedSettings(MethodSettings):
    """Base class for the settings of a method that acts at selected sites."""

    possible_sites: ClassVar[tuple[Site, ...]]
    sites: tuple[Site, ...]
    """The sites where the method acts."""

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
                raise ValueError(f"{site} is listed twice in {[*sites]}.")
        if not parsed:
            raise ValueError(f"an empty list has no effect. {possible}")
        return parsed

    @classmethod
    def format_possible_sites(cls) -> str:
        """List the possible sites for an error message."""
        return ", ".join(cls.possible_sites)

    @classmethod
    def parse_site(cls, name: Any) -> Any:
        """Convert a name in the settings to a site. Override it to accept further names."""
        return name


class Guidance(nn.Module):
    """The hooks that the Transformer calls; each is a no-op by default.

    | hook | input |
    |---|---|
    | pre_sublayer | the input of a sub-layer, before the residual branches off; at `memory`, the encoder's output |
    | qkv_term, memory_kv_term, output_term | the inputs and the joined heads of an attention |
    | sublayer_output_term | the output of a sub-layer, before the residual |
    | norm_terms | nothing; it returns terms for the gain and bias of a sub-layer's layer norm |
    | post_sublayer | the output of a sub-layer, after the residual (and after the norm in a post-norm model) |

    For a fixed target language each hook should be an affine function of a single token's states. The method can then
    be folded into plain weights without code of its own (see `model/folding.py`).
    """

    uses_random_language: bool = False
    """Whether the method needs a random language for each sentence (`TargetLanguages.random_groups`)."""

    sublayer_output_sites: frozenset[Site] = frozenset()
    """The sites where `sublayer_output_term` may return a term."""

    @property
    def affects_encoder(self) -> bool:
        """Whether the encoder's output depends on the target language, so that it must run once per target language."""
        return True

    def tags_for_language(self, language: int) -> LanguageTags:
        """Return the tags that mark a target language in the source and target sequences."""
        return LanguageTags()

    def groups_to_sort_by(self, target_languages: TargetLanguages) -> LanguageGroups | None:
        """Return the grouping by which rows should be sorted, so that grouped products need not reorder them.

        It is `target_languages.groups`, `target_languages.random_groups`, or None if the order does not matter.
        """
        return None

    def pre_sublayer(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        """Change the input of a sub-layer before the residual branches off; at `MEMORY`, the encoder's output."""
        return x_BTD

    def qkv_term(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Return a term for the projections of x in attention, or None.

        It is computed once and added to query, key and value; in cross-attention, to the query only.
        """
        return None

    def memory_kv_term(self, memory_BSD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Return a term for the keys and values of every cross-attention, or None; computed once for all layers."""
        return None

    def output_term(self, point: HookPoint, z_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Return a term that is added to the output projection of attention, or None; z is the joined heads."""
        return None

    def output_term_matrices(
        self, point: HookPoint, z_BTD: Tensor, target_languages: TargetLanguages
    ) -> LanguageMatrices | None:
        """Return the matrices of `output_term`, if it is a product with one matrix per language; otherwise None.

        They have the layout of an `nn.Linear` weight. If the executor adds them to the weight of the output projection,
        it does not call `output_term`.
        """
        return None

    def sublayer_output_term(self, point: HookPoint, y_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Return a term that is added to the output y of a sub-layer before dropout and residual, or None.

        The model calls this hook at `sublayer_output_sites` only.
        """
        return None

    def norm_terms(self, point: HookPoint) -> NormTerms | None:
        """Return terms for the gain and bias of a sub-layer's layer norm, or None."""
        return None

    def post_sublayer(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        """Change the output of a sub-layer, after the residual and, in a post-norm model, the norm."""
        return x_BTD

    def language_representations(self, tag_embedding_LD: Tensor) -> dict[str, Tensor]:
        """Return what the method has learned about each language, by name; the first dimension is the language."""
        return {}


class GuidanceMethod(Guidance):
    """Base class of the guidance methods, which are built from their settings."""

    settings_type: ClassVar[type[MethodSettings]]
    conveys_target_language: ClassVar[bool] = True
    """Whether this method alone tells the model which language to write."""
    incompatible_methods: ClassVar[Mapping[str, str]] = {}
    """Methods that cannot be combined with this one, each with the reason."""

    def __init__(self, settings: MethodSettings, dimensions: ModelDimensions) -> None:
        super().__init__()
        self._affects_encoder = not isinstance(settings, SitedSettings) or bool(ENCODER_SITES & set(settings.sites))

    @property
    def affects_encoder(self) -> bool:
        """Whether one of the sites is in the encoder; True for a method without sites."""
        return self._affects_encoder

    @torch.no_grad()
    def reset_to_identity(self) -> None:
        """Set the parameters so that the method has no effect."""
        for parameter in self.parameters():
            parameter.zero_()


class CombinedGuidance(Guidance):
    """Several methods: changes are applied in the order of the list, terms are summed."""

    def __init__(self, methods: Mapping[str, Guidance]) -> None:
        super().__init__()
        self.methods = nn.ModuleDict(methods)
        self.uses_random_language = any(method.uses_random_language for method in methods.values())
        self.sublayer_output_sites = frozenset[Site]().union(*(m.sublayer_output_sites for m in methods.values()))

    def named_methods(self) -> Iterable[tuple[str, Guidance]]:
        """Iterate over the names and methods in order."""
        for name, method in self.methods.items():
            assert isinstance(method, Guidance)
            yield name, method

    @property
    def affects_encoder(self) -> bool:
        """Whether any method affects the encoder."""
        return any(method.affects_encoder for method in self._methods_in_order())

    def _methods_in_order(self) -> Iterable[Guidance]:
        for _, method in self.named_methods():
            yield method

    def tags_for_language(self, language: int) -> LanguageTags:
        """Concatenate the tags of all methods, in their order."""
        return sum((method.tags_for_language(language) for method in self._methods_in_order()), start=LanguageTags())

    def groups_to_sort_by(self, target_languages: TargetLanguages) -> LanguageGroups | None:
        """Return the first grouping that a method prefers."""
        groupings = (method.groups_to_sort_by(target_languages) for method in self._methods_in_order())
        return next((groups for groups in groupings if groups is not None), None)

    def pre_sublayer(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        """Apply the methods in order."""
        for method in self._methods_in_order():
            x_BTD = method.pre_sublayer(point, x_BTD, target_languages)
        return x_BTD

    def qkv_term(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Sum the terms of all methods."""
        return _sum(method.qkv_term(point, x_BTD, target_languages) for method in self._methods_in_order())

    def memory_kv_term(self, memory_BSD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Sum the terms of all methods."""
        return _sum(method.memory_kv_term(memory_BSD, target_languages) for method in self._methods_in_order())

    def output_term(self, point: HookPoint, z_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Sum the terms of all methods."""
        return _sum(method.output_term(point, z_BTD, target_languages) for method in self._methods_in_order())

    def output_term_matrices(
        self, point: HookPoint, z_BTD: Tensor, target_languages: TargetLanguages
    ) -> LanguageMatrices | None:
        """Return the matrices, provided that only one method has an output term."""
        methods = [m for m in self._methods_in_order() if type(m).output_term is not Guidance.output_term]
        return methods[0].output_term_matrices(point, z_BTD, target_languages) if len(methods) == 1 else None

    def sublayer_output_term(self, point: HookPoint, y_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Sum the terms of all methods, each computed from the same y."""
        return _sum(method.sublayer_output_term(point, y_BTD, target_languages) for method in self._methods_in_order())

    def norm_terms(self, point: HookPoint) -> NormTerms | None:
        """Sum the terms of all methods."""
        all_terms = [method.norm_terms(point) for method in self._methods_in_order()]
        gain_LD = _sum(None if terms is None else terms.gain_LD for terms in all_terms)
        bias_LD = _sum(None if terms is None else terms.bias_LD for terms in all_terms)
        return None if gain_LD is None or bias_LD is None else NormTerms(gain_LD, bias_LD)

    def post_sublayer(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        """Apply the methods in order."""
        for method in self._methods_in_order():
            x_BTD = method.post_sublayer(point, x_BTD, target_languages)
        return x_BTD

    def language_representations(self, tag_embedding_LD: Tensor) -> dict[str, Tensor]:
        """Collect the representations of all methods."""
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
