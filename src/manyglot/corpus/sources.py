"""Which corpora there are. A new one is a file with its settings and its reader, and a line here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from manyglot.corpus.languages import Direction, Languages, directions_of, is_known, parse_direction
from manyglot.corpus.multiway import MultiwayCorpus, MultiwaySettings
from manyglot.corpus.pairs import PairsCorpus, PairsSettings
from manyglot.corpus.phrasebook import Phrasebook, PhrasebookSettings
from manyglot.corpus.rows import Corpus, Split
from manyglot.corpus.synthetic import SyntheticCorpus, SyntheticSettings
from manyglot.corpus.table import TableCorpus, TableSettings
from manyglot.corpus.translations import Translations, count_translations
from manyglot.corpus.zero_shot import Leaks, SetFacts, ZeroShotTests, pivot_of, write_tests
from manyglot.errors import CorpusError, LanguageError

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
) -> list[SetFacts]:
    """Write test sets of all pairs of languages by the pivot they share; say how much of them training has seen."""
    pivot, corpus = pivot_of(settings.pivot), open_corpus(settings)
    tests = ZeroShotTests(corpus.rows(Split.TEST), pivot, distinct)
    return write_tests(folder, tests, Leaks(tests, corpus.rows(Split.TRAIN)), drop_leaked, max_sentences)


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
