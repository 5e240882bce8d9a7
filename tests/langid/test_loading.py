"""The choice of an identifier by its coverage of the data."""

from __future__ import annotations

import importlib.metadata
import logging

import pytest

from manyglot.config.base_settings import parse_settings
from manyglot.corpus.languages import Languages
from manyglot.errors import ManyglotError, SettingsError
from manyglot.evaluation.evaluator import EvaluationSettings
from manyglot.langid import loading
from manyglot.langid.external_identifiers import EXTERNAL_IDENTIFIERS, ExternalIdentifier, Py3LangidIdentifier
from manyglot.langid.identifier import LanguagePredictions
from manyglot.langid.loading import load_identifier
from manyglot.langid.ngram_profile import NgramProfileIdentifier


class Narrow(ExternalIdentifier):
    """Knows German and two private languages."""

    package_name = "narrow"

    def _load_model(self) -> list[str]:
        return ["de", "qaa", "qab"]

    def _predict(self, texts: object) -> LanguagePredictions:
        return LanguagePredictions([], [])


class NotInstalled(Narrow):
    """Cannot be loaded."""

    def _load_model(self) -> list[str]:
        raise ManyglotError("not installed")


@pytest.fixture(autouse=True)
def _identifiers(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "manyglot")
    identifiers = {"none": NotInstalled, "py3langid": Py3LangidIdentifier, "narrow": Narrow}
    monkeypatch.setattr(loading, "EXTERNAL_IDENTIFIERS", identifiers)


def sentences(code: str) -> list[str]:
    return [f"a sentence in {code}"]


def test_py3langid_is_chosen_among_equals(caplog: pytest.LogCaptureFixture) -> None:
    assert load_identifier("auto", Languages(["de", "qac"])).signature == "py3langid:restricted"
    assert load_identifier("auto", Languages(["de", "fr"])).signature == "py3langid:restricted"
    assert caplog.messages == [
        "Language identifier: py3langid, which knows 1 of 2 languages, not qac.",
        "Language identifier: py3langid, which knows 2 of 2 languages.",
    ]


def test_the_widest_identifier_is_chosen(caplog: pytest.LogCaptureFixture) -> None:
    chosen = load_identifier("auto", Languages(["de", "en", "qaa", "qab"]), sentences, restrict_to_data_languages=False)
    assert chosen.signature == "narrow:unrestricted"
    assert caplog.messages == ["Language identifier: narrow, which knows 3 of 4 languages, not en."]


def test_a_profile_is_learned_where_nothing_knows_half(caplog: pytest.LogCaptureFixture) -> None:
    unknown = Languages(["en", "qac", "qad"])
    assert isinstance(load_identifier("auto", unknown, sentences), NgramProfileIdentifier)
    assert caplog.messages == [
        "Language identifier: profile, learned from the training text. Installed identifiers know at most 1 of 3 "
        "languages."
    ]
    assert load_identifier("auto", unknown).signature == "py3langid:restricted", "without training text"
    with pytest.raises(ManyglotError, match=r"Set evaluation\.language_identifier to fasttext:PATH"):
        load_identifier("auto", Languages(["qac", "qad"]))


def test_no_candidate_has_a_copyleft_licence() -> None:
    for package in EXTERNAL_IDENTIFIERS:
        try:
            metadata = importlib.metadata.metadata(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        assert "GPL" not in str([metadata.get_all(key) for key in ("License", "License-Expression", "Classifier")])


def test_names_are_checked() -> None:
    for name in ("auto", "py3langid", "profile", "fasttext:models/lid.bin"):
        assert parse_settings(EvaluationSettings, {"language_identifier": name}).language_identifier == name
    for name in ("fasttext", "fasttext:", "py3langd", ""):
        with pytest.raises(
            SettingsError, match=r"language_identifier: .* is not a language identifier\. (Did you mean|Known)"
        ):
            parse_settings(EvaluationSettings, {"language_identifier": name})
