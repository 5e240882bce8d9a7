from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from manyglot.corpus.languages import Direction, Languages
from manyglot.errors import LanguageError
from manyglot.evaluation.direction_names import DirectionNames, FileRole, NamedFile

LANGUAGES = Languages(["de", "en", "mt", "pt-br", "zh"])


def parse(name: str, languages: Languages = LANGUAGES) -> NamedFile:
    return DirectionNames(languages).parse(PurePosixPath(name))


@pytest.mark.parametrize(
    "name",
    [
        "de-en.hyp",
        "de-en.en",
        "hyp.de-en.en",
        "en/de-en.txt",
        "newstest.de-en.hyp.en",
        "newstest2019-de-en.txt.gz",
        "out.deu_Latn-eng_Latn",
        "out.deu_Latn_eng_Latn.xz",
        "de_en.txt",
        "de2en.txt",
        "de-to-en.mt",
        "de>en",
        "DE-EN.txt",
        "opus.mt-de-en.txt",
        "my_system_de-en",
        "de-en/output.txt",
        "German-English.txt",
    ],
)
def test_a_direction_is_read_from_usual_names(name: str) -> None:
    assert parse(name) == NamedFile(Direction("de", "en"))


def test_codes_may_have_parts() -> None:
    assert parse("pt-br-en.txt").direction == Direction("pt-br", "en")
    assert parse("zh_pt_BR").direction == Direction("zh", "pt-br")
    flores = Languages(["deu_Latn", "zho_Hans", "zho_Hant"])
    assert parse("deu_Latn-zho_Hant.txt", flores).direction == Direction("deu_Latn", "zho_Hant")
    assert parse("de-zh_Hans.txt", flores).direction == Direction("deu_Latn", "zho_Hans")


def test_sources_and_references_have_their_role() -> None:
    assert parse("de-en.src").role is FileRole.SOURCE
    assert parse("de-en.de") == NamedFile(Direction("de", "en"), None, FileRole.SOURCE)
    assert parse("de-en.ref.en").role is FileRole.REFERENCE


def test_a_single_language_is_the_target_of_all_directions() -> None:
    assert parse("out.en") == parse("en.txt") == NamedFile(None, "en")
    assert parse("README.md") == parse("scores.txt") == NamedFile()


def test_other_languages_are_absent_or_unknown() -> None:
    assert parse("fr-en.txt").is_absent_language
    with pytest.raises(LanguageError, match=r"Unknown language 'xq' in the file name xq-en.txt"):
        parse("xq-en.txt")
    with pytest.raises(LanguageError, match=r"may mean de→en and en→de"):
        parse("de-en.en-de.txt")
