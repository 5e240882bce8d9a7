"""Exports a model to CTranslate2.

The guidance of a target language is folded into plain weights, which are written in CTranslate2's format together with
the subword model, a manifest and a README on how to use them without manyglot. A CTranslate2 folder holds one set of
weights. If guidance changes the weights, each target language needs its own folder. If it uses only tags, one folder
serves all languages.

Shape letters: V vocabulary, P positions, D model width.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from manyglot.checksums import seal_files
from manyglot.config.base_settings import parse_settings
from manyglot.corpus.languages import Languages, english_language_name
from manyglot.decoding.ctranslate2 import import_ctranslate2
from manyglot.decoding.ctranslate2.manifest import EXPORTED_FILES, LanguageTagSymbols, Manifest
from manyglot.decoding.ctranslate2.model_file import check_model_files
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import FolderError, ManyglotError, SettingsError, did_you_mean
from manyglot.exporters.target_folders import NUM_POSITIONS, find_unused_name, write_target_folders
from manyglot.model.attention import MultiHeadAttention
from manyglot.model.folding import fold_guidance
from manyglot.model.layers import DecoderLayer, EncoderLayer, FeedForward
from manyglot.model.model_folder import TrainedModel
from manyglot.model.positions import first_positions
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import EOS, PAD, UNK
from manyglot.vocabulary.vocabulary import LanguageTags, Vocabulary

ACTIVATION_NAMES = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}
"""The names of the activation functions in CTranslate2."""
QUANTIZATION_TYPES = ("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16")


def export_to_ctranslate2(
    trained: TrainedModel, folder: Path, targets: Sequence[str] = (), quantization: str | None = None
) -> list[Path]:
    """Export a model for some target languages and return the created folders.

    `write_target_folders` describes the folders.
    """
    import_ctranslate2()
    if quantization is not None and quantization not in QUANTIZATION_TYPES:
        raise SettingsError(
            f"--quantization: '{quantization}' is not known. {did_you_mean(quantization, QUANTIZATION_TYPES)}"
        )
    return write_target_folders(
        trained, folder, targets, lambda path, codes: _write_model(trained, path, codes, quantization)
    )


def _write_model(trained: TrainedModel, folder: Path, targets: Sequence[str], quantization: str | None) -> None:
    """Write one model for target languages that share the same weights."""
    vocabulary, languages = trained.vocabulary, trained.vocabulary.languages
    tags = {code: trained.model.guidance.tags_for_language(languages.id(code)) for code in targets}
    names = _symbol_names(vocabulary)
    folded = fold_guidance(trained.model, languages.id(targets[0]), keep_tags=True)
    spec = _make_spec(folded, names)
    spec.validate()
    with np.errstate(over="ignore"):  # the check below reports weights that are too large for the type
        spec.optimize(quantization)
    spec.save(str(folder))
    vocabulary.subword_model.save(folder / "subwords.model")
    manifest = Manifest(
        languages=languages.codes,
        targets={code: _tag_symbols(tag, names) for code, tag in tags.items()},
        suppressed_tokens=(names[PAD], *names[len(vocabulary.subword_model) :]),
        num_positions=_num_positions(trained.model),
        source_language_tags=_source_language_tags(trained.model, languages, names),
        quantization=quantization,
        decoding=parse_settings(DecodingSettings, trained.config.get("decoding", {}), parent_name="decoding"),
        source_lengths=trained.source_lengths,
        files=seal_files(folder, EXPORTED_FILES),
    )
    manifest.write(folder)
    try:
        check_model_files(folder, manifest.num_positions)
    except FolderError as error:
        raise ManyglotError(
            f"{error} If {quantization or 'float32'} cannot store the weights, choose another type."
        ) from None
    (folder / "README.md").write_text(_format_readme(manifest), encoding="utf-8")


def _symbol_names(vocabulary: Vocabulary) -> list[str]:
    """Return a distinct name for each symbol of the vocabulary, in the order of their ids."""
    names = vocabulary.subword_model.pieces()
    taken = set(names[PAD + 1 :])
    names[PAD] = find_unused_name(taken, names[PAD])
    return names + [find_unused_name(taken, f"<2{code}>") for code in vocabulary.languages]


def _tag_symbols(tags: LanguageTags, names: Sequence[str]) -> LanguageTagSymbols:
    source, target = (tuple(names[i] for i in ids) for ids in (tags.source, tags.target))
    return LanguageTagSymbols(source=source, target=target, target_predicted=tags.target_predicted)


def _num_positions(model: Transformer) -> int:
    return model.settings.max_positions or NUM_POSITIONS


def _source_language_tags(model: Transformer, languages: Languages, names: Sequence[str]) -> dict[str, str]:
    """Return the tag of each source language; empty if the model does not read it."""
    tags = model.tags_by_language()[0].source_language_tags
    return {code: names[tag] for code, tag in zip(languages, tags, strict=True)} if tags else {}


def _make_spec(model: Transformer, names: list[str]) -> Any:
    """Return the CTranslate2 specification of a plain model."""
    specs, settings = import_ctranslate2().specs, model.settings
    spec = specs.TransformerSpec.from_config(
        (settings.num_encoder_layers, settings.num_decoder_layers),
        settings.num_heads,
        pre_norm=settings.norm == "pre",
        activation=specs.Activation[ACTIVATION_NAMES[settings.activation]],
        layernorm_embedding=settings.embedding_norm,
    )
    weight_VD = model.embedding.weight
    embedding_VD = _to_numpy(weight_VD)
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = spec.decoder.projection.weight = embedding_VD
    if model.output_bias is not None:
        spec.decoder.projection.bias = _to_numpy(model.output_bias)
    for stack, embedding, last in (
        (spec.encoder, model.encoder_embedding, model.encoder_final_norm),
        (spec.decoder, model.decoder_embedding, model.decoder_final_norm),
    ):
        stack.scale_embeddings = settings.scale_embeddings
        num_positions = _num_positions(model)
        stack.position_encodings.encodings = _to_numpy(first_positions(embedding.position_table, num_positions))
        if settings.embedding_norm:
            _set_norm(stack.layernorm_embedding, embedding.norm)
        if settings.norm == "pre":
            _set_norm(stack.layer_norm, last)
    for layer_spec, encoder_layer in zip(spec.encoder.layer, model.encoder, strict=True):
        _set_encoder_layer(layer_spec, encoder_layer)
    for layer_spec, decoder_layer in zip(spec.decoder.layer, model.decoder, strict=True):
        _set_decoder_layer(layer_spec, decoder_layer)
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.unk_token, spec.config.eos_token = names[UNK], names[EOS]
    spec.config.bos_token, spec.config.decoder_start_token = names[EOS], names[model.start_symbol]
    spec.config.add_source_eos = True
    (spec.config.layer_norm_epsilon,) = {part.eps for part in model.modules() if isinstance(part, nn.LayerNorm)}
    return spec


def _set_encoder_layer(spec: Any, layer: nn.Module) -> None:
    assert isinstance(layer, EncoderLayer)
    _set_self_attention(spec.self_attention, layer.attention)
    _set_norm(spec.self_attention.layer_norm, layer.attention_sublayer.norm)
    _set_feed_forward(spec.ffn, layer.ffn)
    _set_norm(spec.ffn.layer_norm, layer.ffn_sublayer.norm)


def _set_decoder_layer(spec: Any, layer: nn.Module) -> None:
    assert isinstance(layer, DecoderLayer)
    _set_self_attention(spec.self_attention, layer.self_attention)
    _set_norm(spec.self_attention.layer_norm, layer.self_sublayer.norm)
    cross = layer.cross_attention
    _set_linear(spec.attention.linear[0], [cross.query])
    _set_linear(spec.attention.linear[1], [cross.key, cross.value])
    _set_linear(spec.attention.linear[2], [cross.output])
    _set_norm(spec.attention.layer_norm, layer.cross_sublayer.norm)
    _set_feed_forward(spec.ffn, layer.ffn)
    _set_norm(spec.ffn.layer_norm, layer.ffn_sublayer.norm)


def _set_self_attention(spec: Any, attention: MultiHeadAttention) -> None:
    _set_linear(spec.linear[0], [attention.query, attention.key, attention.value])
    _set_linear(spec.linear[1], [attention.output])


def _set_feed_forward(spec: Any, ffn: FeedForward) -> None:
    _set_linear(spec.linear_0, [ffn.inner])
    _set_linear(spec.linear_1, [ffn.outer])


def _set_linear(spec: Any, linears: Iterable[nn.Linear]) -> None:
    """Concatenate several projections of the same states into one."""
    spec.weight = _to_numpy(torch.cat([linear.weight for linear in linears]))
    spec.bias = _to_numpy(torch.cat([linear.bias for linear in linears]))


def _set_norm(spec: Any, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm)
    spec.gamma, spec.beta = _to_numpy(norm.weight), _to_numpy(norm.bias)


def _to_numpy(tensor: Tensor) -> Any:
    return tensor.detach().float().cpu().contiguous().numpy()


def _format_readme(manifest: Manifest) -> str:
    """Return a README that shows how to use the model without manyglot, for example into its first target language."""
    tags = next(iter(manifest.targets.values()))
    words = 'subwords.encode("Tuesday, March 5, 2024", out_type=str)'
    first_source = [*list(manifest.source_language_tags.values())[:1], *tags.source]
    source = f"source = [{', '.join(map(repr, first_source))}, *{words}]" if first_source else f"source = {words}"
    names = [english_language_name(code) for code in manifest.targets]
    return (
        Path(__file__)
        .with_suffix(".md")
        .read_text("utf-8")
        .format(
            into=names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}",
            quantized=f" in {manifest.quantization}" if manifest.quantization else "",
            version=manifest.manyglot,
            source=source,
            prefix=f"    target_prefix=[{list(tags.target)!r}],\n" if tags.target else "",
            beam_size=manifest.decoding.beam_size,
            length_penalty=manifest.decoding.length_penalty,
            max_length=manifest.decoding.max_length,
            skipped=f"[{len(tags.target)} :]" if tags.target else "",
            source_hint=(
                "The source begins with the tag of its language, one of `source_language_tags` in `manyglot.json`."
                if manifest.source_language_tags
                else "The source may be in any of the model's languages."
            ),
        )
    )
