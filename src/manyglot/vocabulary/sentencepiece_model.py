"""SentencePiece models, trained by `manyglot prepare` or elsewhere."""

from __future__ import annotations

import io
import math
import os
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import ClassVar

import sentencepiece

from manyglot.errors import ManyglotError, SettingsError
from manyglot.progress import progress_counter
from manyglot.vocabulary.sentencepiece_file import remove_input_format
from manyglot.vocabulary.subword_model import EOS, PAD, SPECIAL_PIECES, UNK, SubwordModel, VocabularySettings
from manyglot.vocabulary.word_counts import MAX_SENTENCE_BYTES, count_words


def load_processor(serialized: bytes) -> sentencepiece.SentencePieceProcessor:
    """Load a SentencePiece model; raise a RuntimeError or ValueError if it is none or if a piece is not UTF-8."""
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(serialized)
    processor.IdToPiece(list(range(processor.GetPieceSize())))
    processor.DecodeIds([processor.unk_id()])
    return processor


def read_pieces(serialized: bytes) -> list[str]:
    """Return the pieces of a SentencePiece model in the order of its ids; raise as `load_processor` does."""
    processor = load_processor(serialized)
    pieces: list[str] = processor.IdToPiece(list(range(processor.GetPieceSize())))
    return pieces


class SentencePieceModel(SubwordModel):
    """A SentencePiece model whose numbering determines the ids.

    Our ids start with <pad>, </s> and <unk>, followed by all other pieces. A model trained elsewhere may number them
    differently or lack <pad>; its ids are mapped to ours.
    """

    kind: ClassVar = "sentencepiece"

    def __init__(self, serialized: bytes) -> None:
        self.serialized = serialized
        self._processor = load_processor(serialized)
        symbols = (self._processor.pad_id(), self._processor.eos_id(), self._processor.unk_id())
        pieces = range(self._processor.GetPieceSize())
        special = {*symbols, self._processor.bos_id()}
        self._sentencepiece_ids = [*symbols, *(i for i in pieces if i not in special)]
        self._our_ids = [UNK] * len(pieces)
        for our_id, sentencepiece_id in enumerate(self._sentencepiece_ids):
            if sentencepiece_id >= 0:
                self._our_ids[sentencepiece_id] = our_id
        self._same_numbering = self._sentencepiece_ids == list(pieces)

    def __len__(self) -> int:
        return len(self._sentencepiece_ids)

    def pieces(self) -> list[str]:
        """All subwords as text in the order of our ids. A special symbol that the model lacks gets its usual name."""
        return [
            self._processor.IdToPiece(sentencepiece_id) if sentencepiece_id >= 0 else SPECIAL_PIECES[our_id]
            for our_id, sentencepiece_id in enumerate(self._sentencepiece_ids)
        ]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Split sentences into subword ids without special symbols."""
        ids: list[list[int]] = self._processor.EncodeAsIds(list(texts))
        return ids if self._same_numbering else [[self._our_ids[i] for i in sequence] for sequence in ids]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Join subword ids into sentences."""
        if not self._same_numbering:
            ids = [[self._sentencepiece_ids[i] for i in sequence] for sequence in ids]
        texts: list[str] = self._processor.DecodeIds([list(sequence) for sequence in ids]) if ids else []
        return texts


MIN_CHARACTERS_TO_REPORT = 2**22
"""Training on the words of less text takes about a second, and shows no progress."""
_LOGGED_STEPS = ((b"Loaded all ", 6), (b"Done! preprocessed ", 12), (b"Done! ", 27))
PERCENT_BEFORE_MERGES = 53
"""The share of the training time until SentencePiece logs each step, and until it merges subwords (on 60 languages)."""
_LOGGED_SIZE = re.compile(rb" size=(\d+) ")
SUGGESTED_SIZE_DIVISOR = 7
"""An error suggests this fraction of the subwords that a text can yield, which are nearly all of its words."""


class TooManySubwordsError(SettingsError):
    """The text yields fewer subwords than `vocabulary.size`."""


def train_subword_model(texts: Iterable[str], settings: VocabularySettings) -> SentencePieceModel:
    """Train a BPE model on text without normalizing it. Raise a TooManySubwordsError if the text is too short."""
    return train_on_word_counts(count_words(texts), settings)


