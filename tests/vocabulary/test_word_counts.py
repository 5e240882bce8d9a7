"""Training on word counts gives the subwords of training on the text."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pytest

from manyglot.errors import SettingsError
from manyglot.vocabulary import sentencepiece_model, word_counts
from manyglot.vocabulary.sentencepiece_model import train_on_word_counts, train_subword_model
from manyglot.vocabulary.subword_model import EOS, PAD, UNK, VocabularySettings
from manyglot.vocabulary.word_counts import count_words, count_words_of_files, count_words_of_samples, split_into_ranges

SENTENCES = [
    *(f"Das Wort {i} steht {'sehr ' * (i % 4)}oft im Text von {i % 13}." for i in range(300)),
    *(f"第{i}句没有空格，这是中文{i % 7}。" for i in range(100)),
    "two  spaces and a\ttab between words",
    "a literal \u2581 space symbol\u2581inside",
    "the unknown symbol \u2585 here qqqq",
    "no-break\u00a0space and\u3000ideographic space",
    "long " * 20_000,
]


def train_on_text(sentences: list[str], settings: VocabularySettings) -> bytes:
    """Train SentencePiece on sentences, as its documentation shows."""
    model = io.BytesIO()
    sentencepiece_model.sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(sentences),
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
        max_sentence_length=65_536,
        minloglevel=2,
    )
    return model.getvalue()


@pytest.mark.parametrize(
    "settings",
    [
        VocabularySettings(size=200),
        VocabularySettings(size=130, split_digits=True, character_coverage=0.99),
        VocabularySettings(size=450, byte_fallback=True),
    ],
)
def test_word_counts_give_the_model_of_the_text(settings: VocabularySettings) -> None:
    expected = train_on_text(SENTENCES, settings)
    assert train_subword_model(SENTENCES, settings).serialized == expected
    assert train_subword_model(SENTENCES[::-1], settings).serialized == expected


def test_ranges_and_workers_do_not_change_the_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.de"
    path.write_text("".join(f"{sentence}\n\n" for sentence in SENTENCES), encoding="utf-8")
    expected = count_words(SENTENCES)
    monkeypatch.setattr(word_counts, "MIN_PARALLEL_BYTES", 0)
    monkeypatch.setattr(word_counts, "CHUNK_BYTES", 5000)
    assert len(split_into_ranges(path, 5000)) > 3
    assert count_words_of_files([path, path]) == expected + expected
    assert count_words_of_samples([path], 10**6) == expected
    assert 0 < count_words_of_samples([path], 10).total() < 300


def test_training_in_another_process_reports_progress(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = VocabularySettings(size=300)
    expected = train_subword_model(SENTENCES, settings).serialized
    monkeypatch.setattr(sentencepiece_model, "MIN_CHARACTERS_TO_REPORT", 0)
    monkeypatch.setattr("manyglot.progress.SECONDS_BETWEEN_LINES", 0)
    counts = count_words(SENTENCES)
    assert train_on_word_counts(counts, settings).serialized == expected
    lines = capfd.readouterr().err.splitlines()
    assert lines[0].startswith("training the subword model 0/100 %")
    assert lines[-1].startswith("training the subword model: 100 % in ")
    assert all(line.startswith("training the subword model") for line in lines)
    with pytest.raises(SettingsError, match="yields at most"):
        train_on_word_counts(counts, VocabularySettings(size=60_000))
    with pytest.raises(SettingsError, match="distinct characters"):
        train_on_word_counts(Counter({chr(0x4E00 + i): 1 for i in range(300)}), VocabularySettings(size=64))
