"""URIEL, the database of typological features, read from the data files of the lang2vec package.

NumPy reads the arrays directly. lang2vec itself is never imported, because it fails with current setuptools. The data
is licensed under CC BY-SA 4.0 (Littell et al. 2017).

Shape letters: L languages, F features.
"""

from __future__ import annotations

import os
import sys
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyglot.corpus.language_codes import parse_language_code
from manyglot.corpus.languages import primary_subtag
from manyglot.errors import FolderError, LanguageError, ManyglotError
from manyglot.files import open_regular_file, raise_damaged, read_json_object

URIEL_FOLDER_VARIABLE = "MANYGLOT_URIEL"
"""Environment variable with the path of the URIEL data folder."""
PHOIBLE_SOURCES = tuple(f"PHOIBLE_{part}" for part in ("AA", "GM", "SPA", "PH", "RA", "UPSID"))
FEATURE_GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "syntax": ("S_", ("WALS", "SSWL", "ETHNO")),
    "phonology": ("P_", ("WALS", "ETHNO")),
    "inventory": ("INV_", PHOIBLE_SOURCES),
}
"""Name prefix and sources of each feature group; each source gives one feature set."""
MAX_ARRAY_BYTES = 2**30
"""Size limit of the arrays of a file."""
UNKNOWN_VALUE = -1
"""Marks a feature for which a source has no value."""

FeatureValues = NDArray[np.int8]
Vectors = NDArray[np.float64]


@dataclass(frozen=True)
class BinaryFeatureSet:
    """The features of one group in one source: 0, 1, or `UNKNOWN_VALUE`."""

    group: str
    source: str
    feature_names: tuple[str, ...]
    value_LF: FeatureValues

    @property
    def num_languages_of_best_covered_feature(self) -> int:
        """The number of languages that have a value for the most widely known feature."""
        return int((self.value_LF != UNKNOWN_VALUE).sum(axis=0).max(initial=0))


class ExclusionReason(StrEnum):
    """Why a language of a model is excluded from probing."""

    NOT_IN_URIEL = "not_in_uriel"
    NO_FEATURES = "no_features"
    DUPLICATE = "duplicate"


@dataclass(frozen=True)
class Exclusion:
    """Why one language is excluded, and in favor of which."""

    reason: ExclusionReason
    duplicate_of: str | None = None
    """The language that is probed instead, where both share one URIEL entry."""

    def __str__(self) -> str:
        match self.reason:
            case ExclusionReason.NOT_IN_URIEL:
                return "not in URIEL"
            case ExclusionReason.NO_FEATURES:
                return "no features in URIEL"
            case ExclusionReason.DUPLICATE:
                return f"the same as {self.duplicate_of} in URIEL"

    def to_dict(self) -> dict[str, str]:
        """Return plain values for `--json`."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def exclusions_to_dict(exclusions: Mapping[str, Exclusion]) -> dict[str, dict[str, str]]:
    """Return the excluded languages as plain values for `--json`."""
    return {code: exclusion.to_dict() for code, exclusion in exclusions.items()}


@dataclass(frozen=True)
class UrielLanguages:
    """The languages of a model that match a URIEL entry with features, and the excluded ones."""

    iso_by_code: Mapping[str, str]
    exclusions: Mapping[str, Exclusion]

    @property
    def codes(self) -> tuple[str, ...]:
        """The matched languages, in the model's order."""
        return tuple(self.iso_by_code)


