from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from manyglot.corpus.language_check import FileSample, SuspiciousFile
from tests.commands import mistake, run

SENTENCES = {
    "de": "Am Donnerstag veröffentlichte die Universität den Bericht Nummer {}.",
    "en": "On Thursday the university published a new report with the number {}.",
    "es": "El jueves la universidad publicó un nuevo informe con el número {}.",
    "fr": "Jeudi, l'université a publié un nouveau rapport portant le numéro {}.",
    "gl": "O xoves a universidade publicou un novo informe co número {}.",
    "id": "Pada hari Kamis universitas menerbitkan laporan baru dengan nomor {}.",
    "ms": "Pada hari Khamis universiti menerbitkan laporan baharu dengan nombor {}.",
    "ru": "В четверг университет опубликовал новый отчёт под номером {}.",
}


def text(code: str, count: int) -> list[str]:
    return [SENTENCES[code].format(number) for number in range(count)]


def defects(code: str, sentences: Sequence[str], **others: Sequence[str]) -> list[SuspiciousFile]:
    sample = FileSample(f"train.{code}", code)
    for i, sentence in enumerate(sentences):
        sample.add(sentence, {code: sentence} | {other: texts[i] for other, texts in others.items()})
    return list(sample.find_defects())


@pytest.mark.parametrize("code", ["de", "gl", "ms", "id", "es"])
def test_a_language_is_not_taken_for_a_related_one(code: str) -> None:
    assert defects(code, text(code, 40)) == []


def test_a_share_of_another_language_is_found_wherever_it_is() -> None:
    for sentences in (text("fr", 900) + text("es", 100), text("es", 500) + text("fr", 4500)):
        (found,) = defects("fr", sentences)
        assert (found.defect, found.other_language) == ("language", "es")
        assert found.wrong_share == pytest.approx(0.1, abs=0.01)
        assert found.example in text("es", 1)
    assert defects("fr", text("fr", 960) + text("es", 40)) == []


def test_few_sentences_count_only_if_they_are_most() -> None:
    assert defects("fr", text("fr", 40) + text("es", 9)) == []
    assert [each.wrong_share for each in defects("fr", text("es", 3))] == [1]


def test_text_in_another_script_is_reported_once() -> None:
    assert [each.defect for each in defects("ru", text("en", 20))] == ["script"]
    assert [each.defect for each in defects("ru", text("ru", 80) + text("en", 20))] == ["script", "language"]


def test_in_unknown_languages_only_copies_are_reported() -> None:
    english = text("en", 20)
    (found,) = defects("tpi", english, en=english)
    assert str(found) == (
        "train.tpi: 100% of the sentences are English (en), not Tok Pisin, such as: "
        "On Thursday the university published a new report with the number 0."
    )
    assert defects("tpi", english, en=text("de", 20)) == []
    assert defects("hr-x-unknown", ["Ok"] * 20, en=["Ok"] * 20) == [], "short sentences are often the same"


def test_the_command_names_files_of_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, code in {"de-en.de": "en", "de-en.en": "en", "en-fr.en": "en", "en-fr.fr": "fr"}.items():
        (tmp_path / f"train.{name}").write_text("\n".join(text(code, 20)) + "\n", encoding="utf-8")
    config = tmp_path / "mine.yaml"
    config.write_text(f"data: d\nrun: r\ncorpus: {{kind: bilingual, path: {tmp_path}}}\n", encoding="utf-8")
    out, _ = run(capsys, "corpus", "inspect", config)
    assert "! train.de-en.de: 100% of the sentences are English (en), not German, such as: On Thursday" in out
    out, _ = run(capsys, "corpus", "inspect", config, "--json")
    assert [each["file"] for each in json.loads(out)["suspicious_files"]] == ["train.de-en.de"]
    config.write_text(f"data: d\nrun: r\ncorpus: {{kind: bilingual, path: {tmp_path / 'nowhere'}}}\n", encoding="utf-8")
    assert "nowhere is not a folder" in mistake(capsys, "corpus", "inspect", config)
