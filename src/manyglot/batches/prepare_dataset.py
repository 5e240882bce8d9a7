"""Prepare a dataset from a corpus: write the text, train the subword model, tokenize, and index the sentence pairs.

The dataset is built in a temporary folder beside its final one and renamed when it is complete. An interrupted
preparation of the same text and settings resumes where it stopped.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from manyglot.batches.encoded_parts import EncodedParts
from manyglot.batches.finished_steps import StepRecord, delete
from manyglot.batches.pair_index import PairIndex, clean_and_write_pair_index
from manyglot.batches.prepared_dataset import INDEXED_SPLITS, PreparedDataset, text_files, write_metadata
from manyglot.batches.token_store import TokenizedSentences, TokenStore, write_token_store
from manyglot.batches.tokenization import TextChunk, read_tokenized_chunk, split_into_chunks, tokenize_missing_chunks
from manyglot.checksums import FileSeal, seal_files
from manyglot.config.base_settings import Settings
from manyglot.corpus.aligned_text import write_aligned_text
from manyglot.corpus.base import Corpus, Split
from manyglot.corpus.cleaning import MAX_DROPPED_EXAMPLES, NO_CLEANING, CleaningSettings
from manyglot.corpus.language_selection import find_central_language
from manyglot.corpus.languages import Direction, Languages
from manyglot.corpus.readers import CorpusSettings, open_corpus, resolve_train_directions
from manyglot.errors import CorpusError, FolderError, SettingsError
from manyglot.files import is_empty_folder
from manyglot.folders import resumable_folder
from manyglot.progress import print_status
from manyglot.vocabulary.extended_model import ExtendedModel
from manyglot.vocabulary.loading import load_subword_model
from manyglot.vocabulary.sentencepiece_model import TooManySubwordsError, train_on_word_counts
from manyglot.vocabulary.subword_model import SubwordModel, VocabularySettings
from manyglot.vocabulary.vocabulary import Vocabulary
from manyglot.vocabulary.word_counts import count_words_of_files, count_words_of_samples

STEPS = "steps"
"""The folder of the records of finished steps, and of the tokenized chunks. A complete dataset does not have it."""


class PreparationSettings(Settings):
    """The settings that determine the prepared data. They are stored with it."""

    corpus: CorpusSettings
    vocabulary: VocabularySettings
    cleaning: CleaningSettings

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, without the licenses of the text, which do not change the data."""
        values = self.model_dump(mode="json", exclude={"corpus": {"license"}})
        for part in values["corpus"].get("parts", ()):
            del part["license"]
        return values


def prepare_dataset(folder: Path, settings: PreparationSettings) -> PreparedDataset:
    """Read the corpus and write its dataset. A folder prepared from the same text and settings is reused."""
    corpus = open_corpus(settings.corpus)
    provenance = {"text": corpus.fingerprint(), **settings.to_dict()}
    if settings.vocabulary.sentencepiece_model is not None:
        serialized = load_subword_model(settings.vocabulary.sentencepiece_model).serialized
        provenance["subwords"] = hashlib.sha256(serialized).hexdigest()
    if folder.exists() and not is_empty_folder(folder):
        if not (folder / "dataset.json").exists():
            raise FolderError(f"{folder} exists and is not a prepared dataset. Choose another `data` folder.")
        dataset = PreparedDataset(folder)
        dataset.check_provenance(provenance)
        print_status(f"{folder} is already prepared from the same text and settings; reusing it.")
        return dataset
    languages = Languages(corpus.languages)
    directions = resolve_train_directions(languages, settings.corpus)
    metadata = {
        "languages": list(languages),
        "central_language": find_central_language(settings.corpus.central_language, languages.codes),
        "directions": directions,
        "provenance": provenance,
    }
    with resumable_folder(folder, provenance) as unfinished:
        metadata |= _build_dataset(unfinished, corpus, languages, directions, settings)
        write_metadata(unfinished, metadata)
        _check_directions(PreparedDataset(unfinished), settings.corpus)
        shutil.rmtree(unfinished / STEPS)  # last, because resuming needs it
    return PreparedDataset(folder)


