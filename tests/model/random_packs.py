"""Models and language packs with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from manyglot.corpus.languages import Direction, Languages
from manyglot.model.guidance.base import MethodSettings
from manyglot.model.language_pack import LanguagePack
from manyglot.model.model_folder import TrainedModel, load_model, save_model
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.extended_model import ExtendedModel
from manyglot.vocabulary.sentencepiece_model import train_subword_model
from manyglot.vocabulary.subword_model import SubwordModel, VocabularySettings
from manyglot.vocabulary.vocabulary import Vocabulary

TEXT = {
    "de": ["eins zwei drei vier", "die Katze schläft im Haus", "fünf Vögel singen laut", "der Hund läuft weg"],
    "en": ["one two three four", "the cat sleeps in the house", "five birds sing loudly", "the dog runs away"],
    "ka": ["ერთი ორი სამი ოთხი", "კატა სძინავს სახლში", "ხუთი ჩიტი მღერის", "ძაღლი გარბის ტყეში"],
    "sw": ["moja mbili tatu nne", "paka analala ndani ya nyumba", "ndege watano wanaimba", "mbwa anakimbia mbali"],
}
OLD, NEW = ("de", "en"), ("ka", "sw")
SETTINGS = ModelSettings(width=16, ffn_width=16, num_heads=2, num_encoder_layers=1, num_decoder_layers=1)


def subwords(*codes: str, size: int = 80) -> SubwordModel:
    return train_subword_model([line for code in codes for line in TEXT[code]] * 3, VocabularySettings(size=size))


def random_model(
    vocabulary: Vocabulary, methods: Sequence[MethodSettings], seed: int, **settings: object
) -> Transformer:
    torch.manual_seed(seed)
    sizes = SETTINGS.model_copy(update=settings)
    model = Transformer(sizes, methods, len(vocabulary.subword_model), len(vocabulary.languages)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
        model.embedding.weight *= 3
    return model


def save_random_model(
    folder: Path, methods: Sequence[MethodSettings], seed: int = 1, **settings: object
) -> TrainedModel:
    """Write a model folder with random weights, and load it."""
    vocabulary = Vocabulary(subwords(*OLD), Languages(OLD))
    model = random_model(vocabulary, methods, seed, **settings)
    config = {
        "model": model.settings.model_dump(mode="json"),
        "guidance": [method.model_dump(mode="json") for method in methods],
        "training": {},
        "decoding": {"beam_size": 3, "max_length": 12},
    }
    directions = (Direction("de", "en"), Direction("en", "de"))
    save_model(folder, TrainedModel(model, vocabulary, directions, config, {"step": 1, "steps": 1}))
    return load_model(folder)


def save_random_pack(folder: Path, original: TrainedModel, code: str, seed: int = 2) -> Path:
    """Write a language pack with random weights."""
    extended = ExtendedModel(original.vocabulary.subword_model, {code: subwords(code, size=70)})
    vocabulary = Vocabulary(extended, Languages([*original.vocabulary.languages, code]))
    model = random_model(vocabulary, original.model.methods, seed, **original.model.settings.model_dump())
    trained = replace(original, model=model, vocabulary=vocabulary, trained_directions=(Direction("en", code),))
    LanguagePack.extract(trained, [code], original).save(folder)
    return folder
