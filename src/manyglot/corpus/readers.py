"""Open corpora of all kinds. A new kind needs a module with its settings and its reader, and an entry here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from manyglot.config.base_settings import parse_settings
from manyglot.config.yaml_files import read_yaml_mapping
from manyglot.corpus.base import Corpus, Row, Split
from manyglot.corpus.bilingual import BilingualCorpus, BilingualSettings
from manyglot.corpus.decompression import uncompressed_name
from manyglot.corpus.files_corpus import (
    FilesCorpus,
    FilesSettings,
    SplitText,
    describe_layout,
    find_split_text,
)
from manyglot.corpus.language_selection import (
    find_central_language,
    select_languages,
)
from manyglot.corpus.languages import (
    Direction,
    Languages,
    enumerate_directions,
    is_known_language_code,
    parse_direction,
)
from manyglot.corpus.mixture import MixtureCorpus, MixtureSettings, ResampledCorpus, SingleCorpusSettings
from manyglot.corpus.multiway import MultiwayCorpus, MultiwaySettings
from manyglot.corpus.phrasebook import PhrasebookCorpus, PhrasebookSettings
from manyglot.corpus.prepared_text import PreparedSettings, PreparedText
from manyglot.corpus.synthetic import SyntheticCorpus, SyntheticSettings
from manyglot.corpus.table import TableCorpus, TableSettings
from manyglot.corpus.table_file import is_table_file
from manyglot.corpus.textfiles import read_lines
from manyglot.corpus.translation_counts import TranslationCounts, count_distinct_translations
from manyglot.corpus.zero_shot_sets import (
    LeakDetector,
    ZeroShotSets,
    ZeroShotSetStatistics,
    require_central_language,
    write_zero_shot_sets,
)
from manyglot.errors import MAX_LISTED_NAMES, CorpusError, LanguageError
from manyglot.progress import print_status

CorpusSettings = Annotated[
    SingleCorpusSettings | MixtureSettings,
    Field(discriminator="kind"),
]

_CORPUS_SUFFIXES = (".tmx", ".zip", ".yaml", ".yml")
"""Files that are a corpus, or describe one, besides tables."""


def corpus_languages(settings: CorpusSettings) -> Languages:
    """The languages of a corpus; if the text does not exist yet, the languages listed in the settings."""
    if (
        isinstance(settings, MultiwaySettings | BilingualSettings | TableSettings | FilesSettings)
        and settings.languages
        and not settings.path.exists()
    ):
        named = {language: language for language in settings.languages}
        codes = select_languages(named, settings.languages, settings.code_style, "corpus.languages")
        return _check_languages(Languages(codes.values()), settings)
    return Languages(open_corpus(settings).languages)


def resolve_train_directions(languages: Languages, settings: CorpusSettings) -> list[Direction]:
    """The directions to train on, as the settings select them."""
    try:
        listed = [parse_direction(text, languages) for text in settings.train_directions]
        excluded = {parse_direction(text, languages) for text in settings.exclude_directions}
    except LanguageError as error:
        raise LanguageError(f"corpus.train_directions or corpus.exclude_directions: {error}") from None
    central_language = find_central_language(settings.central_language, languages.codes)
    directions = [d for d in listed or enumerate_directions(languages, central_language) if d not in excluded]
    if not directions:
        raise CorpusError("corpus.exclude_directions leaves no directions to train on.")
    return list(dict.fromkeys(directions))


def open_corpus(settings: CorpusSettings) -> Corpus:
    """Open the corpus that the settings describe. It must have at least two languages."""
    corpus = _open(settings)
    _check_languages(Languages(corpus.languages), settings)
    return corpus


def _open(settings: CorpusSettings) -> Corpus:
    """Open a corpus or a part of a mixture."""
    corpus: Corpus
    if isinstance(settings, MixtureSettings):
        corpus = MixtureCorpus(settings, [_open(part) for part in settings.parts])
    else:
        corpus = _open_single(settings)
        _check_known(corpus.languages, getattr(settings, "languages", ()))
    return corpus if settings.train_share is None else ResampledCorpus(corpus, settings.train_share)


def _open_single(settings: SingleCorpusSettings) -> Corpus:
    match settings:
        case PhrasebookSettings():
            return PhrasebookCorpus(settings)
        case SyntheticSettings():
            return SyntheticCorpus(settings)
        case MultiwaySettings():
            return MultiwayCorpus(settings)
        case BilingualSettings():
            return BilingualCorpus(settings)
        case TableSettings():
            return TableCorpus(settings)
        case FilesSettings():
            corpus = FilesCorpus(settings)
            print_status(corpus.describe())
            return corpus
        case PreparedSettings():
            return MixtureCorpus(settings, [PreparedText(settings)])  # which applies its code_style


def _check_known(codes: Iterable[str], listed: Sequence[str]) -> None:
    """Raise a LanguageError if text has an unknown language code, unless the settings list the languages."""
    unknown = [code for code in codes if not is_known_language_code(code)]
    if unknown and not listed:
        raise LanguageError(
            f"The corpus has text under unknown language codes: {', '.join(unknown)}. "
            f"List the languages to use in corpus.languages."
        )


def make_zero_shot_sets(
    settings: CorpusSettings,
    folder: Path,
    drop_leaked: bool = False,
    deduplicate_translations: bool = False,
    max_sentences_per_pair: int | None = None,
    include_supervised: bool = False,
) -> list[ZeroShotSetStatistics]:
    """Write test sets for all pairs of languages, aligned through the central language, and return their statistics.

    `drop_leaked` omits sentences that training has seen, `deduplicate_translations` keeps one copy of each repeated
    translation, and `include_supervised` adds the pairs with the central language.
    """
    corpus = open_corpus(settings)
    central_language = require_central_language(find_central_language(settings.central_language, corpus.languages))
    tests = ZeroShotSets(corpus.rows(Split.TEST), central_language, deduplicate_translations, include_supervised)
    return write_zero_shot_sets(
        folder, tests, LeakDetector(tests, corpus.rows(Split.TRAIN)), drop_leaked, max_sentences_per_pair
    )


def read_test_rows(path: Path, codes: Iterable[str] | None) -> list[Row]:
    """Read test text in the given languages, or in all if they are None, in any layout of a corpus of kind `files`.

    A YAML file holds the settings of such a corpus, for text whose layout or languages must be stated, or to select
    some of its languages.
    """
    settings = _read_files_settings(path)
    text = find_split_text(settings, settings.test or settings.path, Split.TEST)
    selected = text.select(settings.languages, settings.code_style) if settings.languages or codes is None else None
    code_by_language = (selected or {}) if codes is None else text.match(codes, selected)
    texts: dict[str, str] = {}  # so that a sentence of many pairs is stored once
    rows: list[Row] = [
        {code: texts.setdefault(sentence, sentence) for code, sentence in row.items()}
        for row in text.rows(code_by_language)
    ]
    if len({code for row in rows for code in row}) < 2:
        found = ", ".join(sorted(text.files)[:MAX_LISTED_NAMES]) or "none"
        raise CorpusError(f"{path} needs test text in at least two languages of the data. It has text in {found}.")
    unknown = ", ".join(sorted(text.files.keys() - code_by_language.keys()))
    which = "that the data lacks" if codes is not None else "that are not listed"
    skipped = f" Skipping test text in languages {which}: {unknown}." if unknown else ""
    print_status(f"{describe_layout(text.path, text.found)}.{skipped}")
    return rows


def read_sentences(path: Path, codes: Collection[str]) -> Iterator[tuple[str | None, str]]:
    """Yield each sentence of a text in the given languages, with its language.

    The text is in any layout of a corpus of kind `files`, or a YAML file holds the settings of such a corpus. All its
    splits are read. Any other file has a sentence of unknown language (None) per line.
    """
    if path.is_file() and not is_table_file(path) and Path(uncompressed_name(path)).suffix not in _CORPUS_SUFFIXES:
        yield from ((None, line) for line in read_lines(path) if line)
        return
    settings = _read_files_settings(path)
    for each in dict.fromkeys((settings.path, settings.dev, settings.test)):
        if each is None:
            continue
        found = settings.find_text(each, settings.layout if each == settings.path else "auto")
        text = SplitText(each, found, found.parts, settings.language_codes)
        selected = text.select(settings.languages, settings.code_style) if settings.languages else None
        for row in text.rows(text.match(codes, selected), min_languages=1):
            yield from row.items()


def _read_files_settings(path: Path) -> FilesSettings:
    if path.suffix not in (".yaml", ".yml"):
        return FilesSettings(path=path)
    return parse_settings(FilesSettings, read_yaml_mapping(path), str(path))


def count_corpus_translations(settings: CorpusSettings) -> TranslationCounts:
    """Count the translations of each training sentence of the central language."""
    corpus = open_corpus(settings)
    central_language = require_central_language(find_central_language(settings.central_language, corpus.languages))
    return count_distinct_translations(corpus.rows(Split.TRAIN), central_language)


def _check_languages(languages: Languages, settings: CorpusSettings) -> Languages:
    if len(languages) < 2:
        found = ", ".join(languages)
        remedy = f" Add translations of {found} into another language." if found else ""
        raise CorpusError(f"A corpus needs at least two languages; this one has {found or 'none'}.{remedy}")
    find_central_language(settings.central_language, languages.codes)
    return languages