def _build_dataset(
    folder: Path, corpus: Corpus, languages: Languages, directions: list[Direction], settings: PreparationSettings
) -> dict[str, Any]:
    """Fill the folder; return the counts for the metadata."""
    for rebuilt in ("store", "dataset.json"):
        delete(folder / rebuilt)
    encoded_parts = EncodedParts(settings.corpus, corpus)
    rows = _write_text(folder, corpus, languages)
    if rows[Split.TRAIN] == 0:
        raise CorpusError("The corpus has no training text.")
    print_status(f"Read {', '.join(f'{n:,} {split}' for split, n in rows.items())} rows in {len(languages)} languages.")
    model = folder / "subwords.model"
    text = seal_files(folder, text_files(languages))
    step = StepRecord(folder / STEPS / "subwords.json", folder, [model.name], text)
    if not step.is_finished():
        step.restart()
        _load_or_train_subword_model(folder, languages, settings.vocabulary, encoded_parts).save(model)
        step.write()
    encoded_parts.check_subwords(settings.vocabulary.sentencepiece_model or folder, FileSeal.of(model))
    vocabulary = Vocabulary(load_subword_model(model), languages)
    dropped = {split: DropStatistics() for split in Split}
    subwords = {}
    for split in (Split.TEST, Split.DEV, Split.TRAIN):  # train last: it may drop sentences of the others
        cleaning = NO_CLEANING if split is Split.TEST else settings.cleaning
        subwords[split] = _tokenize_split(folder, vocabulary, split, cleaning, dropped[split], encoded_parts)
        if split in INDEXED_SPLITS:
            _index_pairs(folder, vocabulary, split, directions, cleaning, dropped[split])
    return {
        "rows": rows,
        "dropped": {split: statistics.counts for split, statistics in dropped.items() if statistics.counts},
        "dropped_examples": {split: statistics.examples for split, statistics in dropped.items() if statistics.counts},
        "subwords": subwords[Split.TRAIN],
    }


def _write_text(folder: Path, corpus: Corpus, languages: Languages) -> dict[str, int]:
    """Copy the corpus as line-aligned text unless this is already done; return the number of rows of each split."""
    step = StepRecord(folder / STEPS / "text.json", folder, text_files(languages), {})
    if not step.is_finished():
        step.restart()
        written = {split: write_aligned_text(folder / "text", corpus, split) for split in Split}
        step.write({split: num_rows for split, (num_rows, _) in written.items()})
        for warning in written[Split.TRAIN][1].warnings():
            print_status(f"! {warning}")
    num_rows: dict[str, int] = step.read_result()
    return num_rows


def _load_or_train_subword_model(
    folder: Path, languages: Languages, settings: VocabularySettings, encoded_parts: EncodedParts
) -> SubwordModel:
    """Load the model that the settings name, or train one; train those of languages with subwords of their own.

    If parts of the corpus are prepared, their model is the default.
    """
    if settings.sentencepiece_model is None and encoded_parts.datasets:
        print_status(f"Using the subwords of {encoded_parts.datasets[0].folder}.")
        return encoded_parts.datasets[0].vocabulary.subword_model
    if settings.sentencepiece_model is None:
        return _train_subword_model(folder, languages, settings)
    subword_model = load_subword_model(settings.sentencepiece_model)
    if subword_model.splits_targets_differently:
        raise SettingsError(
            f"vocabulary.sentencepiece_model: {settings.sentencepiece_model} splits targets by other rules than "
            f"sources, but a dataset stores each sentence once. Name another model."
        )
    if not settings.language_specific:
        return subword_model
    for code in settings.language_specific:
        if code not in languages or code in subword_model.further_languages:
            problem = "is not a language of the corpus" if code not in languages else "has subwords of its own already"
            raise SettingsError(f"vocabulary.language_specific: '{code}' {problem}.")
    return ExtendedModel(
        subword_model, {code: _train_own_subwords(folder, code, settings) for code in settings.language_specific}
    )


