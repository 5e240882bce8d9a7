"""Which corpora there are. A new one is a file with its settings and its reader, and a line here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import Field

from manyglot.corpus.languages import Direction, Languages, directions_of, is_known, parse_direction
from manyglot.corpus.multiway import MultiwayCorpus, MultiwaySettings, find_files
from manyglot.corpus.pairs import PairsCorpus, PairsSettings, find_pairs
from manyglot.corpus.phrasebook import Phrasebook, PhrasebookSettings
from manyglot.corpus.rows import Corpus, Row, Split
from manyglot.corpus.synthetic import SyntheticCorpus, SyntheticSettings
from manyglot.corpus.table import TableCorpus, TableSettings
from manyglot.corpus.textfiles import read_aligned
from manyglot.corpus.translations import Translations, count_translations
from manyglot.corpus.zero_shot import Leaks, SetFacts, ZeroShotTests, pivot_of, write_tests
from manyglot.errors import CorpusError, LanguageError
from manyglot.progress import say

CorpusSettings = Annotated[
    PhrasebookSettings | SyntheticSettings | MultiwaySettings | PairsSettings | TableSettings,
    Field(discriminator="kind"),
]


def languages_of(settings: CorpusSettings) -> Languages:
    """The languages of a corpus; those that its settings list, while the text is not there."""
    if (
        isinstance(settings, MultiwaySettings | PairsSettings | TableSettings)
        and settings.languages
        and not settings.path.exists()
    ):
        return _checked(Languages(settings.languages), settings)
    return Languages(open_corpus(settings).languages)


def trained_directions(languages: Languages, settings: CorpusSettings) -> list[Direction]:
    """The directions to train on."""
    try:
        chosen = [parse_direction(text, languages) for text in settings.directions]
        excluded = {parse_direction(text, languages) for text in settings.exclude}
    except LanguageError as error:
        raise LanguageError(f"corpus.directions or corpus.exclude: {error}") from None
    directions = [d for d in chosen or directions_of(languages, settings.pivot) if d not in excluded]
    if not directions:
        raise CorpusError("corpus.exclude leaves no direction to train on.")
    return list(dict.fromkeys(directions))


def open_corpus(settings: CorpusSettings) -> Corpus:
    """Open the corpus that the settings describe; two languages are the least."""
    corpus: Corpus
    match settings:
        case PhrasebookSettings():
            corpus = Phrasebook(settings)
        case SyntheticSettings():
            corpus = SyntheticCorpus(settings)
        case MultiwaySettings():
            corpus = MultiwayCorpus(settings)
        case PairsSettings():
            corpus = PairsCorpus(settings)
        case TableSettings():
            corpus = TableCorpus(settings)
    languages = _checked(Languages(corpus.languages), settings)
    unknown = [code for code in languages if not is_known(code)]
    if unknown and not getattr(settings, "languages", ()):
        raise LanguageError(
            f"The corpus has text in {', '.join(unknown)}, which is no language code that we know. "
            f"List the languages you mean in corpus.languages."
        )
    return corpus


def make_zero_shot_tests(
    settings: CorpusSettings,
    folder: Path,
    drop_leaked: bool = False,
    distinct: bool = False,
    max_sentences: int | None = None,
    supervised: bool = False,
) -> list[SetFacts]:
    """Write test sets of all pairs of languages by the pivot they share; say how much of them training has seen.

    If `supervised`, those with the pivot are written too.
    """
    pivot, corpus = pivot_of(settings.pivot), open_corpus(settings)
    tests = ZeroShotTests(corpus.rows(Split.TEST), pivot, distinct, supervised)
    return write_tests(folder, tests, Leaks(tests, corpus.rows(Split.TRAIN)), drop_leaked, max_sentences)


def read_test(folder: Path, codes: Iterable[str]) -> list[Row]:
    """Test text in the given languages: files `test.de`, `test.en`, … line by line, or else pairs of files."""
    if not folder.is_dir():
        raise CorpusError(f"--test: {folder} is not a folder. It should hold files such as test.en or test.de-en.de.")
    files = {name: path for name, path in find_files(folder).items() if name.startswith(f"{Split.TEST}.")}
    sets = [{name.removeprefix(f"{Split.TEST}."): path for name, path in files.items()}] if files else []
    sets = sets or [pair for (split, _), pair in find_pairs(folder).items() if split == Split.TEST]
    known = set(codes)
    if unknown := sorted({code for each in sets for code in each} - known):
        say(f"Not read, because they are not languages of the data: {', '.join(unknown)}.")
    sets = [{code: path for code, path in each.items() if code in known} for each in sets]
    texts: dict[str, str] = {}  # what is in many pairs is held once
    rows: list[Row] = [
        {code: texts.setdefault(text, text) for code, text in row.items()}
        for each in sets
        if len(each) > 1
        for row in read_aligned(each)
    ]
    if not rows:
        raise CorpusError(f"{folder} should hold test text in two languages of the data or more: test.en, test.de, …")
    return rows


def translations_of(settings: CorpusSettings) -> Translations:
    """How many translations the training sentences of the pivot have."""
    return count_translations(open_corpus(settings).rows(Split.TRAIN), pivot_of(settings.pivot))


def _checked(languages: Languages, settings: CorpusSettings) -> Languages:
    if len(languages) < 2:
        raise CorpusError(f"A corpus needs at least two languages; this one has {', '.join(languages) or 'none'}.")
    forms: dict[str, str] = {}
    for code in languages:
        other = forms.setdefault(code.lower().replace("_", "-"), code)
        if other != code:
            raise LanguageError(f"{other} and {code} are one language written in two ways. Name its files alike.")
    if settings.pivot is not None and settings.pivot not in languages:
        raise CorpusError(
            f"corpus.pivot: '{settings.pivot}' is not a language of the corpus ({', '.join(languages)}). "
            f"Name one of them, or null to train on all pairs."
        )
    return languages
