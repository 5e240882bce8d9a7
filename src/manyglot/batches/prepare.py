"""From a corpus to a prepared dataset: write the text, learn the subwords, store the numbers.

The work is done in a folder beside the dataset's and moved there when it is whole. An interrupted preparation of the
same text and settings goes on with what is not done.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from manyglot.batches.dataset import FORMAT, Dataset
from manyglot.batches.encode import Chunk, chunks_of, encode_all, read_result
from manyglot.batches.pairs import PairsIndex, write_pairs
from manyglot.batches.store import Part, TokenStore, write_store
from manyglot.config.settings import Settings
from manyglot.corpus.cleaning import NOTHING, SHOWN, CleaningSettings
from manyglot.corpus.languages import Direction, Languages
from manyglot.corpus.rows import Corpus, Split
from manyglot.corpus.sources import CorpusSettings, open_corpus, trained_directions
from manyglot.corpus.textfiles import read_lines, write_aligned
from manyglot.errors import CorpusError, FolderError
from manyglot.files import continued, is_empty
from manyglot.progress import say
from manyglot.vocabulary.subwords import Subwords, VocabularySettings, train_subwords
from manyglot.vocabulary.vocabulary import Vocabulary

SAMPLE_TEMPERATURE = 5.0
"""The sentences that subwords are learnt from are sampled by language in proportion to size^(1/temperature)."""


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
    if recipe.vocabulary.model is not None:
        brought = Subwords.load(recipe.vocabulary.model).serialized
        origin["subwords"] = hashlib.sha256(brought).hexdigest()
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
        _check_directions(Dataset(unfinished), recipe.corpus)
        shutil.rmtree(unfinished / "encoded")  # not before everything else is done
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
        _subwords(folder, languages, recipe.vocabulary).save(model.with_suffix(".part"))
        model.with_suffix(".part").replace(model)
    vocabulary = Vocabulary(Subwords.load(model), languages)
    dropped = {split: LeftOut() for split in Split}
    subwords = {}
    for split in (Split.TEST, Split.DEV, Split.TRAIN):  # in this order: training may leave out what the others have
        cleaning = NOTHING if split is Split.TEST else recipe.cleaning
        subwords[split] = _write_store(folder, vocabulary, split, cleaning, dropped[split])
        if split is not Split.TEST:  # which is translated and scored as text
            _write_pairs(folder, vocabulary, split, directions, cleaning, dropped[split])
    return {
        "rows": rows,
        "dropped": {split: each.counts for split, each in dropped.items() if each.counts},
        "dropped_examples": {split: each.examples for split, each in dropped.items() if each.counts},
        "subwords": subwords[Split.TRAIN],
    }


def _write_text(folder: Path, corpus: Corpus, languages: Languages) -> dict[str, int]:
    """Copy the corpus, line-aligned; return the number of rows of each split."""
    done = folder / "text" / "rows.json"
    if not done.exists():
        rows = {split: write_aligned(folder / "text", split, languages, corpus.rows(split)) for split in Split}
        done.with_suffix(".part").write_text(json.dumps(rows), encoding="utf-8")
        done.with_suffix(".part").replace(done)
    counted: dict[str, int] = json.loads(done.read_text("utf-8"))
    return counted


def _subwords(folder: Path, languages: Languages, settings: VocabularySettings) -> Subwords:
    """Those that were brought, or learnt from all text or from a sample."""
    if settings.model is not None:
        return Subwords.load(settings.model)
    text = {code: folder / "text" / f"{Split.TRAIN}.{code}" for code in languages}
    if settings.sample is None:
        return train_subwords((line for path in text.values() for line in read_lines(path) if line), settings)
    sizes = np.array([sum(map(bool, read_lines(path))) for path in text.values()])
    shares = (sizes / sizes.max()) ** (1 / SAMPLE_TEMPERATURE)
    wanted = np.minimum(np.ceil(shares / shares.sum() * settings.sample), sizes).astype(np.int64)
    parts = (every_nth(read_lines(p), *n) for p, n in zip(text.values(), zip(sizes, wanted, strict=True), strict=True))
    return train_subwords(chain.from_iterable(parts), settings)


def every_nth(lines: Iterable[str], size: int, wanted: int) -> Iterator[str]:
    """Some of the lines that are not empty, evenly spread."""
    sentences = (line for line in lines if line)
    return (line for i, line in enumerate(sentences) if (i + 1) * wanted // size > i * wanted // size)


@dataclass
class LeftOut:
    """What cleaning left out of a split: for each language or pair of languages and each reason, how many and some."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    examples: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def add(self, place: str, reason: str, number: int, examples: list[str]) -> None:
        """Note some more."""
        self.counts.setdefault(place, Counter())[reason] += number
        known = self.examples.setdefault(place, {}).setdefault(reason, [])
        known += examples[: SHOWN - len(known)]


