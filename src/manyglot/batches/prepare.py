"""From a corpus to a prepared dataset: write the text, learn the subwords, store the numbers.

The work is done in a folder beside the dataset's and moved there when it is whole. An interrupted preparation of the
same text and settings goes on with what is not done.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from manyglot.batches.dataset import FORMAT, Dataset
from manyglot.batches.encode import Chunk, chunks_of, encode_all, read_result
from manyglot.batches.pairs import PairsIndex, write_pairs
from manyglot.batches.store import Part, TokenStore, write_store
from manyglot.corpus.cleaning import NOTHING, CleaningSettings
from manyglot.corpus.languages import Direction, Languages
from manyglot.corpus.rows import Corpus, Split
from manyglot.corpus.sources import CorpusSettings, open_corpus, trained_directions
from manyglot.corpus.textfiles import read_lines, write_aligned
from manyglot.errors import CorpusError, FolderError
from manyglot.folders import continued, is_empty
from manyglot.progress import say
from manyglot.settings import Settings
from manyglot.vocabulary.subwords import Subwords, VocabularySettings, train_subwords
from manyglot.vocabulary.vocabulary import Vocabulary


class Recipe(Settings):
    """The settings that decide what the text becomes; a dataset remembers them."""

    corpus: CorpusSettings
    vocabulary: VocabularySettings
    cleaning: CleaningSettings

    def as_json(self) -> dict[str, Any]:
        """Plain values, for the dataset's card."""
        return self.model_dump(mode="json")


def prepare(folder: Path, recipe: Recipe) -> Dataset:
    """Read the corpus and write its dataset; a folder already prepared from the same text and settings is used."""
    corpus = open_corpus(recipe.corpus)
    origin = {"text": corpus.fingerprint(), **recipe.as_json()}
    if folder.exists() and not is_empty(folder):
        if not (folder / "dataset.json").exists():
            raise FolderError(f"{folder} exists and holds something else. Choose another `data` folder.")
        dataset = Dataset(folder)
        dataset.check_origin(origin)
        say(f"{folder} is already prepared from the same text and settings; using it.")
        return dataset
    languages = Languages(corpus.languages)
    directions = trained_directions(languages, recipe.corpus)
    card = {
        "format": FORMAT,
        "languages": list(languages),
        "pivot": recipe.corpus.pivot,
        "directions": directions,
        "origin": origin,
    }
    with continued(folder, origin) as unfinished:
        card |= _build(unfinished, corpus, languages, directions, recipe)
        (unfinished / "dataset.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
        _check_directions(Dataset(unfinished))
    return Dataset(folder)


def _build(
    folder: Path, corpus: Corpus, languages: Languages, directions: list[Direction], recipe: Recipe
) -> dict[str, Any]:
    """Fill the folder; return the counts for its card."""
    rows = _write_text(folder, corpus, languages)
    if rows[Split.TRAIN] == 0:
        raise CorpusError("The corpus has no training text.")
    say(f"Read {', '.join(f'{n:,} {split}' for split, n in rows.items())} rows in {len(languages)} languages.")
    model = folder / "subwords.model"
    if not model.exists():
        train_subwords(_sentences(folder, languages), recipe.vocabulary).save(model)
    vocabulary = Vocabulary(Subwords.load(model), languages)
    dropped = {}
    for split in (Split.TEST, Split.DEV, Split.TRAIN):  # in this order: training may leave out what the others have
        cleaning = NOTHING if split is Split.TEST else recipe.cleaning
        dropped[split] = _write_store(folder, vocabulary, split, cleaning)
        if split is not Split.TEST:  # which is translated and scored as text
            dropped[split] |= _write_pairs(folder, languages, split, directions, cleaning)
    return {"rows": rows, "dropped": {split: counts for split, counts in dropped.items() if counts}}


def _write_text(folder: Path, corpus: Corpus, languages: Languages) -> dict[str, int]:
    """Copy the corpus, line-aligned; return the number of rows of each split."""
    done = folder / "text" / "rows.json"
    if not done.exists():
        rows = {split: write_aligned(folder / "text", split, languages, corpus.rows(split)) for split in Split}
        done.write_text(json.dumps(rows), encoding="utf-8")
    counted: dict[str, int] = json.loads(done.read_text("utf-8"))
    return counted


def _sentences(folder: Path, languages: Languages) -> Iterator[str]:
    for code in languages:
        yield from (line for line in read_lines(folder / "text" / f"{Split.TRAIN}.{code}") if line)


def _write_pairs(
    folder: Path, languages: Languages, split: Split, directions: list[Direction], cleaning: CleaningSettings
) -> dict[str, Counter[str]]:
    """Index the pairs of a split; return how many were left out, by reason."""
    others = (Split.TEST, Split.DEV) if split is Split.TRAIN and cleaning.drop_overlap else ()
    stores = [TokenStore(folder / "store" / other, languages) for other in others]
    return write_pairs(TokenStore(folder / "store" / split, languages), directions, cleaning, stores)


def _write_store(
    folder: Path, vocabulary: Vocabulary, split: Split, cleaning: CleaningSettings
) -> dict[str, Counter[str]]:
    """Tokenise a split; return how many sentences of each language were left out, by reason."""
    results, store = folder / "encoded" / split, folder / "store" / split
    results.mkdir(parents=True, exist_ok=True)
    chunks = {
        code: list(chunks_of(folder / "text" / f"{split}.{code}", folder / "subwords.model", results, cleaning))
        for code in vocabulary.languages
    }
    encode_all((chunk for each in chunks.values() for chunk in each), split)
    dropped: dict[str, Counter[str]] = {}
    num_sentences = num_tokens = 0
    for code, each in chunks.items():
        for encoded in map(read_result, each):
            num_sentences += len(encoded.part.rows)
            num_tokens += len(encoded.part.tokens)
            if encoded.dropped:
                dropped[code] = dropped.get(code, Counter()) + encoded.dropped
    write_store(store, map(_parts, chunks.values()), (num_sentences, num_tokens), len(vocabulary))
    shutil.rmtree(results)
    return dropped


def _parts(chunks: list[Chunk]) -> Iterator[Part]:
    """The sentences of a language; rows are counted through its chunks."""
    line = 0
    for encoded in map(read_result, chunks):
        yield Part(encoded.part.rows + line, encoded.part.lengths, encoded.part.tokens)
        line += encoded.num_lines


def _check_directions(dataset: Dataset) -> None:
    """Refuse a direction without text; without a pivot some pairs may lack it, but not all."""
    index = PairsIndex(dataset.store(Split.TRAIN))
    empty = [direction for direction in dataset.supervised if index.size(direction) == 0]
    if empty and (dataset.pivot is not None or len(empty) == len(dataset.supervised)):
        raise CorpusError(f"There is no training text for {empty[0]}. Add some, or leave the language out.")
