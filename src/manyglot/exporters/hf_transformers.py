"""Exports a model to the transformers library, whose stock classes load it.

A folded post-norm model is a `BartForConditionalGeneration`, and a pre-norm one is an `MBartForConditionalGeneration`.
The tokenizer is a `PreTrainedTokenizerFast`. Ids stay as they are. This module writes the files itself, so it does not
import transformers.

Shape letters: V vocabulary, P positions, D model width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyglot.config.base_settings import parse_settings
from manyglot.corpus.languages import english_language_name
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import SettingsError
from manyglot.exporters.fast_tokenizer import make_tokenizer
from manyglot.exporters.model_scores import find_scores
from manyglot.exporters.target_folders import NUM_POSITIONS, find_unused_name, write_target_folders
from manyglot.files import write_file, write_json
from manyglot.model.folding import fold_guidance, uses_only_tags
from manyglot.model.layers import DecoderLayer, EncoderLayer, FeedForward
from manyglot.model.model_card import CARD_NAME
from manyglot.model.model_folder import TrainedModel
from manyglot.model.positions import first_positions
from manyglot.model.transformer import Transformer
from manyglot.model.weights_file import save_tensors
from manyglot.vocabulary.sentencepiece_file import SentencePieceFile
from manyglot.vocabulary.subword_model import EOS, PAD, UNK
from manyglot.vocabulary.vocabulary import LanguageTags, Vocabulary

NUM_SKIPPED_POSITIONS = 2
"""Rows at the beginning of the position tables of BART and MBart that no position uses."""


def export_to_transformers(
    trained: TrainedModel, folder: Path, targets: Sequence[str] = (), quantization: str | None = None
) -> list[Path]:
    """Export a model for some target languages and return the created folders.

    `write_target_folders` describes the folders.
    """
    if quantization is not None:
        raise SettingsError(
            "--quantization: --to transformers always writes float32. Remove the option; transformers can convert the "
            "weights when it loads them."
        )
    if not trained.model.settings.embedding_norm:
        raise SettingsError(
            "model.embedding_norm: BART and MBart, which --to transformers writes, always have a layer norm on the "
            "embeddings, but this model has none. Export it with --to ctranslate2 or --to onnx."
        )
    return write_target_folders(trained, folder, targets, lambda path, codes: _write_model(trained, path, codes))


def _write_model(trained: TrainedModel, folder: Path, targets: Sequence[str]) -> None:
    """Write one model for target languages that share the same weights."""
    vocabulary, languages = trained.vocabulary, trained.vocabulary.languages
    all_tags = trained.model.tags_by_language()
    tags = [all_tags[languages.id(code)] for code in targets]
    names = symbol_names(vocabulary)
    model = fold_guidance(trained.model, languages.id(targets[0]), keep_tags=True)
    decoding = parse_settings(DecodingSettings, trained.config.get("decoding", {}), parent_name="decoding")
    save_tensors(folder / "model.safetensors", dict(_weights(model)), {"format": "pt"})
    write_json(folder / "config.json", _model_config(model))
    max_length = min(decoding.max_length, model.max_output_length(tags[0]))
    write_json(folder / "generation_config.json", _generation_config(decoding, max_length, tags, vocabulary))
    write_json(folder / "tokenizer.json", _tokenizer(vocabulary, names, tags), indent=None)
    write_json(folder / "tokenizer_config.json", _tokenizer_config(names, tags[0], _num_positions(model)))
    card = trained.make_card(
        library="transformers",
        targets=targets,
        scores=find_scores(trained, targets),
        is_folded=not uses_only_tags(trained.model),
        usage=_format_usage(tags[-1], names, targets),
    )
    write_file(folder / CARD_NAME, card.format())


def symbol_names(vocabulary: Vocabulary) -> list[str]:
    """Return a distinct name for each symbol of the vocabulary, in the order of their ids. A tag is `>>de<<`."""
    names = vocabulary.subword_model.pieces()
    taken = set(names[PAD + 1 :])
    names[PAD] = find_unused_name(taken, names[PAD])
    return names + [find_unused_name(taken, f">>{code}<<") for code in vocabulary.languages]


def _model_config(model: Transformer) -> dict[str, Any]:
    """Return config.json. Settings of the search are in generation_config.json."""
    settings = model.settings
    architecture = "Bart" if settings.norm == "post" else "MBart"
    return {
        "architectures": [f"{architecture}ForConditionalGeneration"],
        "model_type": architecture.lower(),
        "dtype": "float32",
        "vocab_size": len(model.embedding.weight),
        "d_model": settings.width,
        "encoder_layers": settings.num_encoder_layers,
        "decoder_layers": settings.num_decoder_layers,
        "encoder_attention_heads": settings.num_heads,
        "decoder_attention_heads": settings.num_heads,
        "encoder_ffn_dim": settings.ffn_width,
        "decoder_ffn_dim": settings.ffn_width,
        "activation_function": settings.activation,
        "max_position_embeddings": _num_positions(model),
        "scale_embedding": settings.scale_embeddings,
        "dropout": settings.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "is_encoder_decoder": True,
        "tie_word_embeddings": True,
        "pad_token_id": PAD,
        "bos_token_id": None,
        "eos_token_id": EOS,
        "decoder_start_token_id": model.start_symbol,
        "forced_eos_token_id": EOS,
    }


def _num_positions(model: Transformer) -> int:
    return model.settings.max_positions or NUM_POSITIONS


def _generation_config(
    decoding: DecodingSettings, max_length: int, tags: Sequence[LanguageTags], vocabulary: Vocabulary
) -> dict[str, Any]:
    """Return generation_config.json, with which the beam search equals ours.

    Their maximum length counts the start symbol, tags and end symbol, and ours does not. A forced tag must not be
    suppressed, so a model with target tags bans tags by another setting, which transformers applies before it forces.
    """
    forbidden = [PAD, UNK, *range(len(vocabulary.subword_model), len(vocabulary))]
    has_target_tags = bool(tags[0].target)
    return {
        "num_beams": decoding.beam_size,
        **({"early_stopping": True, "length_penalty": decoding.length_penalty} if decoding.beam_size > 1 else {}),
        "max_length": 1 + len(tags[0].target) + max_length + 1,
        "decoder_start_token_id": tags[0].start,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "forced_eos_token_id": EOS,
        **({"bad_words_ids": [[i] for i in forbidden]} if has_target_tags else {"suppress_tokens": forbidden}),
        **({"forced_bos_token_id": tags[0].target[0]} if has_target_tags and len(tags) == 1 else {}),
    }


def _tokenizer(vocabulary: Vocabulary, names: Sequence[str], tags: Sequence[LanguageTags]) -> dict[str, Any]:
    """Return tokenizer.json. Tags of the target language are read from the source text, unless a model forces them.

    Other tags are special tokens.
    """
    source_tags = {names[tag] for each in tags for tag in each.source}
    return make_tokenizer(
        SentencePieceFile.parse(vocabulary.subword_model.serialized),
        names,
        source_tags=sorted(source_tags),
        special_tags=[name for name in names[len(vocabulary.subword_model) :] if name not in source_tags],
    )


def _tokenizer_config(names: Sequence[str], tags: LanguageTags, num_positions: int) -> dict[str, Any]:
    """Return tokenizer_config.json. Text such as </s> is no symbol, unless the source begins with a special token."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": names[PAD],
        "eos_token": names[EOS],
        "unk_token": names[UNK],
        "split_special_tokens": not tags.source_language_tags,
        "clean_up_tokenization_spaces": False,
        "model_max_length": num_positions,
        "model_input_names": ["input_ids", "attention_mask"],
    }


