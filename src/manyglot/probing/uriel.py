"""URIEL, the database of typological features, from the files of the package lang2vec.

Only its arrays are read, with numpy: the package itself is not imported, for it does not start with current setuptools.
The data has the licence CC BY-SA 4.0 (Littell et al. 2017).

Shape letters: L languages, F features.
"""

from __future__ import annotations

import importlib.util
import json
import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyglot.corpus.languages import primary
from manyglot.corpus.lookup import read_code
from manyglot.errors import FolderError, LanguageError, ManyglotError

VARIABLE = "MANYGLOT_URIEL"
"""The environment variable that names another folder of data."""
PHOIBLE = tuple(f"PHOIBLE_{part}" for part in ("AA", "GM", "SPA", "PH", "RA", "UPSID"))
GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "syntax": ("S_", ("WALS", "SSWL", "ETHNO")),
    "phonology": ("P_", ("WALS", "ETHNO")),
    "inventory": ("INV_", PHOIBLE),
}
"""The groups of features: how their names begin, and the sources whose values are a set each."""
UNKNOWN = -1
"""The value of a feature that a source does not have."""

Values = NDArray[np.int8]
Vectors = NDArray[np.float64]


@dataclass(frozen=True)
class FeatureSet:
    """The features of a group in one source: 0, 1, or -1 where it has no value."""

    group: str
    source: str
    features: tuple[str, ...]
    value_LF: Values

    @property
    def num_languages(self) -> int:
        """How many languages have the feature that most of them have."""
        return int((self.value_LF != UNKNOWN).sum(axis=0).max(initial=0))


class ExclusionReason(StrEnum):
    """Why a language of a model is not probed."""

    NOT_IN_URIEL = "not_in_uriel"
    NO_FEATURES = "no_features"
    DUPLICATE = "duplicate"


@dataclass(frozen=True)
class Exclusion:
    """A language that is not probed."""

    reason: ExclusionReason
    duplicate_of: str | None = None
    """The language that stands for it, where URIEL has one entry for both."""

    def __str__(self) -> str:
        match self.reason:
            case ExclusionReason.NOT_IN_URIEL:
                return "not in URIEL"
            case ExclusionReason.NO_FEATURES:
                return "no features in URIEL"
            case ExclusionReason.DUPLICATE:
                return f"the same as {self.duplicate_of} in URIEL"

    def as_json(self) -> dict[str, str]:
        """For `--json`."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def exclusions_as_json(left_out: Mapping[str, Exclusion]) -> dict[str, dict[str, str]]:
    """The excluded languages for `--json`."""
    return {code: exclusion.as_json() for code, exclusion in left_out.items()}


@dataclass(frozen=True)
class Located:
    """The languages of a model that URIEL has, by the model's codes, and why the others are left out."""

    iso_of: Mapping[str, str]
    left_out: Mapping[str, Exclusion]

    @property
    def codes(self) -> tuple[str, ...]:
        """Those that are probed, in the model's order."""
        return tuple(self.iso_of)


