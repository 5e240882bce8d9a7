"""Exports a model to ONNX: two graphs that serve all languages, their weights, and a program that translates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

import manyglot
from manyglot.batches.source_lengths import DEFAULT_SOURCE_LENGTHS, SourceLengths
from manyglot.checksums import seal_files
from manyglot.config.base_settings import Settings, parse_settings
from manyglot.corpus.languages import english_language_name
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import SettingsError, did_you_mean
from manyglot.exporters.onnx import import_onnx
from manyglot.exporters.onnx.graph_builder import WEIGHTS_NAME, GraphBuilder, WeightsFile
from manyglot.exporters.onnx.language_maps import GuidanceMaps
from manyglot.exporters.onnx.transformer_graphs import MAX_POSITIONS, DecoderGraph, EncoderGraph
from manyglot.files import write_json
from manyglot.folders import atomic_folder
from manyglot.model.model_folder import TrainedModel
from manyglot.model.transformer import Transformer

QUANTIZATION_TYPES = ("int8",)
MANIFEST_NAME, ONNX_FORMAT_VERSION = "manifest.json", 1
PROGRAM = Path(__file__).with_name("translate.py")
EXPORTED_FILES = ("encoder.onnx", "decoder.onnx", WEIGHTS_NAME, "subwords.model", "pieces.json")


TokenId = Annotated[int, Field(ge=0, lt=2**31)]


class LanguageTagIds(Settings):
    """The symbols around the sentences of one target language, as ids."""

    source: tuple[TokenId, ...]
    """Tags before the source sentence."""
    target: tuple[TokenId, ...]
    """The start symbol, and the tags before the target sentence."""


class OnnxManifest(Settings):
    """Describes an export to ONNX and how to translate with it."""

    engine: Literal["onnx"] = "onnx"
    """The engine that runs the model."""
    format: int = Field(ONNX_FORMAT_VERSION, ge=1, le=ONNX_FORMAT_VERSION)
    """Version of the export format."""
    manyglot: str = manyglot.__version__
    """Version of manyglot that exported the model."""
    languages: tuple[str, ...]
    """Languages of the model, in the order of their ids."""
    tags: dict[str, LanguageTagIds]
    """The tags of each target language."""
    source_tags: dict[str, tuple[TokenId, ...]]
    """The tag of each source language, which begins the source sequence; empty if the model does not read it."""
    num_scored_tags: int = Field(ge=0, le=1000)
    """Number of tags before the target that count in the length by which scores are divided. Their own score is 0."""
    max_tokens: int = Field(ge=1, le=2**24)
    """Maximum number of tokens in a sequence."""
    quantization: str | None
    """Type of the weights; None means float32."""
    decoding: DecodingSettings
    """Decoding settings stored with the model."""
    source_lengths: SourceLengths = DEFAULT_SOURCE_LENGTHS
    """The lengths of the training text on the source side."""
    files: dict[str, dict[str, Any]]
    """The size and SHA-256 checksum of each file."""


def export_to_onnx(
    trained: TrainedModel, folder: Path, targets: Sequence[str] = (), quantization: str | None = None
) -> list[Path]:
    """Export a model for all its languages and return the created folder."""
    import_onnx()
    if targets:
        raise SettingsError("--target: an ONNX export always has all languages of the model. Remove the option.")
    if quantization is not None and quantization not in QUANTIZATION_TYPES:
        raise SettingsError(
            f"--quantization: '{quantization}' is not known. {did_you_mean(quantization, QUANTIZATION_TYPES)}"
        )
    guidance = GuidanceMaps(trained.model)
    with atomic_folder(folder) as unfinished:
        write_graphs(trained.model, guidance, unfinished, quantize=quantization == "int8")
        trained.vocabulary.subword_model.save(unfinished / "subwords.model")
        write_json(unfinished / "pieces.json", trained.vocabulary.subword_model.pieces())
        manifest = _make_manifest(trained, unfinished, quantization)
        write_json(unfinished / MANIFEST_NAME, manifest.model_dump(mode="json"))
        (unfinished / PROGRAM.name).write_text(PROGRAM.read_text("utf-8"), encoding="utf-8")
        (unfinished / "README.md").write_text(_format_readme(manifest), encoding="utf-8")
    return [folder]


def write_graphs(model: Transformer, guidance: GuidanceMaps, folder: Path, quantize: bool) -> None:
    """Write encoder and decoder and the file of their weights."""
    with open(folder / WEIGHTS_NAME, "wb") as file:
        weights = WeightsFile(file)
        for name, graph_type in (("encoder", EncoderGraph), ("decoder", DecoderGraph)):
            graph = graph_type(GraphBuilder(name, weights, quantize), model, guidance).build()
            graph.save(folder / f"{name}.onnx")


def _make_manifest(trained: TrainedModel, folder: Path, quantization: str | None) -> OnnxManifest:
    languages, tags = trained.vocabulary.languages, trained.model.tags_by_language()
    decoding = parse_settings(DecodingSettings, trained.config.get("decoding", {}), parent_name="decoding")
    num_positions = min(trained.model.settings.max_positions or MAX_POSITIONS, MAX_POSITIONS)
    max_length = min(decoding.max_length, num_positions - 1 - len(tags[0].target))
    return OnnxManifest(
        languages=languages.codes,
        tags={
            code: LanguageTagIds(source=tag.source, target=(tag.start, *tag.target))
            for code, tag in zip(languages, tags, strict=True)
        },
        source_tags={code: (tag,) for code, tag in zip(languages, tags[0].source_language_tags, strict=False)},
        num_scored_tags=len(tags[0].target) if tags[0].target_predicted else 0,
        max_tokens=num_positions,
        quantization=quantization,
        decoding=decoding.model_copy(update={"max_length": max_length}),
        source_lengths=trained.source_lengths,
        files=seal_files(folder, EXPORTED_FILES),
    )


def _format_readme(manifest: OnnxManifest) -> str:
    """Return a README that shows how to use the export without manyglot."""
    names = [f"{english_language_name(code)} (`{code}`)" for code in manifest.languages]
    return (
        Path(__file__)
        .with_name("README.md")
        .read_text("utf-8")
        .format(
            quantized=f" in {manifest.quantization}" if manifest.quantization else "",
            version=manifest.manyglot,
            languages=", ".join(names),
            target=manifest.languages[0],
            max_tokens=manifest.max_tokens,
        )
    )
