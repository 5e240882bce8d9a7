"""Language packs: what a model needs for further languages, in a small folder beside the model.

pack.json              languages, trained directions, the fingerprint of the model, the seals of the other files
weights.safetensors    the rows of the subwords and tags, and the guidance of each language, in 8-bit integers
subwords.CODE.model    the subword model of each language

A pack changes no weight of the model. It belongs to one model, which its fingerprint identifies.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyglot.checksums import FileSeal, find_wrong_size, parse_seals, seal_files
from manyglot.corpus.languages import Direction, Languages, check_language_code
from manyglot.errors import FolderError, LanguageError
from manyglot.files import StrPath, check_links
from manyglot.folders import atomic_folder
from manyglot.model.meta_device import meta_device
from manyglot.model.model_folder import TrainedModel
from manyglot.model.model_seals import REQUIRED_SECTIONS, ModelSeals
from manyglot.model.quantized_weights import dequantize, quantize
from manyglot.model.run_models import load_any_model
from manyglot.model.transformer import Transformer
from manyglot.model.warm_start import copy_weights, language_parameters, match_languages
from manyglot.model.weights_file import read_tensors, read_weights_header, save_tensors
from manyglot.sealed_json import read_sealed_json, write_sealed_json
from manyglot.vocabulary.extended_model import ExtendedModel
from manyglot.vocabulary.loading import load_subword_model
from manyglot.vocabulary.subword_model import UNK, SubwordModel
from manyglot.vocabulary.vocabulary import Vocabulary

PACK_FORMAT = 1
PACK_NAME, PACK_KIND, WEIGHTS_NAME = "pack.json", "language pack", "weights.safetensors"
MAX_PACK_BYTES, MAX_SUBWORDS_BYTES = 2**20, 2**25
TRAINING_SUFFIX = ".training"
"""Ends the name of the folder in which a pack is trained. It lies beside the pack."""
FINGERPRINTED_FILES = ("model.safetensors", "subwords.model", "languages.json")


@dataclass(frozen=True)
class PackedLanguage:
    """One language of a pack."""

    subword_model: SubwordModel
    weights: Mapping[str, Tensor]
    """The rows of its subwords and, last, of its tag under the name of each table; its entry of each guidance
    parameter under the name of the parameter."""


@dataclass(frozen=True)
class LanguagePack:
    """Further languages for a model."""

    languages: Mapping[str, PackedLanguage]
    trained_directions: tuple[Direction, ...]
    model_fingerprint: str
    training_info: Mapping[str, Any]
    folder: Path | None = None
    """The folder it was loaded from."""

    @classmethod
    def extract(cls, trained: TrainedModel, codes: Sequence[str], original: TrainedModel) -> LanguagePack:
        """Take languages out of a model that was trained from the original model with everything else frozen."""
        languages, further = trained.vocabulary.languages, trained.vocabulary.subword_model.further_languages
        weights = trained.model.state_dict()
        packed = {}
        for code in codes:
            language, rows = languages.id(code), [*further[code].ids, trained.vocabulary.tag_id(languages.id(code))]
            entries = {
                name: weights[name].index_select(dim, torch.tensor(rows if is_table else [language]))
                for name, dim, is_table in language_parameters(trained.model)
            }
            packed[code] = PackedLanguage(further[code].model, entries)
        style = match_languages(languages, original.vocabulary.languages) | dict(zip(codes, codes, strict=True))
        directions = tuple(
            Direction(style[source], style[target])
            for source, target in trained.trained_directions
            if not {source, target}.isdisjoint(codes)
        )
        return cls(packed, directions, fingerprint(original), trained.training_info)

    def save(self, folder: Path) -> None:
        """Write the pack atomically."""
        weights = {
            f"{code}/{name}": tensor
            for code, language in self.languages.items()
            for name, tensor in language.weights.items()
        }
        with atomic_folder(folder) as unfinished:
            save_tensors(unfinished / WEIGHTS_NAME, quantize(weights))
            for code, language in self.languages.items():
                language.subword_model.save(unfinished / _subwords_name(code))
            values = {
                "format": PACK_FORMAT,
                "languages": list(self.languages),
                "trained_directions": [list(direction) for direction in self.trained_directions],
                "model": self.model_fingerprint,
                "training": dict(self.training_info),
                "files": seal_files(unfinished, _file_names(self.languages)),
            }
            write_sealed_json(unfinished / PACK_NAME, PACK_KIND, values)

    @classmethod
    def load(cls, folder: Path) -> LanguagePack:
        """Read a pack, which may come from an untrusted source. Every defect raises a FolderError."""
        check_links(folder, (PACK_NAME,))
        if not (folder / PACK_NAME).exists():
            raise FolderError(_explain_missing_pack(folder))
        values = read_sealed_json(folder / PACK_NAME, PACK_KIND, MAX_PACK_BYTES)
        if values.get("format") != PACK_FORMAT:
            raise FolderError(f"{folder} has another pack format than {PACK_FORMAT}. Upgrade manyglot to use it.")
        try:
            codes = [check_language_code(code) for code in values["languages"]]
            directions = tuple(Direction(source, target) for source, target in values["trained_directions"])
            seals = parse_seals(values["files"], _file_names(codes))
            model_fingerprint, training_info = str(values["model"]), dict(values["training"])
        except (LanguageError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise FolderError(f"{folder / PACK_NAME} is damaged ({str(error)[:200]}).") from None
        _check_files(folder, seals, _file_names(codes))
        models = {code: load_subword_model(folder / _subwords_name(code), MAX_SUBWORDS_BYTES) for code in codes}
        weights = _read_weights(folder / WEIGHTS_NAME, codes)
        languages = {code: PackedLanguage(model, weights[code]) for code, model in models.items()}
        return cls(languages, directions, model_fingerprint, training_info, folder)


def fingerprint(trained: TrainedModel) -> str:
    """Return what identifies a model folder: a checksum of everything that decides what the model computes."""
    if trained.folder is None:
        raise FolderError("A language pack belongs to a model folder. Save the model first.")
    seals = ModelSeals.read(trained.folder)
    files = {name: seals.files[name].sha256 for name in FINGERPRINTED_FILES}
    sections = {name: seals.sections[name] for name in REQUIRED_SECTIONS}
    return hashlib.sha256(json.dumps([files, sections], sort_keys=True).encode("ascii")).hexdigest()


def add_packs(original: TrainedModel, packs: Sequence[LanguagePack]) -> TrainedModel:
    """Return the model with the languages of some packs. It shares its layers with the original model.

    Neither the order of the packs nor other packs change what a pack computes.
    """
    if not packs:
        return original
    _check_fit(original, packs)
    added = dict(sorted(chain.from_iterable(pack.languages.items() for pack in packs)))
    subword_model = ExtendedModel(
        original.vocabulary.subword_model, {code: language.subword_model for code, language in added.items()}
    )
    vocabulary = Vocabulary(subword_model, Languages([*original.vocabulary.languages, *added]))
    with meta_device():
        model = Transformer(
            original.model.settings, original.model.methods, len(subword_model), len(vocabulary.languages)
        )
    model.to_empty(device=original.model.embedding.weight.device)
    copy_weights(original, model, vocabulary, "the model")
    for code, language in added.items():
        _fill_language(model, vocabulary, code, language.weights)
    for name in ("encoder", "decoder"):
        setattr(model, name, getattr(original.model, name))
    directions = chain.from_iterable(pack.trained_directions for pack in packs)
    return replace(
        original,
        model=model.eval(),
        vocabulary=vocabulary,
        trained_directions=tuple(dict.fromkeys([*original.trained_directions, *directions])),
        targets=None if original.targets is None else tuple(sorted([*original.targets, *added])),
        original=original,
        pack_folders=tuple(pack.folder for pack in packs if pack.folder is not None),
    )


def load_with_packs(model: Path, packs: Sequence[StrPath]) -> TrainedModel:
    """Load a model folder, a run or a checkpoint with language packs."""
    if isinstance(packs, str):
        raise FolderError(f"packs should be a list of folders. Write [{packs!r}].")
    return add_packs(load_any_model(model), [LanguagePack.load(Path(pack)) for pack in packs])


def _check_fit(original: TrainedModel, packs: Sequence[LanguagePack]) -> None:
    """Raise an error if a pack belongs to another model, or if a language is given twice."""
    owner: dict[str, str] = dict.fromkeys(original.vocabulary.languages, "the model has it already")
    expected = original.model.state_dict()
    model_fingerprint = fingerprint(original)
    for pack in packs:
        if pack.model_fingerprint != model_fingerprint:
            raise FolderError(
                f"{pack.folder} belongs to another model than {original.folder}. A pack fits only the model that it "
                f"was trained from."
            )
        for code, language in pack.languages.items():
            if code in owner:
                raise LanguageError(f"{pack.folder} adds the language '{code}', but {owner[code]}.")
            owner[code] = f"so does {pack.folder}"
            parameters = {name: (dim, is_table) for name, dim, is_table in language_parameters(original.model)}
            if parameters.keys() != language.weights.keys():
                raise FolderError(f"{pack.folder} is damaged: it does not have the weights that the model needs.")
            for name, (dim, is_table) in parameters.items():
                shape = list(expected[name].shape)
                shape[dim] = len(language.subword_model) - UNK if is_table else 1
                if list(language.weights[name].shape) != shape or not language.weights[name].isfinite().all():
                    raise FolderError(f"{pack.folder} is damaged: {name} does not fit the model.")


@torch.no_grad()
def _fill_language(model: Transformer, vocabulary: Vocabulary, code: str, weights: Mapping[str, Tensor]) -> None:
    """Copy the weights of a language into a model."""
    language, parameters = vocabulary.languages.id(code), dict(model.named_parameters())
    rows = [*vocabulary.subword_model.further_languages[code].ids, vocabulary.tag_id(language)]
    for name, dim, is_table in language_parameters(model):
        parameter = parameters[name]
        indices = torch.tensor(rows if is_table else [language], device=parameter.device)
        parameter.index_copy_(dim, indices, weights[name].to(parameter))


def _explain_missing_pack(folder: Path) -> str:
    """Say why a path is not that of a pack."""
    pack = folder.with_name(folder.name.removesuffix(TRAINING_SUFFIX))
    if folder != pack and (folder / "run").exists():
        return f"{folder} is not a language pack, but the folder of its training. The pack is {pack}."
    if folder.exists():
        return f"{folder} is not a language pack (it has no {PACK_NAME})."
    several = " To use several packs, repeat --pack." if "," in str(folder) else ""
    return f"{folder} does not exist.{several}"


def _check_files(folder: Path, seals: Mapping[str, FileSeal], names: Iterable[str]) -> None:
    """Raise a FolderError unless the files are those that were saved."""
    expected = {name: seals[name] for name in names}
    wrong = find_wrong_size(folder, expected)
    wrong = wrong or next((name for name, seal in expected.items() if FileSeal.of(folder / name) != seal), None)
    if wrong is not None:
        problem = "was altered or damaged since it was saved" if (folder / wrong).exists() else "is missing"
        raise FolderError(f"{folder / wrong} {problem}. Copy the pack again.")


def _read_weights(path: Path, codes: Sequence[str]) -> dict[str, dict[str, Tensor]]:
    """Read the weights of each language. Raise a FolderError if there are others."""
    read_weights_header(path)
    weights: dict[str, dict[str, Tensor]] = {code: {} for code in codes}
    try:
        for name, tensor in dequantize(read_tensors(path)).items():
            code, _, parameter = name.partition("/")
            weights[code][parameter] = tensor
    except (KeyError, ValueError) as error:
        raise FolderError(f"{path} is damaged: it has unexpected weights ({error}).") from None
    return weights


def _file_names(codes: Iterable[str]) -> list[str]:
    return [WEIGHTS_NAME, *map(_subwords_name, codes)]


def _subwords_name(code: str) -> str:
    return f"subwords.{code}.model"