def _train_own_subwords(folder: Path, code: str, settings: VocabularySettings) -> SubwordModel:
    """Train the subwords of one language. While its text yields fewer subwords than `size`, halve the size."""
    try:
        return _train_subword_model(folder, [code], settings)
    except TooManySubwordsError:
        return _train_own_subwords(folder, code, settings.model_copy(update={"size": settings.size // 2}))


def _train_subword_model(folder: Path, languages: Iterable[str], settings: VocabularySettings) -> SubwordModel:
    """Train a model on all training text of some languages, or on a sample of it."""
    paths = [folder / "text" / f"{Split.TRAIN}.{code}" for code in languages]
    if settings.num_sampled_sentences is None:
        return train_on_word_counts(count_words_of_files(paths), settings)
    return train_on_word_counts(count_words_of_samples(paths, settings.num_sampled_sentences), settings)


@dataclass
class DropStatistics:
    """Counts and examples of the text that cleaning dropped, by language or language pair and by reason."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    examples: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def add(self, language_or_pair: str, reason: str, num_dropped: int, examples: list[str]) -> None:
        """Add to the counts; keep the first examples."""
        self.counts.setdefault(language_or_pair, Counter())[reason] += num_dropped
        kept = self.examples.setdefault(language_or_pair, {}).setdefault(reason, [])
        kept += examples[: MAX_DROPPED_EXAMPLES - len(kept)]


def _index_pairs(
    folder: Path,
    vocabulary: Vocabulary,
    split: Split,
    directions: list[Direction],
    cleaning: CleaningSettings,
    dropped: DropStatistics,
) -> None:
    """Write the pair index of a split and count the dropped pairs."""
    heldout_splits = (Split.TEST, Split.DEV) if split is Split.TRAIN and cleaning.drop_heldout_overlap else ()
    heldout_stores = [_open_token_store(folder, heldout, vocabulary) for heldout in heldout_splits]
    store = _open_token_store(folder, split, vocabulary)
    for language_pair, pairs_by_reason in clean_and_write_pair_index(
        store, directions, cleaning, heldout_stores
    ).items():
        for reason, pairs in pairs_by_reason.items():
            examples = [
                vocabulary.decode([store[i].tolist() for i in sorted(pair)])
                for pair in pairs[:MAX_DROPPED_EXAMPLES].tolist()
            ]
            dropped.add(language_pair, reason, len(pairs), [" ↔ ".join(texts) for texts in examples])


def _open_token_store(folder: Path, split: Split, vocabulary: Vocabulary) -> TokenStore:
    return TokenStore(folder / "store" / split, vocabulary.languages, len(vocabulary.subword_model))


def _tokenize_split(
    folder: Path,
    vocabulary: Vocabulary,
    split: Split,
    cleaning: CleaningSettings,
    dropped: DropStatistics,
    encoded_parts: EncodedParts,
) -> dict[str, Counter[str]]:
    """Tokenize a split and write its token store.

    Return the number of sentences, words, subwords and unknown subwords that each language keeps.
    """
    result_folder = folder / STEPS / split
    result_folder.mkdir(parents=True, exist_ok=True)
    model = folder / "subwords.model"
    row_numbers = result_folder / "row_numbers.npy"
    if encoded_parts.datasets:
        encoded_parts.write_row_numbers(row_numbers, split)
    chunks_by_language: dict[str, list[TextChunk]] = {}
    for code in vocabulary.languages:
        text_file = folder / "text" / f"{split}.{code}"
        encoded = encoded_parts.text(row_numbers, split, code) if encoded_parts.datasets else None
        chunks_by_language[code] = list(split_into_chunks(text_file, model, result_folder, cleaning, encoded))
    tokenize_missing_chunks(chain.from_iterable(chunks_by_language.values()), split)
    counts: dict[str, Counter[str]] = {code: Counter() for code in chunks_by_language}
    for code, chunks in chunks_by_language.items():
        for result in map(read_tokenized_chunk, chunks):
            counts[code] += result.kept_counts
            for reason, num_dropped in result.dropped.items():
                dropped.add(code, reason, num_dropped, result.dropped_examples[reason])
    sentences_by_language = map(_sentences_with_rows, chunks_by_language.values())
    write_token_store(
        folder / "store" / split,
        sentences_by_language,
        num_sentences=sum(count["sentences"] for count in counts.values()),
        num_tokens=sum(count["subwords"] for count in counts.values()),
        vocabulary_size=len(vocabulary),
    )
    return counts


def _sentences_with_rows(chunks: list[TextChunk]) -> Iterator[TokenizedSentences]:
    """Yield the sentences of all chunks of a language, with row numbers that count from the start of the file."""
    first_row = 0
    for result in map(read_tokenized_chunk, chunks):
        sentences = result.sentences
        yield TokenizedSentences(sentences.rows + first_row, sentences.lengths, sentences.tokens)
        first_row += result.num_lines


def _check_directions(dataset: PreparedDataset, settings: CorpusSettings) -> None:
    """Raise an error if a requested direction, or a language, has no training pairs.

    If training uses all language pairs, some of them may have no training pairs.
    """
    index, directions = PairIndex(dataset.token_store(Split.TRAIN)), dataset.train_directions
    empty = [direction for direction in directions if index.num_pairs(direction) == 0]
    is_requested = settings.train_directions or settings.central_language is not None
    if empty and (is_requested or len(empty) == len(directions)):
        raise CorpusError(f"There is no training text for {empty[0]}. Add some, or remove the language.")
    with_pairs = {code for direction in directions if direction not in empty for code in direction}
    without_pairs = [code for code in dataset.languages if code not in with_pairs]
    if without_pairs and not settings.train_directions:
        raise CorpusError(
            f"There are no training pairs with {', '.join(without_pairs)}. List only the others in corpus.languages."
        )