def _write_pairs(
    folder: Path,
    vocabulary: Vocabulary,
    split: Split,
    directions: list[Direction],
    cleaning: CleaningSettings,
    dropped: LeftOut,
) -> None:
    """Index the pairs of a split."""
    others = (Split.TEST, Split.DEV) if split is Split.TRAIN and cleaning.drop_overlap else ()
    stores = [TokenStore(folder / "store" / other, vocabulary.languages) for other in others]
    store = TokenStore(folder / "store" / split, vocabulary.languages)
    for place, reasons in write_pairs(store, directions, cleaning, stores).items():
        for reason, pairs in reasons.items():
            some = [vocabulary.decode([store[i].tolist() for i in sorted(pair)]) for pair in pairs[:SHOWN].tolist()]
            dropped.add(place, reason, len(pairs), [" ↔ ".join(texts) for texts in some])


def _write_store(
    folder: Path, vocabulary: Vocabulary, split: Split, cleaning: CleaningSettings, dropped: LeftOut
) -> dict[str, Counter[str]]:
    """Tokenise a split; return how many sentences, words, subwords and unknown ones each language has."""
    results, store = folder / "encoded" / split, folder / "store" / split
    results.mkdir(parents=True, exist_ok=True)
    model = folder / "subwords.model"
    chunks = {
        code: list(chunks_of(folder / "text" / f"{split}.{code}", model, results, cleaning))
        for code in vocabulary.languages
    }
    encode_all((chunk for each in chunks.values() for chunk in each), split)
    counts: dict[str, Counter[str]] = {code: Counter() for code in chunks}
    for code, each in chunks.items():
        for encoded in map(read_result, each):
            counts[code] += encoded.counts
            for reason, number in encoded.dropped.items():
                dropped.add(code, reason, number, encoded.examples[reason])
    sizes = (sum(c["sentences"] for c in counts.values()), sum(c["subwords"] for c in counts.values()))
    write_store(store, map(_parts, chunks.values()), sizes, len(vocabulary))
    return counts


def _parts(chunks: list[Chunk]) -> Iterator[Part]:
    """The sentences of a language; rows are counted through its chunks."""
    line = 0
    for encoded in map(read_result, chunks):
        yield Part(encoded.part.rows + line, encoded.part.lengths, encoded.part.tokens)
        line += encoded.num_lines


def _check_directions(dataset: Dataset, settings: CorpusSettings) -> None:
    """Refuse a direction or a language without text; where all pairs are trained on, some may lack it."""
    index = PairsIndex(dataset.store(Split.TRAIN))
    empty = [direction for direction in dataset.supervised if index.size(direction) == 0]
    if empty and (settings.directions or settings.pivot is not None or len(empty) == len(dataset.supervised)):
        raise CorpusError(f"There is no training text for {empty[0]}. Add some, or leave the language out.")
    served = {code for direction in dataset.supervised if direction not in empty for code in direction}
    unserved = [code for code in dataset.languages if code not in served]
    if unserved and not settings.directions:
        raise CorpusError(f"There is no training pair with {', '.join(unserved)}. List the others in corpus.languages.")
