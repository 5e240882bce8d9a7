"""Warm start: copies the weights of a trained model into a new one, whose subwords, languages and guidance may differ.

| weights of the new model | start as |
|---|---|
| subword that the old model has | its row |
| other subword, or one of a language of its own | the mean of the rows of its old subwords: those that its text has |
| other subword, if the old model knows none of its characters | random |
| tag of a language that the old model has, in any code style | its row |
| tag of another language | the mean of the rows of all old tags |
| guidance method that the old model has | the parameters of its languages; other languages start at the identity |
| other guidance method, or the same method with another rank | the identity |
| all other weights | the old weights |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from manyglot.corpus.language_codes import parse_language_code
from manyglot.corpus.language_lookup import best_matching_codes, codes_spelled_like
from manyglot.corpus.languages import Languages
from manyglot.errors import SettingsError
from manyglot.model.guidance import build_guidance
from manyglot.model.guidance.base import GuidanceMethod, MethodSettings
from manyglot.model.meta_device import meta_device
from manyglot.model.model_folder import TrainedModel
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_file import SPACE
from manyglot.vocabulary.subword_model import UNK, SubwordModel
from manyglot.vocabulary.vocabulary import Vocabulary

FREE_MODEL_SETTINGS = frozenset({"dropout"})
"""Settings of the model on which no weight depends."""
FREE_GUIDANCE_SETTINGS = frozenset({"init_gain"})
"""Settings of guidance methods that matter only for random weights."""
SHAPE_SETTINGS = frozenset({"rank"})
"""Settings of guidance methods that determine the shapes of parameters. With another value, a method is new."""
BYTE_PIECE = re.compile("<0x[0-9A-F]{2}>")
"""A subword of models with byte fallback. It has no text."""
MAX_LISTED_NAMES = 10

OldRows = Sequence[Sequence[int]]
"""For each row of a table of the new model, the old rows whose mean it starts as. If empty, the row stays random."""


@dataclass(frozen=True)
class NewEntries:
    """The entries of a parameter that a warm start has not copied."""

    dim: int = 0
    indices: tuple[int, ...] = ()
    """The new indices in this dimension."""
    is_whole: bool = False
    """Whether the whole parameter is new."""


@dataclass(frozen=True)
class WarmStartSummary:
    """What a warm start has copied, and what is new."""

    num_subwords: Mapping[str, int]
    """Number of subwords that are copied, mean, random or dropped."""
    old_languages: Mapping[str, str]
    """The language of the old model whose parameters a language starts with. New languages are missing."""
    new_languages: list[str]
    dropped_languages: list[str]
    copied_methods: list[str]
    """The guidance methods of both models, with parameters of the same shapes."""
    new_methods: list[str]
    """The other methods of the new model. The rank is included if only the rank differs."""
    dropped_methods: list[str]
    new_entries: Mapping[str, NewEntries]
    """What is new in the parameters that have something new, by name."""

    def format_lines(self) -> Iterator[str]:
        """Yield the lines of a table."""
        counts = self.num_subwords
        copied = {new: new if new == old else f"{new} from {old}" for new, old in self.old_languages.items()}
        yield (
            f"  subwords   {counts['copied']:,} copied, {counts['mean']:,} new (mean of old subwords), "
            f"{counts['random']:,} new (random: unknown characters), {counts['dropped']:,} dropped"
        )
        yield f"  languages  {_format_parts(list(copied.values()), self.new_languages, self.dropped_languages)}"
        yield f"  guidance   {_format_parts(self.copied_methods, self.new_methods, self.dropped_methods)}"
        yield "  all other weights are copied"


def check_same_architecture(stated: Mapping[str, Any], old: ModelSettings, model_name: str) -> None:
    """Raise a SettingsError if a stated setting of the model differs from that of the old model."""
    for name, old_value in old.model_dump(mode="json").items():
        if name not in FREE_MODEL_SETTINGS and stated.get(name, old_value) != old_value:
            raise SettingsError(
                f"model.{name} is {_show(stated[name])}, but {_show(old_value)} in {model_name}, the model of `init`. "
                f"Remove model.{name}: the model section defaults to the old settings."
            )


def copy_weights(old: TrainedModel, model: Transformer, vocabulary: Vocabulary, model_name: str) -> WarmStartSummary:
    """Copy the weights of a trained model of the same architecture into a freshly initialized model."""
    check_same_architecture(model.settings.model_dump(mode="json"), old.model.settings, model_name)
    copied_methods = _find_copied_methods(model, old.model)
    _check_same_guidance(model, old.model, copied_methods, model_name)
    subword_rows = match_subwords(vocabulary.subword_model, old.vocabulary.subword_model)
    old_languages = match_languages(vocabulary.languages, old.vocabulary.languages)
    with torch.no_grad():
        rows = [*subword_rows, *_match_tags(vocabulary, old.vocabulary, old_languages)]
        _fill_rows(model.embedding.weight, old.model.embedding.weight, rows)
        if model.output_bias is not None and old.model.output_bias is not None:
            _fill_rows(model.output_bias, old.model.output_bias, rows)
        _copy_guidance(model, old, vocabulary.languages, old_languages, copied_methods)
        _copy_other_weights(model, old.model)
    return WarmStartSummary(
        _count_subwords(subword_rows, vocabulary.subword_model, old.vocabulary.subword_model),
        old_languages,
        [code for code in vocabulary.languages if code not in old_languages],
        [code for code in old.vocabulary.languages if code not in old_languages.values()],
        copied_methods,
        _describe_methods(model, old.model, copied_methods),
        _describe_methods(old.model, model, copied_methods),
        dict(_find_new_entries(model, old, vocabulary, rows, old_languages, copied_methods)),
    )


def _find_copied_methods(model: Transformer, old: Transformer) -> list[str]:
    """Return the methods of both models whose parameters have the same shapes."""
    old_shapes = {method.method: _shape_settings(method) for method in old.methods}
    return [each.method for each in model.methods if old_shapes.get(each.method) == _shape_settings(each)]


def _shape_settings(method: MethodSettings) -> dict[str, Any]:
    return {name: value for name, value in method.model_dump(mode="json").items() if name in SHAPE_SETTINGS}


def _describe_methods(model: Transformer, other: Transformer, copied_methods: Sequence[str]) -> list[str]:
    """Name the methods that are not copied; if the other model has one with other shapes, add what differs."""
    other_names, described = {method.method for method in other.methods}, []
    for method in model.methods:
        if method.method not in copied_methods:
            shape = [f"{name} {_show(value)}" for name, value in _shape_settings(method).items()]
            described.append(" with ".join([method.method, *(shape if method.method in other_names else ())]))
    return described


def _find_new_entries(
    model: Transformer,
    old: TrainedModel,
    vocabulary: Vocabulary,
    rows: OldRows,
    old_languages: Mapping[str, str],
    copied_methods: Sequence[str],
) -> Iterator[tuple[str, NewEntries]]:
    """Yield the parameters with new entries, given the old rows of the subwords and tags."""
    subwords, old_subwords = vocabulary.subword_model, old.vocabulary.subword_model
    new_rows = {i for i, old_rows in enumerate(rows) if len(old_rows) != 1}
    for code, added in subwords.further_languages.items():
        if code not in old_subwords.further_languages:
            new_rows.update(added.ids)  # even if they start as the rows of the same text in the original model
    new_languages = [vocabulary.languages.id(code) for code in vocabulary.languages if code not in old_languages]
    new_rows.update(vocabulary.tag_id(language) for language in new_languages)
    for name in ("embedding.weight", "output_bias"):
        if new_rows:
            yield name, NewEntries(0, tuple(sorted(new_rows)))
    for name, dim in language_dims(model).items():
        if name.split(".")[1] not in copied_methods:
            yield f"guidance.{name}", NewEntries(is_whole=True)
        elif dim is not None and new_languages:
            yield f"guidance.{name}", NewEntries(dim, tuple(new_languages))


def match_subwords(new: SubwordModel, old: SubwordModel) -> OldRows:
    """Return the old rows of each subword.

    The subwords of a language of its own match those that the old model has for this language, if any.
    """
    rows = list(_match_pieces(new.original, old.original))
    for code, subwords in new.further_languages.items():
        same = old.further_languages.get(code)
        shift = 0 if same is None else same.ids.start - UNK - 1
        matched = _match_pieces(subwords.model, old.original if same is None else same.model)
        rows += [[row + shift for row in old_rows] for old_rows in matched[UNK + 1 :]]
    return rows


def _match_pieces(new: SubwordModel, old: SubwordModel) -> OldRows:
    pieces, old_pieces = new.pieces(), old.pieces()
    if pieces == old_pieces:
        return [(i,) for i in range(len(pieces))]
    old_ids = {piece: i for i, piece in reversed(list(enumerate(old_pieces))) if i > UNK}
    rows: list[Sequence[int]] = [(i,) if i <= UNK else (old_ids.get(piece, UNK),) for i, piece in enumerate(pieces)]
    missing = [i for i, piece in enumerate(pieces) if i > UNK and piece not in old_ids]
    for i in missing:
        rows[i] = ()
    missing = [i for i in missing if not BYTE_PIECE.fullmatch(pieces[i])]
    encoded = old.encode([pieces[i].replace(SPACE, " ") for i in missing])
    space_id = old_ids.get(SPACE)
    for i, ids in zip(missing, encoded, strict=True):
        known = [each for each in ids if each != UNK]
        without_space = known[1:] if known[:1] == [space_id] else known
        # Splitting a text adds a space before it. A piece inside a word has none, and a space alone says nothing.
        rows[i] = known if without_space and pieces[i].startswith(SPACE) else without_space
    return rows


def match_languages(new: Languages, old: Languages) -> dict[str, str]:
    """Return the old language of each language, in any code style. Languages without a single match are missing."""
    matches = {}
    for code in new:
        candidates = codes_spelled_like(code, old) or best_matching_codes(parse_language_code(code), old)
        if code in old or len(candidates) == 1:
            matches[code] = code if code in old else candidates[0]
    return matches


def _match_tags(vocabulary: Vocabulary, old: Vocabulary, old_languages: Mapping[str, str]) -> OldRows:
    """Return the old rows of each language tag."""
    all_tags = range(len(old.subword_model), len(old))
    return [
        (old.tag_id(old.languages.id(old_languages[code])),) if code in old_languages else all_tags
        for code in vocabulary.languages
    ]


def _fill_rows(table: Tensor, old_table: Tensor, rows: OldRows) -> None:
    """Set each row to its old row, or to the mean of its old rows."""
    copied = [(i, old_rows[0]) for i, old_rows in enumerate(rows) if len(old_rows) == 1]
    new_ids, old_ids = torch.tensor(copied, dtype=torch.long).reshape(-1, 2).unbind(dim=1)
    table[new_ids] = old_table[old_ids]
    for i, old_rows in enumerate(rows):
        if len(old_rows) > 1:
            table[i] = old_table[list(old_rows)].mean(dim=0)


def _copy_guidance(
    model: Transformer,
    old: TrainedModel,
    languages: Languages,
    old_languages: Mapping[str, str],
    copied_methods: Sequence[str],
) -> None:
    """Copy the parameters of some methods; set everything else to the identity."""
    old_methods = dict(old.model.guidance.named_methods())
    new_ids = torch.tensor([languages.id(code) for code in old_languages], dtype=torch.long)
    old_ids = torch.tensor([old.vocabulary.languages.id(code) for code in old_languages.values()], dtype=torch.long)
    dims = language_dims(model)
    for method_name, method in model.guidance.named_methods():
        assert isinstance(method, GuidanceMethod)
        method.reset_to_identity()
        if method_name not in copied_methods:
            continue
        old_parameters = dict(old_methods[method_name].named_parameters())
        for name, parameter in method.named_parameters():
            dim = dims[f"methods.{method_name}.{name}"]
            if dim is None:
                parameter.copy_(old_parameters[name])
            else:
                parameter.index_copy_(dim, new_ids, old_parameters[name].index_select(dim, old_ids))


def language_dims(model: Transformer) -> dict[str, int | None]:
    """Return the dimension of each guidance parameter that has one entry per language, or None if it has none."""
    one_more = replace(model.dimensions, num_languages=model.num_languages + 1)
    with meta_device():
        larger = dict(build_guidance(model.methods, one_more).named_parameters())
    return {
        name: next((dim for dim, size in enumerate(parameter.shape) if larger[name].shape[dim] != size), None)
        for name, parameter in model.guidance.named_parameters()
    }


def language_parameters(model: Transformer) -> Iterator[tuple[str, int, bool]]:
    """Yield the parameters that have entries per language: name, dimension, and whether they are rows of subwords."""
    yield "embedding.weight", 0, True
    if model.output_bias is not None:
        yield "output_bias", 0, True
    for name, dim in language_dims(model).items():
        if dim is not None:
            yield f"guidance.{name}", dim, False


def _copy_other_weights(model: nn.Module, old: nn.Module) -> None:
    """Copy all weights that depend neither on the vocabulary nor on the guidance."""
    old_weights = old.state_dict()
    for name, tensor in model.state_dict().items():
        if name not in ("embedding.weight", "output_bias") and not name.startswith("guidance."):
            tensor.copy_(old_weights[name])


def _check_same_guidance(model: Transformer, old: Transformer, copied_methods: Sequence[str], model_name: str) -> None:
    """Raise a SettingsError if a method whose parameters are copied has other settings in the old model."""
    has_parameters = {name for name, method in model.guidance.named_methods() if list(method.parameters())}
    old_settings = {method.method: method.model_dump(mode="json") for method in old.methods}
    for method in model.methods:
        if method.method not in has_parameters.intersection(copied_methods):
            continue
        for name, value in method.model_dump(mode="json").items():
            old_value = old_settings[method.method].get(name)
            if name not in FREE_GUIDANCE_SETTINGS and value != old_value:
                raise SettingsError(
                    f"guidance.{method.method}.{name} is {_show(value)}, but {_show(old_value)} in {model_name}, the "
                    f"model of `init`. Use the same value, or remove the section `guidance` to use that of the model."
                )


def _count_subwords(rows: OldRows, new: SubwordModel, old: SubwordModel) -> dict[str, int]:
    """Count what becomes of subwords. Subwords of its own that a language gets are new, even if their text is not."""
    num_new = _count_new_pieces(new.original, old.original)
    for code, added in new.further_languages.items():
        same = old.further_languages.get(code)
        num_new += len(added.ids) if same is None else _count_new_pieces(added, same)
    num_random = sum(not old_rows for old_rows in rows)
    return {
        "copied": len(rows) - num_new,
        "mean": num_new - num_random,
        "random": num_random,
        "dropped": len(set(old.pieces()[UNK + 1 :]).difference(new.pieces())),
    }


def _count_new_pieces(new: SubwordModel, old: SubwordModel) -> int:
    old_pieces = set(old.pieces()[UNK + 1 :])
    return sum(piece not in old_pieces for piece in new.pieces()[UNK + 1 :])


def _format_parts(copied: Sequence[str], new: Sequence[str], dropped: Sequence[str]) -> str:
    parts = {"copied": copied, "new": new, "dropped": dropped}
    return ", ".join(f"{len(names)} {part}{_format_names(names)}" for part, names in parts.items())


def _format_names(names: Sequence[str]) -> str:
    more = ", …" * (len(names) > MAX_LISTED_NAMES)
    return f" ({', '.join(names[:MAX_LISTED_NAMES])}{more})" if names else ""


def _show(value: Any) -> str:
    """Format a value as YAML has it."""
    words = {None: "null", True: "true", False: "false"}
    if isinstance(value, list):
        return f"[{', '.join(map(_show, value))}]"
    return words.get(value, str(value)) if value is None or isinstance(value, bool) else str(value)
