"""Batched predictions match those of each package."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from manyglot.corpus.languages import Languages
from manyglot.errors import ManyglotError
from manyglot.langid import naive_bayes
from manyglot.langid.external_identifiers import (
    EXTERNAL_IDENTIFIERS,
    LangdetectIdentifier,
    LangidIdentifier,
    Py3LangidIdentifier,
    Pycld2Identifier,
)
from manyglot.langid.variants import is_identifiable, language_label
from tests.evaluation.test_ngram_matches import SCRIPTS, phrases

SENTENCES = {
    "de": "Der Zug nach Berlin fährt heute leider nicht, weil es zu viel geschneit hat.",
    "en": "The train to Berlin does not run today because there has been too much snow.",
    "hr": "Vlak za Berlin danas ne vozi jer je palo previše snijega.",
    "nb": "Toget til Berlin går ikke i dag fordi det har snødd for mye.",
    "pt-br": "O trem para Berlim não circula hoje porque nevou demais.",
    "zh-tw": "因為下了太多雪，今天開往柏林的火車停駛了。",
}
TEXTS = [text for code in SCRIPTS for text in phrases()[code][:40]] + ["ABC DEF GHI", "e\u0301te\u0301", "x" * 2000]


@pytest.fixture(params=sorted(EXTERNAL_IDENTIFIERS))
def name(request: pytest.FixtureRequest) -> str:
    package_name = str(request.param)
    pytest.importorskip(package_name)
    return package_name


def test_variants_are_merged(name: str) -> None:
    identifier = EXTERNAL_IDENTIFIERS[name](Languages(SENTENCES), merge_language_variants=True)
    predictions = identifier.identify_batch(list(SENTENCES.values()))
    labels = [identifier.label_for(code) for code in SENTENCES]
    assert labels == ["de", "en", "sh", "no", "pt", "zh"]
    right = [predictions.restricted == labels, predictions.unrestricted == labels]
    assert all(right) or name == "langdetect", "langdetect takes the Croatian for Slovenian"
    assert predictions.restricted[:2] == labels[:2]


def test_signatures_name_the_options(name: str) -> None:
    signatures = {
        EXTERNAL_IDENTIFIERS[name](Languages(SENTENCES), *options).signature
        for options in ((True, True), (True, False), (False, True))
    }
    assert len(signatures) == 3, "runs with different options are not comparable"


def test_empty_text_is_in_no_language(name: str) -> None:
    identifier = EXTERNAL_IDENTIFIERS[name](Languages(SENTENCES))
    assert identifier.identify_batch(["", " ", SENTENCES["de"], ""]).unrestricted == ["", "", "de", ""]
    assert identifier.identify_batch([]).restricted == []
    assert identifier.identify("") == ""


def test_odd_text_is_accepted(name: str) -> None:
    odd = ["\x00", "\ud800", "12 34", "…!?", "\x1b[31m", "a" * 50_000]
    assert len(EXTERNAL_IDENTIFIERS[name](Languages(SENTENCES)).identify_batch(odd).unrestricted) == len(odd)


def test_restricted_predictions_are_languages_of_the_data(name: str) -> None:
    identifier = EXTERNAL_IDENTIFIERS[name](Languages(["de", "en"]))
    predictions = identifier.identify_batch(TEXTS)
    assert set(predictions.restricted) <= {"de", "en", ""}
    assert len(set(predictions.unrestricted)) > 5
    french = "Le train pour Berlin ne circule pas aujourd'hui parce qu'il a trop neigé."
    assert (
        EXTERNAL_IDENTIFIERS[name](Languages(["de", "en"]), restrict_to_data_languages=False).identify(french) == "fr"
    )
    assert identifier.identify(french) != "fr"


def test_unknown_languages_have_no_label(name: str) -> None:
    identifier = EXTERNAL_IDENTIFIERS[name](Languages(["de", "qaa"]))
    assert (identifier.label_for("de"), identifier.label_for("qaa"), identifier.label_for("fr")) == ("de", None, None)
    with pytest.raises(
        ManyglotError, match=rf"{name} knows none of the languages of the data. Set evaluation.language_identifier"
    ):
        EXTERNAL_IDENTIFIERS[name](Languages(["qaa", "qab"]))


def test_py3langid_predictions_match_the_package() -> None:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    package = LanguageIdentifier.from_model_file(MODEL_FILE)
    ours = Py3LangidIdentifier(Languages(SCRIPTS)).identify_batch(TEXTS).unrestricted
    assert_same(ours, [language_label(package.classify(text)[0], False) for text in TEXTS])
    package.set_languages(["de", "en", "ru", "zh"])
    ours = Py3LangidIdentifier(Languages(["de", "en", "ru", "zh"])).identify_batch(TEXTS).restricted
    assert_same(ours, [package.classify(text)[0] for text in TEXTS])


def assert_same(ours: list[str], theirs: list[str]) -> None:
    """Compare predictions, except for text without features, where the packages predict some language and we none."""
    identified = [(our, their) for our, their in zip(ours, theirs, strict=True) if our]
    assert len(identified) > 0.9 * len(theirs)
    assert [our for our, _ in identified] == [their for _, their in identified]


def test_langid_predictions_match_the_package() -> None:
    package = pytest.importorskip("langid")
    some = TEXTS[::5]
    ours = LangidIdentifier(Languages(SCRIPTS)).identify_batch(some).unrestricted
    assert_same(ours, [language_label(package.classify(text)[0], False) for text in some])


def test_langdetect_is_deterministic() -> None:
    pytest.importorskip("langdetect")
    first, second = (LangdetectIdentifier(Languages(SCRIPTS)).identify_batch(TEXTS[::20]) for _ in range(2))
    assert first == second


def test_codes_of_any_style_are_identified() -> None:
    styles = {"ces_Latn": "cs", "deu": "de", "fas": "fa", "arb_Arab": "ar", "zho_Hant": "zh", "por_Latn_braz1360": "pt"}
    identifier = Py3LangidIdentifier(Languages(styles))
    assert {code: identifier.label_for(code) for code in styles} == styles


def test_the_letters_of_a_text_tell_its_script() -> None:
    """py3langid knows Serbian in one script, and Croatian."""
    languages = Languages(["srp_Cyrl", "srp_Latn", "hr", "en", "zho_Hans", "zho_Hant"])
    identifier = Py3LangidIdentifier(languages, merge_language_variants=True)
    labels = {code: identifier.label_for(code) for code in languages}
    assert labels == {
        "en": "en",
        "hr": "sh-Latn",
        "srp_Cyrl": "sh-Cyrl",
        "srp_Latn": "sh-Latn",
        **dict.fromkeys(("zho_Hans", "zho_Hant"), "zh"),
    }
    texts = ["Воз за Берлин данас не вози јер је пало превише снега.", "Voz za Berlin danas ne vozi jer je palo snega."]
    assert identifier.identify_batch(texts).restricted == ["sh-Cyrl", "sh-Latn"]
    assert identifier.identify_batch(texts).unrestricted == ["sh-Cyrl", "sh-Latn"]
    assert Py3LangidIdentifier(Languages(["sr", "en"])).identify(texts[0]) == "sr", "one script needs no label"


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    identifier = Py3LangidIdentifier(Languages(SCRIPTS))
    together = identifier.identify_batch(TEXTS)
    monkeypatch.setattr(naive_bayes, "TEXTS_PER_BATCH", 7)
    assert identifier.identify_batch(TEXTS) == together


def test_numpy_and_torch_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    model = naive_bayes.load_py3langid_model()
    with_torch, has_features = model.score_labels([*TEXTS, ""])
    monkeypatch.setattr(naive_bayes, "sum_weights_with_torch", naive_bayes.sum_weights_with_numpy)
    with_numpy, _ = model.score_labels([*TEXTS, ""])
    assert not has_features[-1]
    assert with_numpy.dtype == with_torch.dtype
    np.testing.assert_allclose(with_numpy, with_torch, rtol=1e-5, atol=1e-2)
    assert (with_numpy.argmax(axis=1) == with_torch.argmax(axis=1)).all()


@pytest.mark.parametrize(
    ("identifier_class", "module"),
    [
        (LangidIdentifier, "langid.langid"),
        (LangdetectIdentifier, "langdetect.detector_factory"),
        (Pycld2Identifier, "pycld2"),
    ],
)
def test_a_missing_package_names_its_extra(
    identifier_class: type[LangidIdentifier], module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    naive_bayes.load_langid_model.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ManyglotError, match=rf"is not installed: pip install 'manyglot\[{identifier_class.package_name}\]'"
    ):
        identifier_class(Languages(["de", "en"]))


def test_merged_labels() -> None:
    assert {language_label(code, True) for code in ("bs", "hr", "sr", "sh", "sr-Latn", "cnr")} == {"sh"}
    assert {language_label(code, True) for code in ("nb", "nn", "no")} == {"no"}
    assert {language_label(code, merge) for code in ("zh", "zh-cn", "zh_TW", "cmn", "zh-Hant") for merge in (0, 1)} == {
        "zh"
    }
    assert {language_label(code, False) for code in ("pt", "pt-br", "pt_PT")} == {"pt"}
    assert language_label("iw", False) == language_label("he", False)
    assert len({language_label(code, False) for code in ("bs", "hr", "sr")}) == 3
    assert len({language_label(code, True) for code in ("id", "ms", "gl", "da", "cs", "sk")}) == 6


def test_variants_are_identifiable_only_in_their_own_script() -> None:
    assert is_identifiable("bs", ["hr"], merge_language_variants=True)
    assert not is_identifiable("bs", ["hr"], merge_language_variants=False)
    assert not is_identifiable("sr", ["hr"], merge_language_variants=True), (
        "Croatian is not written in Cyrillic letters"
    )
    assert is_identifiable("nn", ["no"], merge_language_variants=True)
    assert not is_identifiable("arb_Latn", ["ar"], merge_language_variants=True), "an identifier of Arabic letters"
    assert is_identifiable("arb_Latn", ["arb_Arab", "arb_Latn"], merge_language_variants=False)
    assert is_identifiable("zho_Hant", ["cmn_Hani"], merge_language_variants=False)
    assert is_identifiable("crh_Latn", ["crh"], merge_language_variants=False)
