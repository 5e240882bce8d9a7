"""General tools that tell the language of a text, each for many texts at once.

py3langid is always there and fast. langid and langdetect are those of the paper (for TED-59 and OPUS-100), pycld2 is
another fast one; they are installed only if asked for. Each gives two answers: the likeliest of all the languages it
knows (open), and the likeliest of those of the data (restricted).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from manyglot.corpus.languages import Languages
from manyglot.errors import ManyglotError
from manyglot.langid.identifier import OPEN, RESTRICTED, VARIANTS_APART, Told
from manyglot.langid.naive_bayes import NaiveBayes, langid_model, py3langid_model
from manyglot.langid.variants import is_known, label_of

LANGDETECT_SEED = 0
"""langdetect draws at random; the paper fixes its seed to 0."""


class Tool(ABC):
    """A general tool; `restrict` says which of its two answers counts, `merge` whether near variants are one."""

    tool: str
    fewest_letters = 16

    def __init__(self, languages: Languages, restrict: bool = True, merge: bool = False) -> None:
        self.restrict, self._merge = restrict, merge
        self.name = ":".join([self.tool, RESTRICTED if restrict else OPEN, *([] if merge else [VARIANTS_APART])])
        known = list(self._load())
        self._labels = {code: label_of(code, merge) for code in languages if is_known(code, known, merge)}
        self._wanted = frozenset(self._labels.values())
        if not self._labels:
            raise ManyglotError(f"{self.tool} knows none of the languages. Set evaluation.identifier to profile.")

    def label(self, code: str) -> str | None:
        """What a language is called here; None if it is not known."""
        return self._labels.get(code)

    def identify(self, text: str) -> str:
        """The label of one text."""
        told = self.identify_all([text])
        return (told.restricted if self.restrict else told.open)[0]

    def identify_all(self, texts: Sequence[str]) -> Told:
        """The labels of many texts; of equal ones the first is asked for."""
        asked = [text for text in dict.fromkeys(texts) if text.strip()]
        told = self._tell(asked)
        found = dict(zip(asked, zip(told.restricted, told.open, strict=True), strict=True))
        nothing = ("", "")
        return Told(*([found.get(text, nothing)[i] for text in texts] for i in range(2)))

    @abstractmethod
    def _load(self) -> Iterable[str]:
        """Load the model; return the codes of all languages that it knows."""

    @abstractmethod
    def _tell(self, texts: Sequence[str]) -> Told: ...

    def _first(self, guesses: Sequence[str]) -> tuple[str, str]:
        """Both answers from guesses in order of likelihood: the first that is wanted, and the first."""
        labels = [label_of(guess, self._merge) for guess in guesses]
        return next((label for label in labels if label in self._wanted), ""), labels[0] if labels else ""


class _Bayes(Tool):
    """A tool by Naive Bayes, which gives every language a score."""

    model: Callable[[], NaiveBayes]

    def _load(self) -> Iterable[str]:
        self._model = type(self).model()
        return self._model.labels

    def _tell(self, texts: Sequence[str]) -> Told:
        labels = [label_of(each, self._merge) for each in self._model.labels]
        wanted = [i for i, label in enumerate(labels) if label in self._wanted]
        scores, is_known = self._model.scores(texts)
        best = scores[:, wanted].argmax(dim=1).tolist() if texts else []
        best_of_all = scores.argmax(dim=1).tolist() if texts else []
        return Told(
            [labels[wanted[i]] if known else "" for i, known in zip(best, is_known, strict=True)],
            [labels[i] if known else "" for i, known in zip(best_of_all, is_known, strict=True)],
        )


class Py3Langid(_Bayes):
    """py3langid: about 140 languages."""

    tool = "py3langid"
    model = staticmethod(py3langid_model)


class Langid(_Bayes):
    """langid: 97 languages; the paper's for TED-59."""

    tool = "langid"

    @staticmethod
    def model() -> NaiveBayes:
        """Its model, if it is installed."""
        try:
            return langid_model()
        except ImportError:
            raise _missing("langid") from None


class Langdetect(Tool):
    """langdetect: 55 languages; the paper's for OPUS-100, with its random numbers fixed. Slow."""

    tool = "langdetect"

    def _load(self) -> Iterable[str]:
        try:
            from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory
        except ImportError:
            raise _missing("langdetect") from None
        self._factory = DetectorFactory()
        self._factory.load_profile(PROFILES_DIRECTORY)
        self._factory.set_seed(LANGDETECT_SEED)
        return [str(each) for each in self._factory.get_lang_list()]

    def _tell(self, texts: Sequence[str]) -> Told:
        pairs = [self._first(self._guesses(text)) for text in texts]
        return Told([wanted for wanted, _ in pairs], [first for _, first in pairs])

    def _guesses(self, text: str) -> list[str]:
        from langdetect.lang_detect_exception import LangDetectException

        detector = self._factory.create()
        detector.append(text)
        try:
            return [str(each.lang) for each in detector.get_probabilities()]
        except LangDetectException:  # text without letters
            return []


class Pycld2(Tool):
    """pycld2: 165 languages, and the fastest."""

    tool = "pycld2"

    def _load(self) -> Iterable[str]:
        cld2 = _cld2()
        return [code for name, code in cld2.LANGUAGES if name in set(cld2.DETECTED_LANGUAGES)]

    def _tell(self, texts: Sequence[str]) -> Told:
        cld2, pairs = _cld2(), []
        for text in texts:
            try:
                guesses = cld2.detect(text, isPlainText=True, bestEffort=True)[2]
            except (cld2.error, UnicodeError):  # it takes no control characters
                guesses = ()
            pairs.append(self._first([code for _, code, *_ in guesses if code != "un"]))
        return Told([wanted for wanted, _ in pairs], [first for _, first in pairs])


def _cld2() -> Any:
    try:
        import pycld2
    except ImportError:
        raise _missing("pycld2") from None
    return pycld2


def _missing(tool: str) -> ManyglotError:
    return ManyglotError(f"evaluation.identifier: {tool} is not installed. pip install 'manyglot[{tool}]'")


TOOLS: dict[str, type[Tool]] = {each.tool: each for each in (Py3Langid, Langid, Langdetect, Pycld2)}
