"""The target for settings: YAML files, overrides and dictionaries. Accepted settings must mean what they say."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from manyglot.config.base_settings import parse_settings
from manyglot.config.experiment import Experiment, load_experiment, read_experiment
from tests.fuzz.byte_mutations import HOSTILE_TEXT
from tests.fuzz.cases import Outcome
from tests.fuzz.folder_mutations import mutate_folder
from tests.fuzz.value_mutations import HOSTILE_VALUES, HOSTILE_YAML, iter_paths, mutate_values, value_at

LARGEST_SENSIBLE_NUMBER = 1e30
"""No setting means anything above this."""
TRUE_WORDS, FALSE_WORDS = (
    ("true", "yes", "on", "y", "t", "1", "1.0"),
    ("false", "no", "off", "n", "f", "0", "0.0", "-0.0"),
)


@dataclass(frozen=True)
class SettingsTarget:
    """An experiment in YAML files, with an override (`--set`), or as a dictionary."""

    name: str = "settings"

    def mutate(self, folder: Path, rng: random.Random) -> str:
        """Damage a file, write an override, or write a dictionary."""
        match rng.randrange(3):
            case 0:
                values = read_experiment(folder / "experiment.yaml").to_dict()
                changed, description = mutate_values(values, rng)
                (folder / "dictionary.json").write_text(json.dumps(changed), "utf-8")
                return f"dictionary: {description}"
            case 1:
                paths = [path for path in iter_paths(read_experiment(folder / "experiment.yaml").to_dict()) if path]
                key = ".".join(map(str, rng.choice(paths)))
                scalars = [value for value in HOSTILE_VALUES if isinstance(value, int | float | str)]
                hostile = [text.decode("utf-8", "surrogateescape") for text in HOSTILE_TEXT.values()]
                value = rng.choice((*HOSTILE_YAML.values(), *map(str, scalars), *hostile))
                text = f"{rng.choice((key, key, key, key + '.x', key[:-1], ''))}={value}"
                (folder / "override.txt").write_bytes(text.encode("utf-8", "surrogatepass"))
                return f"--set {text[:80]!r}"
        return mutate_folder(folder, rng)

    def use(self, folder: Path) -> Outcome:
        """Read the settings in the form that was damaged."""
        if (folder / "dictionary.json").exists():
            values = json.loads((folder / "dictionary.json").read_text("utf-8"))
            return {"settings": load_experiment(values).to_dict()}
        overrides = []
        if (folder / "override.txt").exists():
            overrides = [(folder / "override.txt").read_bytes().decode("utf-8", "surrogatepass")]
        return {"settings": read_experiment(folder / "experiment.yaml", overrides).to_dict()}

    def explain(self, folder: Path, description: str, undamaged: Outcome, outcome: Outcome) -> str:
        """Each value must be the one that the user wrote, and no surprising feature of YAML may be used."""
        settings = outcome["settings"]
        if parse_settings(Experiment, settings).to_dict() != settings:
            return "settings that do not survive a round trip"
        if wrong := next(_absurd_values(settings), ""):
            return f"an absurd number for {wrong}"
        if description.startswith("dictionary"):
            return _unfaithful(json.loads((folder / "dictionary.json").read_text("utf-8")), settings)
        if description.startswith("--set"):
            name, _, text = (folder / "override.txt").read_bytes().decode("utf-8", "surrogatepass").partition("=")
            written: Any = yaml.load(text, yaml.BaseLoader)
            for key in reversed(name.split(".")):
                written = {key: written}
            return _yaml_features(text) or _unfaithful(written, settings)
        text = (folder / "experiment.yaml").read_text("utf-8")
        written = yaml.load(text, yaml.BaseLoader)
        base = written.pop("extends", None)
        inherited = (folder / base).read_text("utf-8") if base else ""
        return _yaml_features(text) or _yaml_features(inherited) or _unfaithful(written, settings)


def _absurd_values(settings: Any) -> Iterator[str]:
    for path in iter_paths(settings):
        value = value_at(settings, path)
        if isinstance(value, int | float) and abs(value) > LARGEST_SENSIBLE_NUMBER:
            yield ".".join(map(str, path))


def _yaml_features(text: str) -> str:
    """Return the first feature of YAML in a text that manyglot should refuse."""
    for event in yaml.parse(text):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            return "YAML with anchors or aliases"
        if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
            return "YAML with a merge key"
        if getattr(event, "tag", None):
            return "YAML with a tag"
    return ""


def _unfaithful(written: Any, settings: Any) -> str:
    """Return why a value of the settings is not the one that the user wrote."""
    for path in iter_paths(written):
        value = value_at(written, path)
        if isinstance(value, dict | list) or "sites" in path:  # a site may be given by its number in the paper
            continue
        try:
            parsed = value_at(settings, path)
        except (LookupError, TypeError):
            return "a setting that is ignored"
        if not _means(value, parsed):
            kinds = f"{type(value).__name__} read as {type(parsed).__name__}"
            return f"a value of another meaning ({kinds})"
    return ""


def _means(written: Any, parsed: Any) -> bool:
    """Whether a value is what its text, or the value in a dictionary, says."""
    if parsed is None:
        return written is None or str(written).lower() in ("null", "~", "")
    if isinstance(parsed, bool):
        return str(written).lower() in (TRUE_WORDS if parsed else FALSE_WORDS)
    if isinstance(written, bool) or written is None:
        return False
    if isinstance(parsed, int | float) and isinstance(written, str):
        for convert in (lambda text: int(text, 0), int, float):
            try:
                return bool(convert(written) == parsed)
            except ValueError:
                continue
        return False
    if isinstance(parsed, str) and isinstance(written, str):
        return parsed in (written, str(Path(written))) or parsed == str(Path(written.strip()))
    return bool(parsed == written)
