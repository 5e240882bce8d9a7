"""Random models for the tests of exporters."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from manyglot.batches.batch import collate_sources
from manyglot.config.base_settings import parse_settings
from manyglot.corpus.languages import Languages
from manyglot.decoding.beam_search import BeamSearch
from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.search_batch import SearchBatch
from manyglot.decoding.settings import DecodingSettings
from manyglot.model.guidance.base import MethodSettings
from manyglot.model.layers import DecoderLayer
from manyglot.model.model_folder import TrainedModel
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.sentencepiece_model import train_subword_model
from manyglot.vocabulary.subword_model import EOS, PAD, UNK, VocabularySettings
from manyglot.vocabulary.vocabulary import Vocabulary

CODES = ("de", "en", "fr")
TEXT = ["Once upon a midnight dreary, while I pondered, weak and weary,", "over many a quaint and curious volume"] * 9
VOCABULARY = Vocabulary(train_subword_model(TEXT, VocabularySettings(size=64)), Languages(CODES))
SETTINGS = DecodingSettings(beam_size=3, max_length=40)


def random_model(
    methods: Sequence[MethodSettings], norm: str = "post", end: float = 3, **changes: object
) -> TrainedModel:
    """Return a random model biased against tags, <pad> and <unk>, and towards the end symbol."""
    torch.manual_seed(0)
    sizes = {"width": 16, "ffn_width": 32, "num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 3}
    settings = parse_settings(ModelSettings, {**sizes, "norm": norm, **changes})
    model = Transformer(settings, methods, len(VOCABULARY.subword_model), len(CODES)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        model.embedding.weight *= 2
        layer = model.decoder[-1]
        assert isinstance(layer, DecoderLayer)
        last = model.decoder_final_norm if norm == "pre" else layer.ffn_sublayer.norm
        assert isinstance(last, torch.nn.LayerNorm)
        last.weight[0], last.bias[0] = 0, 1
        model.embedding.weight[:, 0] = 0
        model.embedding.weight[EOS, 0] = end
        model.embedding.weight[[PAD, UNK, *range(len(VOCABULARY.subword_model), len(VOCABULARY))], 0] = -12
    return TrainedModel(model, VOCABULARY, (), {"decoding": SETTINGS.model_dump()})


def sentences(number: int = 16, longest: int = 12) -> tuple[list[list[int]], list[int]]:
    """Return random sentences of mixed lengths and their target languages."""
    rng = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, longest + 1, (number,), generator=rng).tolist()
    sources = [torch.randint(UNK + 1, len(VOCABULARY.subword_model), (n,), generator=rng).tolist() for n in lengths]
    return sources, torch.randint(0, len(CODES), (number,), generator=rng).tolist()


def native(
    trained: TrainedModel, sources: list[list[int]], languages: list[int], settings: DecodingSettings
) -> list[list[Hypothesis]]:
    search = BeamSearch(trained.model, settings)
    return search.search(SearchBatch(collate_sources(sources, languages, search.tags), languages))
