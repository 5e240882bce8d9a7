"""One YAML file per experiment, read into typed settings; `extends` names a file it builds on."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, Field

from manyglot.batches.plan import BatchSettings
from manyglot.batches.prepare import Recipe
from manyglot.config.settings import Settings, parse
from manyglot.corpus.cleaning import CleaningSettings
from manyglot.corpus.sources import CorpusSettings
from manyglot.decoding.beam import DecodingSettings
from manyglot.errors import SettingsError
from manyglot.evaluation.evaluate import EvaluationSettings
from manyglot.evaluation.sample import ValidationSettings
from manyglot.model.guidance import GuidanceList, check_tells_target
from manyglot.model.guidance.token import TokenSettings
from manyglot.model.layers import ModelSettings
from manyglot.training.loop import TrainingSettings
from manyglot.vocabulary.subwords import VocabularySettings


class Experiment(Settings):
    """An experiment: everything from the text to the scores."""

    data: Path
    """Folder of the prepared data: written by prepare, read by train and evaluate."""
    run: Path
    """Folder of this run: checkpoints, log, the trained model, results."""
    seed: int = Field(1, ge=0, lt=2**31)
    """Seed of the model's initial weights, of dropout and of the order of the data."""
    corpus: CorpusSettings
    """Where the text comes from."""
    cleaning: CleaningSettings = CleaningSettings()
    """Which sentences are left out."""
    vocabulary: VocabularySettings = VocabularySettings()
    """The subwords."""
    batches: BatchSettings = BatchSettings()
    """How sentences are drawn and put together."""
    model: ModelSettings = ModelSettings()
    """The Transformer."""
    guidance: Annotated[GuidanceList, AfterValidator(check_tells_target)] = (TokenSettings(),)
    """How the model is told its target language: a list of methods."""
    training: TrainingSettings = TrainingSettings()
    """How it learns."""
    validation: ValidationSettings = ValidationSettings()
    """What is measured meanwhile."""
    decoding: DecodingSettings = DecodingSettings()
    """How it translates."""
    evaluation: EvaluationSettings = EvaluationSettings()
    """How it is judged."""

    @property
    def recipe(self) -> Recipe:
        """The part that decides what the text becomes."""
        return Recipe(corpus=self.corpus, vocabulary=self.vocabulary, cleaning=self.cleaning)

    def resolved(self) -> dict[str, Any]:
        """All settings, defaults included, as plain values."""
        return self.model_dump(mode="json")


class _Loader(yaml.SafeLoader):
    """YAML without two traps: `no` (Norwegian) and `on` are words, and a key given twice is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that is there already, of which plain YAML keeps the last in silence."""
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag != "tag:yaml.org,2002:merge":
                key = self.construct_object(key_node, deep=True)
                if not isinstance(key, Hashable):
                    raise yaml.MarkedYAMLError(None, None, f"{key!r} cannot be a key", key_node.start_mark)
                if key in seen:
                    raise yaml.MarkedYAMLError(None, None, f"{key!r} is given twice", key_node.start_mark)
                seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("(true|false)$"), list("tf"))


def read_experiment(path: Path, overrides: Iterable[str] = ()) -> Experiment:
    """Read a YAML file, apply `key=value` overrides to it, and check everything."""
    values = _read_yaml(path)
    for override in overrides:
        apply_override(values, override)
    return parse(Experiment, values)


def _read_yaml(path: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    try:
        values = yaml.load(path.read_text("utf-8"), _Loader)
    except FileNotFoundError:
        raise SettingsError(f"There is no file {path}.") from None
    except OSError as error:
        raise SettingsError(f"Cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8 text.") from None
    except yaml.YAMLError as error:
        raise SettingsError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if values is None:
        raise SettingsError(f"{path} is empty.")
    if not isinstance(values, dict):
        raise SettingsError(f"{path} should hold settings such as `seed: 1`, and holds {type(values).__name__}.")
    base = values.pop("extends", None)
    if base is None:
        return values
    base_path = (path.parent / str(base)).resolve()
    if base_path in seen:
        raise SettingsError(f"{path} extends itself by way of {base}.")
    return _merge(_read_yaml(base_path, (*seen, base_path)), values)


def _merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Settings within settings are merged, everything else is replaced."""
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def apply_override(values: dict[str, Any], override: str) -> None:
    """Change plain settings in place by a `key=value` such as `training.max_steps=500`."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise SettingsError(f"--set takes key=value, such as training.max_steps=500; got {override!r}.")
    try:
        value = yaml.load(text, _Loader)
    except yaml.YAMLError:
        raise SettingsError(f"--set {key}: {text!r} is not a YAML value.") from None
    *path, last = key.split(".")
    for part in path:
        if values.get(part) is None:  # as `training.alignment` may be
            values[part] = {}
        values = values[part]
        if not isinstance(values, dict):
            raise SettingsError(f"--set {key}: {part} holds no settings of its own.")
    values[last] = value
