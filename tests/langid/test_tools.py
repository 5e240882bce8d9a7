"""Each identifier answers as its own package does, for many texts at once."""

from __future__ import annotations

import sys

import pytest

from manyglot.corpus.languages import Languages
from manyglot.errors import ManyglotError
from manyglot.langid import naive_bayes
from manyglot.langid.tools import TOOLS, Langdetect, Langid, Py3Langid, Pycld2
from manyglot.langid.variants import is_known, label_of
from tests.evaluation.test_ngrams import SCRIPTS, phrases

SENTENCES = {
    "de": "Der Zug nach Berlin fährt heute leider nicht, weil es zu viel geschneit hat.",
    "en": "The train to Berlin does not run today because there has been too much snow.",
    "hr": "Vlak za Berlin danas ne vozi jer je palo previše snijega.",
    "nb": "Toget til Berlin går ikke i dag fordi det har snødd for mye.",
    "pt-br": "O trem para Berlim não circula hoje porque nevou demais.",
    "zh-tw": "因為下了太多雪，今天開往柏林的火車停駛了。",
}
TEXTS = [text for code in SCRIPTS for text in phrases()[code][:40]] + ["ABC DEF GHI", "e\u0301te\u0301", "x" * 2000]


@pytest.fixture(params=sorted(TOOLS))
def name(request: pytest.FixtureRequest) -> str:
    chosen = str(request.param)
    pytest.importorskip(chosen)
    return chosen


def test_variants_count_as_their_language(name: str) -> None:
    tool = TOOLS[name](Languages(SENTENCES), merge=True)
    told = tool.identify_all(list(SENTENCES.values()))
    labels = [tool.label(code) for code in SENTENCES]
    assert labels == ["de", "en", "sh", "no", "pt", "zh"]
    right = [told.restricted == labels, told.open == labels]
    assert all(right) or name == "langdetect", "which takes the Croatian for Slovenian"
    assert told.restricted[:2] == labels[:2]


def test_a_name_says_how_it_was_told(name: str) -> None:
    names = {TOOLS[name](Languages(SENTENCES), *how).name for how in ((True, True), (True, False), (False, True))}
    assert len(names) == 3, "runs that were told in different ways are not compared"


def test_nothing_is_in_no_language(name: str) -> None:
    tool = TOOLS[name](Languages(SENTENCES))
    assert tool.identify_all(["", " ", SENTENCES["de"], ""]).open == ["", "", "de", ""]
    assert tool.identify_all([]).restricted == []
    assert tool.identify("") == ""


def test_odd_text_stops_nothing(name: str) -> None:
    odd = ["\x00", "\ud800", "12 34", "…!?", "\x1b[31m", "a" * 50_000]
    assert len(TOOLS[name](Languages(SENTENCES)).identify_all(odd).open) == len(odd)


def test_the_restricted_answer_is_among_the_languages_of_the_data(name: str) -> None:
    tool = TOOLS[name](Languages(["de", "en"]))
    told = tool.identify_all(TEXTS)
    assert set(told.restricted) <= {"de", "en", ""}
    assert len(set(told.open)) > 5
    french = "Le train pour Berlin ne circule pas aujourd'hui parce qu'il a trop neigé."
    assert TOOLS[name](Languages(["de", "en"]), restrict=False).identify(french) == "fr"
    assert tool.identify(french) != "fr"


def test_languages_it_does_not_know_are_left_out(name: str) -> None:
    tool = TOOLS[name](Languages(["de", "qaa"]))
    assert (tool.label("de"), tool.label("qaa"), tool.label("fr")) == ("de", None, None)
    with pytest.raises(ManyglotError, match=rf"{name} knows none of the languages. Set evaluation.identifier"):
        TOOLS[name](Languages(["qaa", "qab"]))


def test_py3langid_answers_as_the_package_does() -> None:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    package = LanguageIdentifier.from_model_file(MODEL_FILE)
    ours = Py3Langid(Languages(SCRIPTS)).identify_all(TEXTS).open
    assert_same(ours, [label_of(package.classify(text)[0], False) for text in TEXTS])
    package.set_languages(["de", "en", "ru", "zh"])
    ours = Py3Langid(Languages(["de", "en", "ru", "zh"])).identify_all(TEXTS).restricted
    assert_same(ours, [package.classify(text)[0] for text in TEXTS])


def assert_same(ours: list[str], theirs: list[str]) -> None:
    """Except for text that has nothing to tell it by: the packages then give any language, we give none."""
    told = [(our, their) for our, their in zip(ours, theirs, strict=True) if our]
    assert len(told) > 0.9 * len(theirs)
    assert [our for our, _ in told] == [their for _, their in told]


def test_langid_answers_as_the_package_does() -> None:
    package = pytest.importorskip("langid")
    some = TEXTS[::5]
    ours = Langid(Languages(SCRIPTS)).identify_all(some).open
    assert_same(ours, [label_of(package.classify(text)[0], False) for text in some])


def test_langdetect_repeats_itself() -> None:
    pytest.importorskip("langdetect")
    first, second = (Langdetect(Languages(SCRIPTS)).identify_all(TEXTS[::20]) for _ in range(2))
    assert first == second


def test_texts_are_told_in_parts_as_together(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = Py3Langid(Languages(SCRIPTS))
    together = tool.identify_all(TEXTS)
    monkeypatch.setattr(naive_bayes, "TEXTS_AT_ONCE", 7)
    assert tool.identify_all(TEXTS) == together


@pytest.mark.parametrize(
    ("tool", "module"),
    [(Langid, "langid.langid"), (Langdetect, "langdetect.detector_factory"), (Pycld2, "pycld2")],
)
def test_a_tool_that_is_not_installed_names_its_extra(
    tool: type[Langid], module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    naive_bayes.langid_model.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ManyglotError, match=rf"is not installed. pip install 'manyglot\[{tool.tool}\]'"):
        tool(Languages(["de", "en"]))


def test_the_table_of_variants() -> None:
    assert {label_of(code, True) for code in ("bs", "hr", "sr", "sh", "sr-Latn", "cnr")} == {"sh"}
    assert {label_of(code, True) for code in ("nb", "nn", "no")} == {"no"}
    assert {label_of(code, merge) for code in ("zh", "zh-cn", "zh_TW", "cmn", "zh-Hant") for merge in (0, 1)} == {"zh"}
    assert {label_of(code, False) for code in ("pt", "pt-br", "pt_PT")} == {"pt"}
    assert label_of("iw", False) == label_of("he", False)
    assert len({label_of(code, False) for code in ("bs", "hr", "sr")}) == 3
    assert len({label_of(code, True) for code in ("id", "ms", "gl", "da", "cs", "sk")}) == 6


def test_a_variant_stands_for_another_in_its_own_script_only() -> None:
    assert is_known("bs", ["hr"], merge=True)
    assert not is_known("bs", ["hr"], merge=False)
    assert not is_known("sr", ["hr"], merge=True), "Croatian is not written in Cyrillic letters"
    assert is_known("nn", ["no"], merge=True)
