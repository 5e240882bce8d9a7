"""The model that training started from: its name and its licenses, for the model card of the new model."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from manyglot.config.yaml_files import parse_yaml, read_yaml_mapping
from manyglot.errors import ManyglotError, shorten
from manyglot.files import read_text
from manyglot.hub import is_hub_name
from manyglot.model.model_card import CARD_NAME, HEADER_END
from manyglot.model.model_seals import CONFIG_NAME
from manyglot.model.run_models import is_checkpoint, run_folder_of

MAX_CARD_BYTES = 2**20


def started_from(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of the training information for the model of `init`; empty if the settings have none."""
    init = config.get("init")
    model = init.get("model") if isinstance(init, Mapping) else None
    return {"started_from": describe_initial_model(Path(model))} if isinstance(model, str) else {}


def describe_initial_model(model: Path) -> dict[str, str | None]:
    """Return the name of a model, the license that its card states, and that of its text. None means unknown.

    Nothing is downloaded, so the licenses of a model on the hub are unknown.
    """
    if is_hub_name(model):
        return {"model": str(model).replace("hf:/", "hf://", 1), "license": None, "text_license": None}
    folder = model / "model" if (model / "model").is_dir() else model
    is_named_by_run = is_checkpoint(folder) or folder.name == "model"
    name = run_folder_of(folder).name if is_named_by_run else folder.absolute().name
    header, settings = _read_card_header(folder / CARD_NAME), {}
    with suppress(ManyglotError):
        settings = dict(read_yaml_mapping(folder / CONFIG_NAME))
    return {"model": name, "license": _license_in(header), "text_license": _license_in(settings.get("corpus"))}


def _read_card_header(path: Path) -> Any:
    """Return the YAML header of a model card, which users may have edited; None if it has none."""
    with suppress(ManyglotError, ValueError, yaml.YAMLError):
        text = read_text(path, MAX_CARD_BYTES)
        if text.startswith(HEADER_END):
            return parse_yaml(text.split(HEADER_END)[1])
    return None


def _license_in(values: Any) -> str | None:
    stated = values.get("license") if isinstance(values, Mapping) else None
    return shorten(stated) if isinstance(stated, str) else None
