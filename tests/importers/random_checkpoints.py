"""Random models of transformers with tokenizers trained on some text, written by `save_pretrained`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tests.vocabulary.tiny_models import pieces_of, tiny_sentencepiece

FAMILIES = ("nllb", "m2m100", "mbart50", "marian", "marian_multilingual")
NLLB_LANGUAGES = ("deu_Latn", "eng_Latn", "kat_Geor", "zho_Hans")
MARIAN_TAGS = (">>deu<<", ">>nld<<", ">>zho_Hans<<")
TOKENIZER_CLASSES = {"nllb": "NllbTokenizer", "m2m100": "M2M100Tokenizer", "mbart50": "MBart50Tokenizer"}
MODEL_TYPES = {"nllb": "m2m_100", "m2m100": "m2m_100", "mbart50": "mbart"}
SPREADS_AND_END_LOGITS = {
    "nllb": (0.7, 5.0),
    "m2m100": (1.0, 5.0),
    "mbart50": (0.7, 6.5),
    "marian": (0.7, 8.0),
    "marian_multilingual": (0.7, 8.3),
}
"""The standard deviation of weights, times the root of the width, and the logit of the end symbol. They give outputs
of varying lengths."""
LOGIT_SCALE = 4.0


def write_tokenizer(family: str, folder: Path, text: Sequence[str], size: int = 300) -> None:
    """Train a tokenizer of a family on some text, and save it as transformers does."""
    from transformers import AutoTokenizer

    raw = folder.with_name(f"{folder.name}-raw")
    raw.mkdir(parents=True)
    config: dict[str, Any] = {"tokenizer_class": TOKENIZER_CLASSES.get(family, "MarianTokenizer")}
    lines = tuple(text)
    if family.startswith("marian"):
        models = {
            "source.spm": tiny_sentencepiece(size, "unigram", lines),
            "target.spm": tiny_sentencepiece(size, "bpe", lines),
        }
        pieces = sorted({piece for model in models.values() for piece in pieces_of(model)})
        tags = MARIAN_TAGS if family == "marian_multilingual" else ()
        table = ["</s>", "<unk>", *pieces[:50], *tags, *pieces[50:], "<pad>"]
        config |= {"source_lang": "eng", "target_lang": "mul" if tags else "deu"}
    else:
        models = {
            "sentencepiece.bpe.model": tiny_sentencepiece(size, "unigram" if family == "mbart50" else "bpe", lines)
        }
        table = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(models["sentencepiece.bpe.model"])]
        if family == "nllb":
            config["additional_special_tokens"] = list(NLLB_LANGUAGES)
    for name, model in models.items():
        (raw / name).write_bytes(model)
    if family == "m2m100" or family.startswith("marian"):
        (raw / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(table)}), "utf-8")
    (raw / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    (raw / "config.json").write_text(json.dumps({"model_type": MODEL_TYPES.get(family, "marian")}), "utf-8")
    AutoTokenizer.from_pretrained(raw).save_pretrained(folder)
    shutil.rmtree(raw)


def write_model(
    family: str,
    folder: Path,
    width: int = 32,
    end_logit: float | None = None,
    seed: int = 0,
    logit_scale: float = LOGIT_SCALE,
    **values: Any,
) -> None:
    """Write a random model for the tokenizer in a folder."""
    import transformers

    torch.manual_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    shape = {
        "d_model": width,
        **{f"{stack}_layers": 2 for stack in ("encoder", "decoder")},
        **{f"{stack}_attention_heads": 4 for stack in ("encoder", "decoder")},
        **{f"{stack}_ffn_dim": 2 * width for stack in ("encoder", "decoder")},
    } | values
    if family.startswith("marian"):
        pad, vocabulary_size = tokenizer.pad_token_id, len(tokenizer.encoder)
        ids = {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0, "forced_eos_token_id": 0}
        shape |= {"activation_function": "swish", "scale_embedding": True, "max_position_embeddings": 256, **ids}
        model: Any = transformers.MarianMTModel(transformers.MarianConfig(vocab_size=vocabulary_size, **shape))
    elif family == "mbart50":
        shape |= {"activation_function": "relu", "scale_embedding": True, "decoder_start_token_id": 2}
        config = transformers.MBartConfig(vocab_size=len(tokenizer), max_position_embeddings=256, **shape)
        model = transformers.MBartForConditionalGeneration(config)
    else:
        vocabulary_size = len(tokenizer) if family == "nllb" else len(tokenizer.encoder) + 100 + 8
        model = transformers.M2M100ForConditionalGeneration(
            transformers.M2M100Config(vocab_size=vocabulary_size, **shape)
        )
    spread, default_end_logit = SPREADS_AND_END_LOGITS[family]
    _randomize(model, spread, default_end_logit if end_logit is None else end_logit, logit_scale)
    model.generation_config.update(num_beams=4, max_length=60, early_stopping=True)
    model.save_pretrained(folder)


def _randomize(model: Any, spread: float, end_logit: float, logit_scale: float) -> None:
    """Make all parameters random, some tokens probable, and the end symbol probable enough for finite outputs."""
    decoder, is_marian = (
        model.model.decoder,
        hasattr(model, "final_logits_bias") and model.config.model_type == "marian",
    )
    last_norm = decoder.layers[-1].final_layer_norm if is_marian else decoder.layer_norm
    end = model.config.eos_token_id
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" in name and is_marian:
                continue
            deviation = 0.1 if parameter.ndim < 2 else spread * parameter.shape[-1] ** -0.5
            parameter += deviation * torch.randn_like(parameter)
        last_norm.weight *= logit_scale
        if is_marian:
            model.final_logits_bias.normal_()
            model.final_logits_bias[0, end] += end_logit
        else:
            last_norm.bias.normal_()
            model.model.shared.weight[end] += end_logit * last_norm.bias / last_norm.bias.square().sum()


def write_checkpoint(family: str, folder: Path, text: Sequence[str], size: int = 300, **values: Any) -> Path:
    """Write a tokenizer and a model; return the folder."""
    write_tokenizer(family, folder, text, size)
    write_model(family, folder, **values)
    return folder
