"""From a corpus to a prepared dataset: write the text, learn the subwords, store the numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from manyglot.batches.dataset import FORMAT, Dataset
from manyglot.batches.store import write_sentences
from manyglot.corpus.cleaning import CleaningSettings, clean
from manyglot.corpus.languages import Languages
from manyglot.corpus.rows import Corpus, Split
from manyglot.corpus.sources import CorpusSettings, open_corpus
from manyglot.corpus.textfiles import read_lines, write_aligned
from manyglot.errors import CorpusError, FolderError
from manyglot.folders import is_empty, written_whole
from manyglot.progress import bar, say
from manyglot.settings import Settings
from manyglot.vocabulary.subwords import VocabularySettings, train_subwords
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
    card = {"format": FORMAT, "languages": list(languages), "pivot": recipe.corpus.pivot, "origin": origin}
    with written_whole(folder) as unfinished:
        card |= _build(unfinished, corpus, languages, recipe)
        (unfinished / "dataset.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
        _check_directions(Dataset(unfinished))
    return Dataset(folder)


def _build(folder: Path, corpus: Corpus, languages: Languages, recipe: Recipe) -> dict[str, Any]:
    """Fill the folder; return the counts for its card."""
    rows = {split: write_aligned(folder / "text", split, languages, corpus.rows(split)) for split in Split}
    if rows[Split.TRAIN] == 0:
        raise CorpusError("The corpus has no training text.")
    say(f"Read {', '.join(f'{n:,} {split}' for split, n in rows.items())} rows in {len(languages)} languages.")
    subwords = train_subwords(_sentences(folder, languages), recipe.vocabulary)
    subwords.save(folder / "subwords.model")
    vocabulary = Vocabulary(subwords, languages)
    dropped = {
        split: _write_store(folder, vocabulary, split, recipe.cleaning)
        for split in (Split.TRAIN, Split.DEV)  # test text is scored as text
    }
    return {"rows": rows, "dropped": dropped}


def _sentences(folder: Path, languages: Languages) -> Iterator[str]:
    for code in languages:
        yield from (line for line in read_lines(folder / "text" / f"{Split.TRAIN}.{code}") if line)


def _write_store(
    folder: Path, vocabulary: Vocabulary, split: Split, cleaning: CleaningSettings
) -> dict[str, Counter[str]]:
    """Tokenise a split; return how many sentences of each language were left out, by reason."""
    dropped: dict[str, Counter[str]] = {}
    with bar(f"tokenising {split}", total=len(vocabulary.languages)) as progress:
        for code in vocabulary.languages:
            subwords = vocabulary.encode(list(read_lines(folder / "text" / f"{split}.{code}")))
            counts: Counter[str] = Counter()
            kept = list(clean(enumerate(subwords), cleaning, counts))
            write_sentences(folder / "store" / split, code, kept, len(vocabulary))
            if counts:
                dropped[code] = counts
            progress.advance(note=code)
    return dropped


def _check_directions(dataset: Dataset) -> None:
    """Refuse a direction without text; without a pivot some pairs may lack it, but not all."""
    store = dataset.store(Split.TRAIN)
    empty = [d for d in dataset.supervised if len(store.pairs(d)[0]) == 0]
    if empty and (dataset.pivot is not None or len(empty) == len(dataset.supervised)):
        raise CorpusError(f"There is no training text for {empty[0]}. Add some, or leave the language out.")
