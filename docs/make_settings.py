"""Write docs/settings.md, the reference of all settings, from the settings classes. Run it after changing a setting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

from manyglot.config.base_settings import DocumentedField, Settings, iter_documented_fields
from manyglot.config.experiment import Experiment
from manyglot.corpus.readers import CorpusSettings
from manyglot.model.guidance import METHODS
from manyglot.training.warm_start import InitSettings

PAGE = Path(__file__).with_name("settings.md")
CHANGEABLE_ON_RESUME = "may change on resume"
INTRODUCTION = """# Settings

One YAML file describes an experiment. Settings that you leave out have the defaults below. Unknown keys are
rejected.

- `extends: other.yaml` builds on another file: nested settings are merged, lists are replaced.
- `--set training.max_steps=500` overrides a setting on the command line; the value is YAML.
- Relative paths are relative to the folder in which the command runs. The path of `extends` is relative to its file.
- Every number has bounds. The error of a value outside them names the bound. Text in quotes, `true` and `false` are
  not numbers.

The files are the part of YAML that holds the same values as JSON:

- Types follow the core schema of YAML 1.2. `true`, `null`, `12`, `0x1F` and `1e-4` are what they seem. `010` is ten.
  `no`, `on`, `1:30`, `1_000` and `2024-01-01` are text.
- Anchors, aliases, merge keys (`<<`), tags (`!!int`), directives, several documents and keys given twice are errors.
- A file has at most 1 MiB, 100,000 values and 50 levels of nesting. A text has at most 4,096 characters and a number at
  most 100. Dictionaries in Python have the same limits.
- A settings file is a regular file. A pipe or a device is an error.

`docs/make_settings.py` generates this page.
"""


def page() -> str:
    """Return the whole page."""
    return "\n".join([INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    parts = {name: f.annotation for name, f in Experiment.model_fields.items() if _is_settings(f.annotation)}
    fields = {field.name: field for field in iter_documented_fields(Experiment)}
    own = [field for name, field in fields.items() if name not in {*parts, "corpus", "guidance"}]
    yield _table("The experiment", "", own)
    for settings_type in get_args(get_args(CorpusSettings)[0]):
        yield _section(f"`corpus` of kind {settings_type.model_fields['kind'].default}", settings_type)
    for name, settings_type in parts.items():
        if name == "model":
            yield _section("`init`", InitSettings)
        if name == "training":  # the page lists guidance between model and training
            for method in METHODS:
                method_settings = method.settings_type
                method_name = method_settings.model_fields["method"].default
                yield _section(f"`guidance`, a list of methods: {method_name}", method_settings)
        yield _section(f"`{name}`", settings_type, fields[name].changeable_on_resume)
        for inner, field in settings_type.model_fields.items():
            for part in filter(_is_settings, get_args(field.annotation)):  # a part may be null
                yield _section(f"`{name}.{inner}`", part)


def _is_settings(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Settings)


def _section(title: str, settings_type: type[Settings], resumable: bool = False) -> str:
    text = (settings_type.__doc__ or "").strip() + (
        f" All of these settings {CHANGEABLE_ON_RESUME}." if resumable else ""
    )
    return _table(title, text, iter_documented_fields(settings_type))


def _table(title: str, text: str, fields: Iterable[DocumentedField]) -> str:
    lines = [f"## {title}", ""] + ([text, ""] if text else []) + ["| setting | default | meaning |", "|---|---|---|"]
    for name, default, documentation, resumable in fields:
        meaning = " ".join(documentation.split()) + (f" *{CHANGEABLE_ON_RESUME.capitalize()}.*" if resumable else "")
        lines.append(f"| `{name}` | {_format_default(default)} | {meaning} |")
    return "\n".join([*lines, ""])


def _format_default(default: str) -> str:
    return default if default == "required" else f"`{'null' if default == 'None' else default}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
