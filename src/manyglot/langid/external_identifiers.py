"""Adapters for third-party language identification packages.

py3langid is always installed and fast. langid and langdetect are the paper's identifiers (for TED-59 and OPUS-100), and
pycld2 is the fastest; these three are optional dependencies. Every adapter makes two predictions: the most likely of
all languages that the package knows (unrestricted), and the most likely of the languages of the data (restricted).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from manyglot.corpus.languages import Languages
from manyglot.errors import ManyglotError
from manyglot.langid.identifier import RESTRICTED, SEPARATE_VARIANTS, UNRESTRICTED, LanguagePredictions
from manyglot.langid.labels import LanguageLabels
from manyglot.langid.naive_bayes import NaiveBayes, load_langid_model, load_py3langid_model

LANGDETECT_SEED = 0
"""langdetect samples at random; the paper fixes its seed to 0."""


class ExternalIdentifier(ABC):
    """Base class of the adapters.

    `restrict_to_data_languages` selects the prediction that counts; `merge_language_variants` merges near-identical
    languages.
    """

    package_name: str
    min_letters = 16

    def __init__(
        self, languages: Languages, restrict_to_data_languages: bool = True, merge_language_variants: bool = False
    ) -> None:
        self.is_restricted = restrict_to_data_languages
        candidates = RESTRICTED if restrict_to_data_languages else UNRESTRICTED
        variants = [] if merge_language_variants else [SEPARATE_VARIANTS]
        self.signature = ":".join([self.package_name, candidates, *variants])
        self._labels = LanguageLabels(languages, self._load_model(), merge_language_variants)
        if not self._labels.by_language:
            raise ManyglotError(
                f"{self.package_name} knows none of the languages of the data. "
                f"Set evaluation.language_identifier to profile or fasttext:PATH."
            )

    def label_for(self, code: str) -> str | None:
        """Return the label that predictions use for a language; None if the package does not know it."""
        return self._labels.by_language.get(code)

    def identify(self, text: str) -> str:
        """Return the label of one text."""
        predictions = self.identify_batch([text])
        return (predictions.restricted if self.is_restricted else predictions.unrestricted)[0]

    def identify_batch(self, texts: Sequence[str]) -> LanguagePredictions:
        """Return the labels of many texts; repeated texts are identified once."""
        unique_texts = [text for text in dict.fromkeys(texts) if text.strip()]
        predictions = self._predict(unique_texts)
        label_pairs = zip(predictions.restricted, predictions.unrestricted, strict=True)
        labels_by_text = dict(zip(unique_texts, label_pairs, strict=True))
        no_labels = ("", "")
        return LanguagePredictions(*([labels_by_text.get(text, no_labels)[i] for text in texts] for i in range(2)))

    @abstractmethod
    def _load_model(self) -> Iterable[str]:
        """Load the model and return the codes of all languages that it knows."""

    @abstractmethod
    def _predict(self, texts: Sequence[str]) -> LanguagePredictions: ...

    def _best_labels(self, ranked_codes: Sequence[str], text: str) -> tuple[str, str]:
        """Return the restricted and the unrestricted label; codes are sorted by decreasing probability."""
        labels = [self._labels.of_prediction(code, text) for code in ranked_codes]
        return next((label for label in labels if label in self._labels.of_data), ""), labels[0] if labels else ""


class _NaiveBayesIdentifier(ExternalIdentifier):
    """An identifier that scores every language by Naive Bayes."""

    load_naive_bayes: Callable[[], NaiveBayes]

    def _load_model(self) -> Iterable[str]:
        self._model = type(self).load_naive_bayes()
        return self._model.labels

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the model, which another process loads faster than it receives its 160 MB."""
        return {name: value for name, value in self.__dict__.items() if name != "_model"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._load_model()

    def _predict(self, texts: Sequence[str]) -> LanguagePredictions:
        codes = self._model.labels
        data_columns = [i for i, code in enumerate(codes) if self._labels.may_be_of_data(code)]
        scores, has_features = self._model.score_labels(texts)
        best_of_data = scores[:, data_columns].argmax(axis=1).tolist() if texts else []
        best_of_all = scores.argmax(axis=1).tolist() if texts else []
        return LanguagePredictions(
            self._labels_of([data_columns[i] for i in best_of_data], texts, has_features),
            self._labels_of(best_of_all, texts, has_features),
        )

    def _labels_of(self, columns: Sequence[int], texts: Sequence[str], has_features: Sequence[bool]) -> list[str]:
        codes = self._model.labels
        return [
            self._labels.of_prediction(codes[column], text) if known else ""
            for column, text, known in zip(columns, texts, has_features, strict=True)
        ]


class Py3LangidIdentifier(_NaiveBayesIdentifier):
    """py3langid: about 140 languages."""

    package_name = "py3langid"
    load_naive_bayes = staticmethod(load_py3langid_model)


class LangidIdentifier(_NaiveBayesIdentifier):
    """langid: 97 languages; the paper's choice for TED-59."""

    package_name = "langid"

    @staticmethod
    def load_naive_bayes() -> NaiveBayes:
        """Load the model; raise an error if langid is not installed."""
        try:
            return load_langid_model()
        except ImportError:
            raise missing_package_error("langid") from None


class LangdetectIdentifier(ExternalIdentifier):
    """langdetect: 55 languages; the paper's choice for OPUS-100, with a fixed seed. Slow."""

    package_name = "langdetect"

    def _load_model(self) -> Iterable[str]:
        try:
            from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory
        except ImportError:
            raise missing_package_error("langdetect") from None
        self._factory = DetectorFactory()
        self._factory.load_profile(PROFILES_DIRECTORY)
        self._factory.set_seed(LANGDETECT_SEED)
        return [str(code) for code in self._factory.get_lang_list()]

    def _predict(self, texts: Sequence[str]) -> LanguagePredictions:
        pairs = [self._best_labels(self._ranked_codes(text), text) for text in texts]
        return LanguagePredictions([restricted for restricted, _ in pairs], [unrestricted for _, unrestricted in pairs])

    def _ranked_codes(self, text: str) -> list[str]:
        from langdetect.lang_detect_exception import LangDetectException

        detector = self._factory.create()
        detector.append(text)
        try:
            return [str(candidate.lang) for candidate in detector.get_probabilities()]
        except LangDetectException:  # text without letters
            return []


class Pycld2Identifier(ExternalIdentifier):
    """pycld2: 165 languages; the fastest."""

    package_name = "pycld2"

    def _load_model(self) -> Iterable[str]:
        cld2 = _import_pycld2()
        return [code for name, code in cld2.LANGUAGES if name in set(cld2.DETECTED_LANGUAGES)]

    def _predict(self, texts: Sequence[str]) -> LanguagePredictions:
        cld2, pairs = _import_pycld2(), []
        for text in texts:
            try:
                candidates = cld2.detect(text, isPlainText=True, bestEffort=True)[2]
            except (cld2.error, UnicodeError):  # pycld2 rejects control characters
                candidates = ()
            pairs.append(self._best_labels([code for _, code, *_ in candidates if code != "un"], text))
        return LanguagePredictions([restricted for restricted, _ in pairs], [unrestricted for _, unrestricted in pairs])


def _import_pycld2() -> Any:
    try:
        import pycld2
    except ImportError:
        raise missing_package_error("pycld2") from None
    return pycld2


def missing_package_error(package_name: str) -> ManyglotError:
    """Return the error of an optional identifier that is not installed."""
    return ManyglotError(
        f"evaluation.language_identifier: {package_name} is not installed: pip install 'manyglot[{package_name}]'."
    )


EXTERNAL_IDENTIFIERS: dict[str, type[ExternalIdentifier]] = {
    identifier.package_name: identifier
    for identifier in (Py3LangidIdentifier, LangidIdentifier, LangdetectIdentifier, Pycld2Identifier)
}