def train_on_word_counts(word_counts: Mapping[str, int], settings: VocabularySettings) -> SentencePieceModel:
    """Train a BPE model on the words of text. The result equals that of training on the text, byte for byte.

    SentencePiece trains on one core. Long training runs in a process of its own, so that this one can show progress.
    """
    try:
        if sum(map(len, word_counts)) < MIN_CHARACTERS_TO_REPORT:
            return SentencePieceModel(_train(word_counts, settings, minloglevel=2))
        return SentencePieceModel(_train_with_progress(word_counts, settings))
    except RuntimeError as error:
        raise _explain_training_error(str(error), settings) from None


def _train(word_counts: Mapping[str, int], settings: VocabularySettings, minloglevel: int) -> bytes:
    """Train a model in this process; raise SentencePiece's RuntimeError."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=(f"{word}\t{count}" for word, count in word_counts.items()),
        input_format="tsv",
        model_writer=model,
        model_type="bpe",
        vocab_size=settings.size,
        character_coverage=settings.character_coverage,
        normalization_rule_name="identity",
        split_digits=settings.split_digits,
        byte_fallback=settings.byte_fallback,
        pad_id=PAD,
        eos_id=EOS,
        unk_id=UNK,
        bos_id=-1,
        max_sentence_length=MAX_SENTENCE_BYTES,
        minloglevel=minloglevel,
    )
    return remove_input_format(model.getvalue())


def _train_with_progress(word_counts: Mapping[str, int], settings: VocabularySettings) -> bytes:
    """Train a model in another process, whose log names the number of subwords so far."""
    context = get_context("spawn")
    log_reader, log_writer = context.Pipe(duplex=False)
    result_reader, result_writer = context.Pipe(duplex=False)
    process = context.Process(
        target=_send_trained_model, args=(word_counts, settings, log_writer, result_writer), daemon=True
    )
    with progress_counter("training the subword model", "%", 100) as progress:
        try:
            process.start()
            log_writer.close()
            result_writer.close()
            done = 0
            with os.fdopen(os.dup(log_reader.fileno()), "rb") as log:
                for line in log:
                    percent = max(_estimate_percent(line, settings.size), done)
                    progress.advance(percent - done)
                    done = percent
            result = result_reader.recv()
            progress.advance(100 - done)
        except EOFError:
            raise ManyglotError(
                "The training of the subword model ended before it was done, perhaps because memory ran out. "
                "Set vocabulary.num_sampled_sentences."
            ) from None
        finally:
            process.terminate()
            process.join()
    if isinstance(result, str):
        raise RuntimeError(result)
    model: bytes = result
    return model


def _estimate_percent(log_line: bytes, num_subwords: int) -> int:
    """Estimate how much of the training is done from a line of SentencePiece's log; 0 if the line does not tell.

    The time to merge a pair of subwords is about proportional to its frequency, so the sum grows as the logarithm.
    """
    if match := _LOGGED_SIZE.search(log_line):
        share = math.log1p(int(match[1]) / 20) / math.log1p(num_subwords / 20)
        return min(PERCENT_BEFORE_MERGES + round((100 - PERCENT_BEFORE_MERGES) * share), 100)
    return next((percent for text, percent in _LOGGED_STEPS if text in log_line), 0)


def _send_trained_model(
    word_counts: Mapping[str, int], settings: VocabularySettings, log: Connection, result: Connection
) -> None:
    """Train a model with stderr as its log; send the model, or the message of an error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the main one ends this one
    stderr = os.dup(2)
    os.dup2(log.fileno(), 2)
    log.close()
    try:
        trained: bytes | str = _train(word_counts, settings, minloglevel=0)
    except RuntimeError as error:
        trained = str(error)
    os.dup2(stderr, 2)  # this ends the log
    result.send(trained)


def _explain_training_error(message: str, settings: VocabularySettings) -> SettingsError:
    if limit := re.search(r"<= (\d+)", message):
        suggestion = int(limit[1]) // SUGGESTED_SIZE_DIVISOR // 1000 * 1000
        advice = f"Lower it; about {suggestion} may suit so little text." if suggestion else "Lower it."
        return TooManySubwordsError(
            f"vocabulary.size: {settings.size} is too large; this text yields at most {limit[1]} subwords. {advice}"
        )
    if "required_chars" in message or "too small" in message.lower():
        return SettingsError(
            f"vocabulary.size: {settings.size} is smaller than the number of distinct characters in the text. "
            f"Increase it, or lower vocabulary.character_coverage."
        )
    return SettingsError(f"vocabulary: SentencePiece failed to train: {message}")
