"""`manyglot import`: convert a model of transformers to a model folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from manyglot.argument_types import checks_argument_types
from manyglot.files import StrPath
from manyglot.folders import atomic_folder
from manyglot.hub import resolve_model
from manyglot.importers.huggingface_model import read_model
from manyglot.model.model_folder import write_model_files
from manyglot.progress import print_status


@checks_argument_types
def import_model(
    model: StrPath, output: StrPath, source: str | Sequence[str] = (), target: str | Sequence[str] = ()
) -> Path:
    """Convert a model of transformers to a model folder, and return the folder.

    The model is a folder that `save_pretrained` has written, or `hf://owner/name`: M2M100, NLLB-200, MBart-50 or
    Marian (OPUS-MT). `source` and `target` are language codes, or one text such as `de,fr`. They state the languages
    of a Marian model whose files do not.
    """
    imported = read_model(resolve_model(model), _split_codes(source), _split_codes(target))
    with atomic_folder(Path(output)) as unfinished:
        write_model_files(unfinished, imported.weights, imported.description, imported.training_info)
    languages = imported.description.vocabulary.languages
    print_status(
        f"Imported {len(languages)} languages and {len(imported.description.trained_directions):,} directions."
    )
    return Path(output)


def _split_codes(names: str | Sequence[str]) -> list[str]:
    names = [names] if isinstance(names, str) else names
    return [code.strip() for name in names for code in name.split(",") if code.strip()]
