"""Identifies languages by a fastText model of the user, such as GlotLID, OpenLID or lid.176.

The model is a file that the user downloads; `fasttext-predict`, an optional dependency, runs it. Labels in any style of
language codes, such as `__label__deu_Latn` or `__label__de`, are matched to the languages of the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from manyglot.checksums import file_sha256
from manyglot.corpus.languages import Languages
from manyglot.errors import FolderError
from manyglot.langid.external_identifiers import ExternalIdentifier, missing_package_error
from manyglot.langid.fasttext_file import LABEL_PREFIX, read_fasttext_labels
from manyglot.langid.identifier import LanguagePredictions

FASTTEXT_PREFIX = "fasttext:"
"""`evaluation.language_identifier: fasttext:PATH` names a model file."""
FIRST_CANDIDATES = 4
"""Number of labels to predict at first; more only if no language of the data is among them."""
_NO_THRESHOLD = -1.0
"""With a threshold of 0, hierarchical softmax leaves out labels below 1e-5."""
_NUM_SIGNATURE_DIGITS = 8


class FastTextIdentifier(ExternalIdentifier):
    """A fastText model of any languages."""

    def __init__(
        self,
        path: Path,
        languages: Languages,
        restrict_to_data_languages: bool = True,
        merge_language_variants: bool = False,
    ) -> None:
        self._path, self._model_labels = path, read_fasttext_labels(path)
        self._sha256 = file_sha256(path)
        file_name = re.sub("[^A-Za-z0-9._-]", "_", path.name)
        self.package_name = f"{FASTTEXT_PREFIX}{file_name}@{self._sha256[:_NUM_SIGNATURE_DIGITS]}"
        super().__init__(languages, restrict_to_data_languages, merge_language_variants)

    def _load_model(self) -> Iterable[str]:
        _load_fasttext(self._path, self._sha256)
        return self._model_labels

    def _predict(self, texts: Sequence[str]) -> LanguagePredictions:
        pairs = [self._identify_line(_as_line(text)) for text in texts]
        return LanguagePredictions([restricted for restricted, _ in pairs], [unrestricted for _, unrestricted in pairs])

    def _identify_line(self, line: str) -> tuple[str, str]:
        num_candidates = min(FIRST_CANDIDATES, len(self._model_labels))
        while True:
            restricted, unrestricted = self._best_labels(self._ranked_codes(line, num_candidates), line)
            if restricted or num_candidates == len(self._model_labels):
                return restricted, unrestricted
            num_candidates = min(num_candidates * 8, len(self._model_labels))

    def _ranked_codes(self, line: str, num_candidates: int) -> list[str]:
        model = _load_fasttext(self._path, self._sha256)
        try:
            labels, _ = model.predict(line, k=num_candidates, threshold=_NO_THRESHOLD)
        except (RuntimeError, ValueError) as error:
            raise FolderError(f"{self._path} cannot identify text ({error}). Download or train it again.") from None
        return [label.removeprefix(LABEL_PREFIX) for label in labels]


@cache
def _load_fasttext(path: Path, sha256: str) -> Any:
    """Load a verified model once per process and content. Worker processes load it again, as it cannot be pickled."""
    try:
        import fasttext
    except ImportError:
        raise missing_package_error("fasttext") from None
    try:
        return fasttext.load_model(str(path))
    except (RuntimeError, ValueError, MemoryError) as error:
        raise FolderError(f"{path} cannot be loaded by fastText ({error}).") from None


def _as_line(text: str) -> str:
    """Return text that fastText accepts: on one line and without surrogates."""
    return text.replace("\n", " ").encode("utf-8", "replace").decode("utf-8")