class UrielDatabase:
    """The URIEL database, indexed by ISO 639-3 codes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._arrays_by_file: dict[str, dict[str, NDArray[Any]]] = {}
        arrays = _read_arrays(folder / "features.npz")
        self.feature_names = [str(name) for name in arrays["feats"]]
        self.source_names = [str(name) for name in arrays["sources"]]
        self._row = {str(code): i for i, code in enumerate(arrays["langs"])}
        self._values = arrays["data"].astype(np.int8)

    @cached_property
    def _iso_by_two_letters(self) -> dict[str, str]:
        """ISO 639-1 codes with their ISO 639-3 codes: de is deu, ar is ara."""
        letter_codes = read_json_object(self.folder / "letter_codes.json")
        return {two: str(three) for two, three in letter_codes.items()}

    def find_iso(self, code: str) -> str | None:
        """Return the ISO 639-3 code of a language's URIEL entry, or None.

        Two-letter codes are mapped by the ISO 639-1 table, whose macrolanguage codes (ara, zho) have the most data.
        Three-letter codes are used as they are, unless only the language's canonical code has features: lvs is lav.
        """
        first, usual = primary_subtag(code).lower(), parse_language_code(code).language
        letters = self._iso_by_two_letters
        known = [iso for iso in (letters.get(first), first, letters.get(usual), usual) if iso in self._row]
        return next((iso for iso in known if self.has_features(iso)), known[0] if known else None)

    def has_features(self, iso: str | None) -> bool:
        """Return whether any source has a feature of the language."""
        return iso in self._row and bool((self._values[self._row[iso]] != UNKNOWN_VALUE).any())

    def match_languages(self, codes: Iterable[str]) -> UrielLanguages:
        """Match language codes with URIEL entries.

        Of codes that share an entry (pt, pt-br), the one without region and in the usual script is matched, or else the
        first in code order.
        """
        isos: dict[str, str | None] = {code: self.find_iso(code) for code in codes}
        exclusions: dict[str, Exclusion] = {}
        code_by_iso: dict[str, str] = {}
        for code, iso in sorted(
            isos.items(), key=lambda pair: (not parse_language_code(pair[0]).is_language_only, pair[0])
        ):
            if iso is None:
                exclusions[code] = Exclusion(ExclusionReason.NOT_IN_URIEL)
            elif not self.has_features(iso):
                exclusions[code] = Exclusion(ExclusionReason.NO_FEATURES)
            elif iso in code_by_iso:
                exclusions[code] = Exclusion(ExclusionReason.DUPLICATE, code_by_iso[iso])
            else:
                code_by_iso[iso] = code
        matched = {code: iso for code, iso in isos.items() if iso is not None and code not in exclusions}
        return UrielLanguages(matched, dict(sorted(exclusions.items())))

    def feature_set_per_source(self, isos: Sequence[str], group: str) -> list[BinaryFeatureSet]:
        """Return the feature sets of a group, one per source, without those where no two languages share a feature."""
        columns = self._columns(group)
        names = tuple(self.feature_names[i] for i in columns)
        rows = [self._row[iso] for iso in isos]
        values = self._values[np.ix_(rows, columns)]
        sets = [
            BinaryFeatureSet(group, self.source_names[i], names, values[:, :, i]) for i in self._source_indices(group)
        ]
        return [feature_set for feature_set in sets if feature_set.num_languages_of_best_covered_feature > 1]

    def missing_feature_indices(self, iso: str | None, group: str) -> NDArray[np.intp]:
        """Return the indices, within the group, of the features that no source has for a language."""
        columns = self._columns(group)
        if iso is None:
            return np.arange(len(columns))
        values = self._values[np.ix_([self._row[iso]], columns, self._source_indices(group))]
        return np.flatnonzero((values[0] == UNKNOWN_VALUE).all(axis=1))

    def _columns(self, group: str) -> list[int]:
        return [i for i, name in enumerate(self.feature_names) if name.startswith(FEATURE_GROUPS[group][0])]

    def _source_indices(self, group: str) -> list[int]:
        sources = FEATURE_GROUPS[group][1]
        return [self.source_names.index(source) for source in sources if source in self.source_names]

    def family_and_geography_vectors(self, isos: Sequence[str], center_on: Sequence[str] | None = None) -> Vectors:
        """Return family and geography vectors of languages, concatenated: what is known without any model.

        Each half has unit length. Geography vectors are distances to points all over the earth and resemble each other,
        so the mean over the languages `center_on` (default: `isos`) is subtracted first.
        """
        mean_D = self.geography_vectors(isos if center_on is None else center_on).mean(axis=0)
        geography_LD = to_unit_length(self.geography_vectors(isos) - mean_D)
        return np.concatenate([to_unit_length(self.family_vectors(isos)), geography_LD], axis=1)

    def family_vectors(self, isos: Sequence[str]) -> Vectors:
        """Return the families of languages, from large to small, as indicators: 1 for each family of a language."""
        return self._rows_of("family_features.npz", isos)

    def geography_vectors(self, isos: Sequence[str]) -> Vectors:
        """Return where languages are spoken, as distances to points all over the earth."""
        return self._rows_of("geocoord_features.npz", isos)

    def largest_family_names(self, isos: Sequence[str]) -> list[str]:
        """Return the largest family that each language belongs to, or an empty string."""
        arrays = self._arrays("family_features.npz")
        names = [str(name).removeprefix("F_") for name in arrays["feats"]]
        size_F = arrays["data"][:, :, 0].sum(axis=0)
        belongs_LF = self.family_vectors(isos) > 0
        largest_L = np.argmax(belongs_LF * size_F, axis=1)
        return [names[index] if has_F.any() else "" for index, has_F in zip(largest_L, belongs_LF, strict=True)]

    def merge_sources_by_majority(self, isos: Sequence[str], group: str) -> FeatureValues:
        """Return the majority of the group's sources for each feature; `UNKNOWN_VALUE` where they tie."""
        rows = [self._row[iso] for iso in isos]
        values = self._values[np.ix_(rows, self._columns(group), self._source_indices(group))]
        ones_LF, zeros_LF = (values == 1).sum(axis=2), (values == 0).sum(axis=2)
        return np.where(ones_LF == zeros_LF, UNKNOWN_VALUE, ones_LF > zeros_LF).astype(np.int8)

    def _arrays(self, name: str) -> dict[str, NDArray[Any]]:
        if name not in self._arrays_by_file:
            self._arrays_by_file[name] = _read_arrays(self.folder / name)
        return self._arrays_by_file[name]

    def _rows_of(self, name: str, isos: Sequence[str]) -> Vectors:
        """Return the vectors of languages in a file; zeros for a language that is not in it."""
        arrays = self._arrays(name)
        row = {str(code): i for i, code in enumerate(arrays["langs"])}
        table = arrays["data"][:, :, 0]
        empty = np.zeros(table.shape[1], table.dtype)
        return np.stack([table[row[iso]] if iso in row else empty for iso in isos]).astype(np.float64)