def _weights(model: Transformer) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights under their names in transformers."""
    weight_VD, num_positions = model.embedding.weight, _num_positions(model)
    skipped_PD = weight_VD.new_zeros(NUM_SKIPPED_POSITIONS, model.settings.width)
    yield "model.shared.weight", weight_VD
    bias_V = weight_VD.new_zeros(len(weight_VD)) if model.output_bias is None else model.output_bias
    yield "final_logits_bias", bias_V[None]
    for stack, embedding, last in (
        ("model.encoder", model.encoder_embedding, model.encoder_final_norm),
        ("model.decoder", model.decoder_embedding, model.decoder_final_norm),
    ):
        positions_PD = first_positions(embedding.position_table, num_positions)
        yield f"{stack}.embed_positions.weight", torch.cat([skipped_PD, positions_PD])
        yield from _module_weights(f"{stack}.layernorm_embedding", embedding.norm)
        yield from _module_weights(f"{stack}.layer_norm", last)  # a post-norm model has none
    for i, layer in enumerate(model.encoder):
        assert isinstance(layer, EncoderLayer)
        name = f"model.encoder.layers.{i}"
        yield from _attention_weights(f"{name}.self_attn", layer.attention, layer.attention_sublayer.norm)
        yield from _feed_forward_weights(name, layer.ffn, layer.ffn_sublayer.norm)
    for i, layer in enumerate(model.decoder):
        assert isinstance(layer, DecoderLayer)
        name = f"model.decoder.layers.{i}"
        yield from _attention_weights(f"{name}.self_attn", layer.self_attention, layer.self_sublayer.norm)
        yield from _attention_weights(f"{name}.encoder_attn", layer.cross_attention, layer.cross_sublayer.norm)
        yield from _feed_forward_weights(name, layer.ffn, layer.ffn_sublayer.norm)


def _attention_weights(name: str, attention: nn.Module, norm: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for ours, theirs in (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("output", "out_proj")):
        yield from _module_weights(f"{name}.{theirs}", attention.get_submodule(ours))
    yield from _module_weights(f"{name}_layer_norm", norm)


def _feed_forward_weights(name: str, ffn: FeedForward, norm: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from _module_weights(f"{name}.fc1", ffn.inner)
    yield from _module_weights(f"{name}.fc2", ffn.outer)
    yield from _module_weights(f"{name}.final_layer_norm", norm)


def _module_weights(name: str, module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for part, weight in module.named_parameters():
        yield f"{name}.{part}", weight.float().cpu()


def _format_usage(tags: LanguageTags, names: Sequence[str], targets: Sequence[str]) -> str:
    """Return the section of the model card on how to translate into the last target language."""
    source_tags = [*(names[tag] for tag in tags.source_language_tags[:1]), *(names[tag] for tag in tags.source)]
    text = " ".join([*source_tags, "Tuesday, March 5, 2024"])
    forced = ""
    if tags.target and tags.target_predicted:
        forced = f', forced_bos_token_id=tokenizer.convert_tokens_to_ids("{names[tags.target[0]]}")'
    elif tags.target:  # the length of a hypothesis does not count the tag, so it belongs to the prompt
        forced = f", decoder_input_ids=torch.tensor([{[tags.start, *tags.target]}] * len(texts))"
    language = f"# into {english_language_name(targets[-1])}"
    lines = ["import torch"] * ("torch" in forced) + [
        "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer",
        "",
        'folder = "path/of/this/folder"',
        "model, tokenizer = (auto.from_pretrained(folder) for auto in (AutoModelForSeq2SeqLM, AutoTokenizer))",
        f"texts = [{text!r}]  {language}",
        'outputs = model.generate(**tokenizer(texts, padding=True, return_tensors="pt")' + forced + ")",
        "print(tokenizer.batch_decode(outputs, skip_special_tokens=True))",
    ]
    code = "\n".join(lines)
    return f"```python\n{code}\n```"
