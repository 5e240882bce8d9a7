"""Recognize the layout of a published corpus by the names of its files, and find the parts of the corpus.

| layout | files |
|---|---|
| aligned | train.de, train.en, dev.de, … |
| pairs | Europarl.de-en.de and the other names of bilingual corpora |
| flores | dev/deu_Latn.dev, devtest/deu_Latn.devtest (FLORES-200) |
| ntrex | newstest2019-src.eng.txt, newstest2019-ref.deu.txt (NTREX-128) |
| tatoeba | deu-eng/train.src.gz, train.trg.gz, train.id.gz, dev.src, … (Tatoeba Challenge) |
| tmx | translation memories such as TICO-19 |
| table | TSV, JSONL and Parquet with a column per language; FLORES+; the tables of TICO-19 |
| stated | files whose names end with names that the settings map to languages: newstest.src, newstest.ref |

Files may be compressed, and inside zip archives.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import Literal, NamedTuple, get_args

from manyglot.corpus.base import SPLIT_ALIASES, Split
from manyglot.corpus.bilingual import FILE_NAME_PATTERNS
from manyglot.corpus.decompression import uncompressed_name
from manyglot.corpus.languages import looks_like_language_code
from manyglot.corpus.sentence_tables import SENTENCE_COLUMNS, SentenceTables, SentenceTableText, is_sentence_table
from manyglot.corpus.table_file import TABLE_SUFFIXES, TableFile, is_tsv
from manyglot.corpus.text_parts import (
    LINE_LABELS,
    TICO_COLUMNS,
    AlignedText,
    PairTableText,
    TableText,
    TextPart,
    TmxText,
)
from manyglot.corpus.zip_archives import TextSource, list_zip_members
from manyglot.errors import CorpusError, shorten

Layout = Literal["aligned", "pairs", "flores", "ntrex", "tatoeba", "tmx", "table", "stated"]
_SPECIFIC_LAYOUTS: Set[Layout] = {"flores", "ntrex", "tatoeba", "stated"}
"""Layouts with names of their own. Other files beside them, such as metadata in a table, are no text."""
_SPLITS = "|".join(SPLIT_ALIASES)
_FLORES = re.compile(r"(.*/)?(?P<code>[a-z]{3}(_\w+)?)\.(?P<split>dev|devtest)")
_NTREX = re.compile(r"(?P<set>(.*/)?newstest\d+)-(src|ref)\.(?P<code>[\w-]+)\.txt")
_TATOEBA = re.compile(rf"(?P<folder>(.*/)?(?P<pair>[\w-]+))/(?P<split>{_SPLITS})\.(?P<side>src|trg|id)")
_PAIR_PATTERNS = [re.compile(rf"(.*/)?{pattern.pattern}") for pattern in FILE_NAME_PATTERNS]
_MOSES = re.compile(r"(.*[./])?(?P<pair>[\w-]+)\.(?P<code>[\w-]+)")
_ALIGNED = re.compile(rf"(?P<folder>(.*/)?)(?P<split>{_SPLITS})\.(?P<code>[\w-]+)")
_NEVER_LANGUAGES = {"src", "trg", "ref", "id", "ids", "md", "txt", "xml", "json", "yaml"}


@dataclass(frozen=True)
class FoundText:
    """The text of a folder or file."""

    layout: Layout
    parts: list[TextPart]
    ignored: list[str]
    """Files that the layout does not use."""


class _File(NamedTuple):
    source: TextSource
    name: str
    """The path from the folder given by the user on, with slashes and without the suffix of the compression."""


class _Match(NamedTuple):
    """What the name of a file says."""

    layout: Layout
    group: str
    """Files of one group and split belong together."""
    split: Split | None
    language: str
    languages: tuple[str, ...] = ()
    """All languages of the group, if the name tells them."""


def find_text(
    path: Path, layout: Layout | None = None, stated: Set[str] = frozenset(), columns: Sequence[str] = ()
) -> FoundText:
    """Find the text in a folder, in a file, or in the files whose names begin with a path.

    The layout is detected unless it is given. `stated` are the names that the settings map to languages, and `columns`
    those of TSV files without a header.
    """
    try:
        files = list(_list_files(path))
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        raise CorpusError(f"Cannot read {path}: {getattr(error, 'strerror', None) or error}.") from None
    matches = [(file, match) for file in files if (match := _match_name(file.name, layout, stated))]
    if not matches:
        expected = f"of layout '{layout}'" if layout else f"in a known layout ({', '.join(get_args(Layout))})"
        raise CorpusError(f"{path} contains no text {expected}. Give another path or layout.")
    chosen = layout or _choose_layout(path, matches)
    if chosen not in ("table", "tmx") and matches[0][0].source == path:
        raise CorpusError(f"{path} is one of several files. Give its folder, or the beginning of their names.")
    used = [(file, match) for file, match in matches if match.layout == chosen]
    sources = {file.source for file, _ in used}
    ignored = [str(file.source) for file in files if file.source not in sources]
    if chosen == "table":
        parts = _table_parts([(file.source, match.split) for file, match in used], tuple(columns), stated)
    elif columns:
        raise CorpusError(f"corpus.columns names the columns of TSV files, but {path} has none. Remove it.")
    elif chosen == "tmx":
        parts = [TmxText(match.split, file.source) for file, match in used]
    else:
        parts = list(_aligned_parts(used))
    return FoundText(chosen, parts, ignored)


def _list_files(path: Path) -> Iterator[_File]:
    """Yield the files of a folder and of the archives in it, without hidden ones, in the order of their names."""
    root = Path(os.path.abspath(path))
    if path.is_dir():
        paths = sorted(file for file in path.rglob("*") if not file.is_dir())
    elif path.exists():
        paths, root = [path], root.parent
    else:
        paths, root = sorted(path.parent.glob(f"{glob.escape(path.name)}.*")), root.parent
        if not paths:
            raise CorpusError(f"There is no file or folder {path}, and no file whose name begins so.")
    for file in paths:
        relative = Path(os.path.abspath(file)).relative_to(root.parent)
        if any(part.startswith(".") for part in relative.parts[1:]):
            continue
        if file.suffix.lower() == ".zip":
            for member in list_zip_members(file):
                folder = PurePosixPath(relative.with_suffix("").as_posix(), member.member).parent
                yield _File(member, (folder / uncompressed_name(member)).as_posix())
        else:
            yield _File(file, relative.with_name(uncompressed_name(file)).as_posix())


def _match_name(name: str, layout: Layout | None, stated: Set[str]) -> _Match | None:
    """Return what a name says in the first layout that it fits."""
    for match in _iter_matches(name, stated):
        if layout in (None, match.layout):
            return match
    return None


def _iter_matches(name: str, stated: Set[str]) -> Iterator[_Match]:
    stem, _, ending = name.rpartition(".")
    if f".{ending}" in TABLE_SUFFIXES:
        yield _Match("table", name, _split_in(name), "")
        return
    if ending == "tmx":
        yield _Match("tmx", name, _split_in(name), "")
        return
    if found := _TATOEBA.fullmatch(name):
        pair = _pair_languages(found["pair"])
        if pair:
            language = {"src": pair[0], "trg": pair[1], "id": LINE_LABELS}[found["side"]]
            yield _Match("tatoeba", found["folder"], SPLIT_ALIASES[found["split"]], language, pair)
    if found := _FLORES.fullmatch(name):
        yield _Match("flores", "", SPLIT_ALIASES[found["split"]], found["code"])
    if found := _NTREX.fullmatch(name):
        yield _Match("ntrex", found["set"], _split_in(name), found["code"])
    for pattern in (*_PAIR_PATTERNS, _MOSES):
        found = pattern.fullmatch(name)
        if found and (pair := _pair_languages(found["pair"], found["code"])):
            split = _split_in(name) if pattern is _MOSES else SPLIT_ALIASES[found["split"]]
            yield _Match("pairs", name.removesuffix(found["code"]), split, found["code"], pair)
            break
    if (found := _ALIGNED.fullmatch(name)) and found["code"] not in _NEVER_LANGUAGES:
        yield _Match("aligned", found["folder"], SPLIT_ALIASES[found["split"]], found["code"])
    if stem and ending in stated:
        yield _Match("stated", stem, _split_in(name), ending)


def _pair_languages(pair: str, code: str | None = None) -> tuple[str, str] | None:
    """Split the name of a pair, such as de-en, de_en or en-pt_BR; `code` is one of its languages, if known."""
    splits = [(pair[: match.start()], pair[match.end() :]) for match in re.finditer("[-_]", pair)]
    splits = [each for each in splits if all(map(looks_like_language_code, each)) and (code is None or code in each)]
    if code is None and (dashed := [each for each in splits if "-" not in "".join(each)]) and "-" in pair:
        splits = dashed
    return splits[0] if len(splits) == 1 or (splits and code is not None) else None


def _split_in(name: str) -> Split | None:
    """Return the split that a file name, or else the nearest folder, names."""
    *folders, file_name = name.split("/")
    splits = {SPLIT_ALIASES[word] for word in re.split(r"[._-]", file_name) if word in SPLIT_ALIASES}
    if len(splits) > 1:
        raise CorpusError(f"{name}: the file name contains more than one of train, dev and test. Rename it.")
    splits_of_folders = (SPLIT_ALIASES[folder] for folder in reversed(folders) if folder in SPLIT_ALIASES)
    return next(iter(splits), None) or next(splits_of_folders, None)


def _choose_layout(path: Path, matches: list[tuple[_File, _Match]]) -> Layout:
    examples: dict[Layout, _File] = {}
    for file, match in matches:
        examples.setdefault(match.layout, file)
    metadata: set[Layout] = {"table"} if not any(m.split for _, m in matches if m.layout == "table") else set()
    layouts = [layout for layout in examples if layout in _SPECIFIC_LAYOUTS]
    layouts = layouts or [layout for layout in examples if layout not in metadata] or list(examples)
    if len(layouts) > 1:
        found = ", ".join(f"{layout} ({shorten(str(examples[layout].source))})" for layout in layouts)
        raise CorpusError(f"{path} has files of several layouts: {found}. Set corpus.layout to one of them.")
    return layouts[0]


def _aligned_parts(files: list[tuple[_File, _Match]]) -> Iterator[TextPart]:
    groups: dict[tuple[str, Split | None], dict[str, TextSource]] = {}
    languages: dict[tuple[str, Split | None], tuple[str, ...]] = {}
    for file, match in files:
        key = (match.group, match.split)
        languages[key] = match.languages
        other = groups.setdefault(key, {}).setdefault(match.language, file.source)
        if other != file.source:
            what = f"text in {match.language}" if match.language else "labels of the same lines"
            raise CorpusError(f"{other} and {file.source} are both {what}. Keep one of them.")
    for key, group in groups.items():
        layout = next(match.layout for _, match in files)
        first = next(iter(group.values()))
        if missing := [code for code in languages[key] if code not in group]:
            raise CorpusError(f"{first} has no counterpart in {shorten(missing[0])}. Add the file, or remove this one.")
        if layout == "stated" and len(group) < 2:
            raise CorpusError(f"{first} has no counterpart: no other ending of corpus.language_codes exists.")
        yield AlignedText(key[1], dict(sorted(group.items())))


def _table_parts(
    files: list[tuple[TextSource, Split | None]], columns: tuple[str, ...], stated: Set[str]
) -> list[TextPart]:
    """Return a part per table; tables with a sentence per record form one part per split."""
    if columns and not any(is_tsv(PurePath(source.name)) for source, _ in files):
        raise CorpusError(f"corpus.columns names the columns of TSV files, but {files[0][0]} is none. Remove it.")
    parts: list[TextPart] = []
    sentence_tables: list[tuple[TableFile, Split | None]] = []
    for source, split in files:
        special = TableFile(source, columns, frozenset((*stated, *SENTENCE_COLUMNS, *TICO_COLUMNS)))
        names = next(special.records(), {}).keys()
        if is_sentence_table(source, names):
            sentence_tables.append((TableFile(source, columns, SENTENCE_COLUMNS), split))
        elif names >= set(TICO_COLUMNS):
            parts.append(PairTableText(split, TableFile(source, columns, frozenset(TICO_COLUMNS))))
        else:
            parts.append(TableText(split, TableFile(source, columns, stated, allows_names=bool(columns))))
    contents = SentenceTables(sentence_tables)
    return [*parts, *(SentenceTableText(split, contents) for split in contents.names_by_split)]