class Uriel:
    """The database, by ISO 639-3 codes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, dict[str, NDArray[Any]]] = {}
        arrays = _read_arrays(folder / "features.npz")
        self.features = [str(name) for name in arrays["feats"]]
        self.sources = [str(name) for name in arrays["sources"]]
        self._row = {str(code): i for i, code in enumerate(arrays["langs"])}
        self._values = arrays["data"].astype(np.int8)
        if self._values.shape != (len(self._row), len(self.features), len(self.sources)):
            raise FolderError(f"{folder / 'features.npz'} is damaged: its arrays do not fit each other.")

    @cached_property
    def _iso_of_letters(self) -> dict[str, str]:
        """The table of ISO 639-1: de is deu, ar is ara."""
        path = self.folder / "letter_codes.json"
        try:
            return {str(two): str(three) for two, three in json.loads(path.read_text("utf-8")).items()}
        except (OSError, ValueError, AttributeError) as error:
            raise FolderError(f"Cannot read {path}: {error}.") from None

    def iso(self, code: str) -> str | None:
        """The ISO 639-3 code under which URIEL has a language, or nothing.

        Two letters go by the table of ISO 639-1, whose codes of macro-languages (ara, zho) have the most data. Three
        letters are taken as they are, unless only the language's usual code has features: lvs is lav.
        """
        first, usual = primary(code).lower(), read_code(code).language
        letters = self._iso_of_letters
        known = [iso for iso in (letters.get(first), first, letters.get(usual), usual) if iso in self._row]
        return next((iso for iso in known if self.has_features(iso)), known[0] if known else None)

    def has_features(self, iso: str | None) -> bool:
        """Whether any source has any feature of a language."""
        return iso in self._row and bool((self._values[self._row[iso]] != UNKNOWN).any())

    def locate(self, codes: Iterable[str]) -> Located:
        """Find languages. Of several that are one in URIEL (pt, pt-br) the plain code stays, or else the first."""
        isos: dict[str, str | None] = {code: self.iso(code) for code in codes}
        left_out: dict[str, Exclusion] = {}
        chosen: dict[str, str] = {}
        for code, iso in sorted(isos.items(), key=lambda pair: (pair[0] != primary(pair[0]), pair[0])):
            if iso is None:
                left_out[code] = Exclusion(ExclusionReason.NOT_IN_URIEL)
            elif not self.has_features(iso):
                left_out[code] = Exclusion(ExclusionReason.NO_FEATURES)
            elif iso in chosen:
                left_out[code] = Exclusion(ExclusionReason.DUPLICATE, chosen[iso])
            else:
                chosen[iso] = code
        kept = {code: iso for code, iso in isos.items() if iso is not None and code not in left_out}
        return Located(kept, dict(sorted(left_out.items())))

    def feature_sets(self, isos: Sequence[str], group: str) -> list[FeatureSet]:
        """The sets of a group for some languages; one in which no two have a common feature says nothing."""
        columns, there = self._columns(group), [s for s in GROUPS[group][1] if s in self.sources]
        names = tuple(self.features[i] for i in columns)
        rows = [self._row[iso] for iso in isos]
        values = self._values[np.ix_(rows, columns)]
        found = [FeatureSet(group, source, names, values[:, :, self.sources.index(source)]) for source in there]
        return [each for each in found if each.num_languages > 1]

    def missing(self, iso: str | None, group: str) -> NDArray[np.intp]:
        """The places of a group's features that none of its sources has of a language."""
        columns, there = self._columns(group), [s for s in GROUPS[group][1] if s in self.sources]
        if iso is None:
            return np.arange(len(columns))
        values = self._values[np.ix_([self._row[iso]], columns, [self.sources.index(source) for source in there])]
        return np.flatnonzero((values[0] == UNKNOWN).all(axis=1))

    def _columns(self, group: str) -> list[int]:
        return [i for i, name in enumerate(self.features) if name.startswith(GROUPS[group][0])]

    def family_and_geography(self, isos: Sequence[str], among: Sequence[str] | None = None) -> Vectors:
        """Vectors of what is known of languages without any model: their families, and where they are spoken.

        Both halves have the length 1. Vectors of geography are distances to points all over the earth and much alike,
        so what all languages `among` which these are have in common is taken off.
        """
        place_LD, common_D = self.places(isos), self.places(isos if among is None else among).mean(axis=0)
        return np.concatenate([unit(self.families(isos)), unit(place_LD - common_D)], axis=1)

    def families(self, isos: Sequence[str]) -> Vectors:
        """The families of languages, large and small: 1 for each that a language belongs to."""
        return self._rows_of("family_features.npz", isos)

    def places(self, isos: Sequence[str]) -> Vectors:
        """Where languages are spoken, as distances to points all over the earth."""
        return self._rows_of("geocoord_features.npz", isos)

    def largest_family(self, isos: Sequence[str]) -> list[str]:
        """The family of each language that has the most languages in the world, or nothing."""
        arrays = self._arrays("family_features.npz")
        names = [str(name).removeprefix("F_") for name in arrays["feats"]]
        size_F = arrays["data"][:, :, 0].sum(axis=0)
        belongs_LF = self.families(isos) > 0
        largest_L = np.argmax(belongs_LF * size_F, axis=1)
        return [names[place] if has_F.any() else "" for place, has_F in zip(largest_L, belongs_LF, strict=True)]

    def together(self, isos: Sequence[str], group: str) -> Values:
        """What the sources of a group say together: the value that more of them have, none where it is a draw."""
        columns, there = self._columns(group), [s for s in GROUPS[group][1] if s in self.sources]
        rows, layers = [self._row[iso] for iso in isos], [self.sources.index(source) for source in there]
        values = self._values[np.ix_(rows, columns, layers)]
        ones_LF, zeros_LF = (values == 1).sum(axis=2), (values == 0).sum(axis=2)
        return np.where(ones_LF == zeros_LF, UNKNOWN, ones_LF > zeros_LF).astype(np.int8)

    def _arrays(self, name: str) -> dict[str, NDArray[Any]]:
        if name not in self._read:
            self._read[name] = _read_arrays(self.folder / name)
        return self._read[name]

    def _rows_of(self, name: str, isos: Sequence[str]) -> Vectors:
        """The vectors of languages in a file; of one that it does not have, zeros."""
        arrays = self._arrays(name)
        row = {str(code): i for i, code in enumerate(arrays["langs"])}
        table = arrays["data"][:, :, 0]
        empty = np.zeros(table.shape[1], table.dtype)
        return np.stack([table[row[iso]] if iso in row else empty for iso in isos]).astype(np.float64)


def unit(vector_LD: Vectors) -> Vectors:
    """Vectors of length 1 in the same directions; zeros stay zeros."""
    length_L1 = np.linalg.norm(vector_LD, axis=-1, keepdims=True)
    return np.asarray(vector_LD / np.where(length_L1 > 0, length_L1, 1))


def find_data(folder: Path | None = None) -> Path:
    """The folder of URIEL's files: the one given, that of the environment, or the installed package's."""
    if folder is None and os.environ.get(VARIABLE):
        folder = Path(os.environ[VARIABLE])
    if folder is not None:
        if not (folder / "features.npz").is_file():
            raise FolderError(f"{folder} has no features.npz. Give the folder `data` of the package lang2vec.")
        return folder
    package = importlib.util.find_spec("lang2vec")  # finds it without running any of it
    for place in (package.submodule_search_locations or ()) if package else ():
        if (Path(place) / "data" / "features.npz").is_file():
            return Path(place) / "data"
    raise ManyglotError(
        "The typological features of URIEL are in the package lang2vec, which is not installed: "
        f"pip install 'manyglot[typology]', or name the folder of its data in {VARIABLE}."
    )


def read_uriel(folder: Path | None = None) -> Uriel:
    """Read the database from a folder, or from where it is installed."""
    return Uriel(find_data(folder))


def require(located: Located) -> Located:
    """Refuse languages of which nothing is known."""
    if len(located.codes) < 2:
        reasons = ", ".join(f"{code} ({why})" for code, why in located.left_out.items())
        raise LanguageError(f"At least two languages need features in URIEL. Left out: {reasons}.")
    return located


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file; nothing in it can execute."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in ("data", "feats", "langs", "sources")}
    except (OSError, ValueError, LookupError, EOFError, zipfile.BadZipFile) as error:
        raise FolderError(f"Cannot read {path}: {error}.") from None
