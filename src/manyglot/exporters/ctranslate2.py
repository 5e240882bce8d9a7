"""Export to CTranslate2: the guidance of a target language is folded away, and the plain weights are written in its
format, with the subwords, a manifest and a README that shows how to use them without manyglot.

A folder of CTranslate2 holds one set of weights. Where guidance is in the weights, each target language needs a folder
of its own; where it is in tags alone, one folder serves all languages.

Shape letters: V vocabulary, P positions, D model width.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyglot.config.settings import parse
from manyglot.corpus.languages import name_of
from manyglot.decoding.beam import DecodingSettings
from manyglot.decoding.ctranslate2 import import_ctranslate2
from manyglot.decoding.ctranslate2.manifest import FILES, Manifest, TagNames, digest
from manyglot.errors import LanguageError, SettingsError, suggest
from manyglot.files import written_whole
from manyglot.model.attention import MultiHeadAttention
from manyglot.model.folder import TrainedModel
from manyglot.model.folding import fold, serves_all_languages
from manyglot.model.layers import DecoderLayer, EncoderLayer, FeedForward
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subwords import EOS, PAD, UNK
from manyglot.vocabulary.vocabulary import Tags, Vocabulary

QUANTIZATIONS = ("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16")
POSITIONS = 4096
"""Length of the table of positions. CTranslate2 counts its own from 1, so ours go with the weights."""


def export(
    trained: TrainedModel, folder: Path, targets: Sequence[str] = (), quantization: str | None = None
) -> list[Path]:
    """Write a model for some target languages, by whatever names, and return the folders that were made.

    They are the folder itself, or one below it for each of several languages where each needs weights of its own.
    Without targets all languages are meant, which only a model that serves them by tags allows.
    """
    import_ctranslate2()
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise SettingsError(f"--quantization: '{quantization}' is not known. {suggest(quantization, QUANTIZATIONS)}")
    languages, together = trained.vocabulary.languages, serves_all_languages(trained.model)
    if not targets and not together:
        raise LanguageError(f"Each target language has weights of its own; say which. {suggest('', languages)}")
    codes = list(dict.fromkeys(languages.find(name) for name in targets)) or list(languages)
    groups = [codes] if together else [[code] for code in codes]
    with written_whole(folder) as unfinished:
        for group in groups:
            inside = unfinished if len(groups) == 1 else unfinished / group[0]
            inside.mkdir(exist_ok=True)
            _write(trained, inside, group, quantization)
    return [folder] if len(groups) == 1 else [folder / code for code in codes]


def _write(trained: TrainedModel, folder: Path, targets: Sequence[str], quantization: str | None) -> None:
    """Write one model for target languages that share its weights."""
    vocabulary, languages = trained.vocabulary, trained.vocabulary.languages
    tags = {code: trained.model.guidance.tag(languages.id(code)) for code in targets}
    names = _names(vocabulary)
    plain = fold(trained.model, languages.id(targets[0]), tagged=True)
    spec = _spec(plain, names)
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(folder))
    vocabulary.subwords.save(folder / "subwords.model")
    manifest = Manifest(
        languages=languages.codes,
        targets={code: _tag_names(tag, names) for code, tag in tags.items()},
        suppressed=(names[PAD], *names[len(vocabulary.subwords) :]),
        positions=POSITIONS,
        quantization=quantization,
        decoding=parse(DecodingSettings, trained.config.get("decoding", {}), where="decoding"),
        files={name: digest(folder / name) for name in FILES},
    )
    manifest.write(folder)
    (folder / "README.md").write_text(_readme(manifest), encoding="utf-8")


def _names(vocabulary: Vocabulary) -> list[str]:
    """A text for each symbol, by our numbers and no two alike."""
    names = vocabulary.subwords.pieces()
    taken = set(names[PAD + 1 :])
    names[PAD] = _unlike(taken, names[PAD])
    return names + [_unlike(taken, f"<2{code}>") for code in vocabulary.languages]


def _unlike(taken: set[str], name: str) -> str:
    """A name that no piece of a subword model has, and that is taken from now on."""
    while name in taken:
        name = f"<{name}>"
    taken.add(name)
    return name


def _tag_names(tags: Tags, names: Sequence[str]) -> TagNames:
    source, target = (tuple(names[i] for i in ids) for ids in (tags.source, tags.target))
    return TagNames(source=source, target=target, predicted=tags.predicted)


def _spec(model: Transformer, names: list[str]) -> Any:
    """A plain model as CTranslate2 describes it."""
    specs, settings = import_ctranslate2().specs, model.settings
    spec = specs.TransformerSpec.from_config(
        (settings.num_encoder_layers, settings.num_decoder_layers),
        settings.num_heads,
        pre_norm=settings.norm == "pre",
        activation=specs.Activation.RELU,
        layernorm_embedding=True,
    )
    embedding_VD = _array(model.embedding.weight)
    positions_PD = _array(model.positions(POSITIONS)[:POSITIONS])
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = spec.decoder.projection.weight = embedding_VD
    for stack in (spec.encoder, spec.decoder):
        stack.position_encodings.encodings = positions_PD
    for stack, first, last in (
        (spec.encoder, model.encoder_norm, model.encoder_final_norm),
        (spec.decoder, model.decoder_norm, model.decoder_final_norm),
    ):
        _set_norm(stack.layernorm_embedding, first)
        if settings.norm == "pre":
            _set_norm(stack.layer_norm, last)
    for part, encoder_layer in zip(spec.encoder.layer, model.encoder, strict=True):
        _set_encoder_layer(part, encoder_layer)
    for part, decoder_layer in zip(spec.decoder.layer, model.decoder, strict=True):
        _set_decoder_layer(part, decoder_layer)
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.unk_token, spec.config.eos_token = names[UNK], names[EOS]
    spec.config.bos_token = spec.config.decoder_start_token = names[EOS]  # what starts every target of ours
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = model.encoder_norm.eps
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


def _set_linear(spec: Any, parts: Iterable[nn.Linear]) -> None:
    """One product for several projections of the same states."""
    spec.weight = _array(torch.cat([part.weight for part in parts]))
    spec.bias = _array(torch.cat([part.bias for part in parts]))


def _set_norm(spec: Any, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm)
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().cpu().contiguous().numpy()


def _readme(manifest: Manifest) -> str:
    """How to use the folder with CTranslate2 alone, by the example of its first target language."""
    tags = next(iter(manifest.targets.values()))
    words = 'subwords.encode("Tuesday, March 5, 2024", out_type=str)'
    source = f"source = [{', '.join(map(repr, tags.source))}, *{words}]" if tags.source else f"source = {words}"
    names = [name_of(code) for code in manifest.targets]
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
            beam=manifest.decoding.beam,
            length_penalty=manifest.decoding.length_penalty,
            max_length=manifest.decoding.max_length,
            skipped=f"[{len(tags.target)} :]" if tags.target else "",
        )
    )
