from __future__ import annotations

import pytest

from manyglot.corpus.base import Split
from manyglot.corpus.languages import Languages
from manyglot.corpus.synthetic import SyntheticCorpus, SyntheticSettings
from manyglot.errors import ManyglotError
from manyglot.langid.external_identifiers import Py3LangidIdentifier
from manyglot.langid.identifier import language_accuracy, make_off_target_detector
from manyglot.langid.ngram_profile import NgramProfileIdentifier

TEXT = {
    "de": "Der Zug nach Berlin fährt heute leider nicht, weil es zu viel geschneit hat.",
    "en": "The train to Berlin does not run today because there has been too much snow.",
    "fr": "Le train pour Berlin ne circule pas aujourd'hui parce qu'il a trop neigé.",
}


def test_py3langid_identifies_sentences() -> None:
    identifier = Py3LangidIdentifier(Languages(TEXT))
    assert {code: identifier.identify(text) for code, text in TEXT.items()} == {code: code for code in TEXT}


def test_regions_are_ignored_and_unknown_languages_have_no_label() -> None:
    identifier = Py3LangidIdentifier(Languages(["zh-cn", "zh-tw", "en", "qaa"]))
    assert (identifier.label_for("zh-cn"), identifier.label_for("zh-tw"), identifier.label_for("qaa")) == (
        "zh",
        "zh",
        None,
    )
    assert (
        language_accuracy(
            [identifier.identify(t) for t in ("这是一个句子", "hello there my friend")], identifier.label_for("zh-cn")
        )
        == 50
    )
    assert language_accuracy(["en"], identifier.label_for("qaa")) is None
    with pytest.raises(ManyglotError, match=r"Set evaluation.language_identifier to profile"):
        Py3LangidIdentifier(Languages(["qaa", "qab"]))


def test_profiles_identify_synthetic_languages() -> None:
    corpus = SyntheticCorpus(SyntheticSettings(num_languages=8, train_rows=300))
    train, test = (list(corpus.rows(split)) for split in (Split.TRAIN, Split.TEST))
    profile = NgramProfileIdentifier({code: [row[code] for row in train] for code in corpus.languages})
    for code in corpus.languages:
        assert (language_accuracy([profile.identify(row[code]) for row in test], profile.label_for(code)) or 0) > 97


def test_text_without_known_ngrams_is_in_no_language() -> None:
    profile = NgramProfileIdentifier({"de": ["abc"], "en": ["xyz"]})
    assert profile.identify("你好") == profile.identify("") == profile.identify("  ") == ""
    assert Py3LangidIdentifier(Languages(TEXT)).identify(" ") == ""
    assert profile.label_for("fr") is None
    assert NgramProfileIdentifier({"de": ["7 Tage"], "en": ["7 days"]}).identify("12 days") == "en"


def test_the_detector_returns_codes_and_nothing_for_short_text() -> None:
    identify = make_off_target_detector(Py3LangidIdentifier(Languages([*TEXT, "pt-br", "qaa"])))
    assert identify([TEXT["de"], TEXT["de"], TEXT["de"]], ["de", "fr", "qaa"]) == ["de", "de", ""]
    assert identify(["Der Zug fährt.", "2024 12 24 2024 12 24"], ["fr", "fr"]) == ["", ""]
    portuguese = "O comboio para Berlim não circula hoje porque nevou demasiado."
    assert identify([portuguese], ["pt-br"]) == ["pt-br"]
    dense = make_off_target_detector(Py3LangidIdentifier(Languages(["en", "zh"])))
    assert dense(["开往柏林的火车", "火车"], ["zh", "zh"]) == ["zh", ""]