def to_unit_length(vector_LD: Vectors) -> Vectors:
    """Scale vectors to length 1; zero vectors stay zero."""
    length_L1 = np.linalg.norm(vector_LD, axis=-1, keepdims=True)
    return np.asarray(vector_LD / np.where(length_L1 > 0, length_L1, 1))


def find_uriel_folder(folder: Path | None = None) -> Path:
    """Return the URIEL data folder: as given, as set in the environment variable, or in the installed package."""
    if folder is None and os.environ.get(URIEL_FOLDER_VARIABLE):
        folder = Path(os.environ[URIEL_FOLDER_VARIABLE])
    if folder is not None:
        if not (folder / "features.npz").is_file():
            raise FolderError(f"{folder} has no features.npz. Give the `data` folder of the lang2vec package.")
        return folder
    # The package is located without importing it, which fails on recent versions of setuptools. `find_spec` would find
    # the script lang2vec.py that the wheel puts beside `manyglot` in the environment's bin folder.
    for location in sys.path:
        if (data := Path(location, "lang2vec", "data")).joinpath("features.npz").is_file():
            return data
    raise ManyglotError(
        "URIEL needs the lang2vec package, which is not installed. Run pip install 'manyglot[typology]', "
        f"or set {URIEL_FOLDER_VARIABLE} to the path of its data folder."
    )


def load_uriel(folder: Path | None = None) -> UrielDatabase:
    """Load URIEL from a folder, or from where `find_uriel_folder` finds it."""
    return UrielDatabase(find_uriel_folder(folder))


def require_two_languages(matched: UrielLanguages) -> UrielLanguages:
    """Return the matched languages; raise if there are fewer than two."""
    if len(matched.codes) < 2:
        reasons = ", ".join(f"{code} ({exclusion})" for code, exclusion in matched.exclusions.items())
        raise LanguageError(f"Probing needs at least two languages with features in URIEL. Excluded: {reasons}.")
    return matched


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Load the arrays of a file; pickled objects are refused, so no code can run."""
    try:
        with open_regular_file(path) as file:
            if sum(entry.file_size for entry in zipfile.ZipFile(file).infolist()) > MAX_ARRAY_BYTES:
                raise ValueError("its arrays are too large")
            file.seek(0)
            with np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in ("data", "feats", "langs", "sources")}
        data, shapes = arrays["data"], [arrays[name].shape for name in ("langs", "feats", "sources")]
        if data.ndim != 3 or not data.size or [(size,) for size in data.shape] != shapes:
            raise ValueError("the shapes of its arrays do not agree")
        if not (np.issubdtype(data.dtype, np.floating) and np.isfinite(data).all()):
            raise ValueError("its values are not finite numbers")
    except (LookupError, ValueError, EOFError, RuntimeError, MemoryError, zlib.error, zipfile.BadZipFile) as error:
        raise_damaged(path, error)
    return arrays
