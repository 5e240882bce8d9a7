from __future__ import annotations

import pytest

from manyglot.corpus.languages import Languages
from manyglot.corpus.rows import Split
from manyglot.corpus.synthetic import SyntheticCorpus, SyntheticSettings
from manyglot.errors import ManyglotError
from manyglot.langid.identifier import accuracy, identify_with
from manyglot.langid.profile import Profile
from manyglot.langid.tools import Py3Langid

TEXT = {
    "de": "Der Zug nach Berlin fährt heute leider nicht, weil es zu viel geschneit hat.",
    "en": "The train to Berlin does not run today because there has been too much snow.",
    "fr": "Le train pour Berlin ne circule pas aujourd'hui parce qu'il a trop neigé.",
}


def test_the_general_tool_tells_sentences_apart() -> None:
    tool = Py3Langid(Languages(TEXT))
    assert {code: tool.identify(text) for code, text in TEXT.items()} == {code: code for code in TEXT}


def test_variants_count_as_their_language_and_unknown_languages_are_left_out() -> None:
    tool = Py3Langid(Languages(["zh-cn", "zh-tw", "en", "qaa"]))
    assert (tool.label("zh-cn"), tool.label("zh-tw"), tool.label("qaa")) == ("zh", "zh", None)
    assert accuracy([tool.identify(t) for t in ("这是一个句子", "hello there my friend")], tool.label("zh-cn")) == 50
    assert accuracy(["en"], tool.label("qaa")) is None
    with pytest.raises(ManyglotError, match=r"Set evaluation.identifier to profile"):
        Py3Langid(Languages(["qaa", "qab"]))


def test_profiles_tell_synthetic_languages_apart() -> None:
    corpus = SyntheticCorpus(SyntheticSettings(num_languages=8, train_rows=300))
    train, test = (list(corpus.rows(split)) for split in (Split.TRAIN, Split.TEST))
    profile = Profile({code: [row[code] for row in train] for code in corpus.languages})
    for code in corpus.languages:
        assert (accuracy([profile.identify(row[code]) for row in test], profile.label(code)) or 0) > 97


def test_a_sentence_of_nothing_known_is_in_no_language() -> None:
    profile = Profile({"de": ["abc"], "en": ["xyz"]})
    assert profile.identify("你好") == profile.identify("") == profile.identify("  ") == ""
    assert Py3Langid(Languages(TEXT)).identify(" ") == ""
    assert profile.label("fr") is None
    assert Profile({"de": ["7 Tage"], "en": ["7 days"]}).identify("12 days") == "en"


def test_the_check_is_told_codes_and_nothing_where_it_cannot_be_sure() -> None:
    identify = identify_with(Py3Langid(Languages([*TEXT, "pt-br", "qaa"])))
    assert identify([TEXT["de"], TEXT["de"], TEXT["de"]], ["de", "fr", "qaa"]) == ["de", "de", ""]
    assert identify(["Der Zug fährt.", "2024 12 24 2024 12 24"], ["fr", "fr"]) == ["", ""]
    portuguese = "O comboio para Berlim não circula hoje porque nevou demasiado."
    assert identify([portuguese], ["pt-br"]) == ["pt-br"]
    dense = identify_with(Py3Langid(Languages(["en", "zh"])))
    assert dense(["开往柏林的火车", "火车"], ["zh", "zh"]) == ["zh", ""]
