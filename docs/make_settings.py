"""Write docs/settings.md, the reference of all settings, from the settings themselves. Run it after changing one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

from manyglot.config.experiment import Experiment
from manyglot.config.settings import DocumentedField, Settings, documented_fields
from manyglot.corpus.sources import CorpusSettings
from manyglot.model.guidance import METHODS

PAGE = Path(__file__).with_name("settings.md")
RESUMABLE = "may change on resume"
INTRODUCTION = """# Settings

One YAML file describes an experiment. What is not given has the default below; the defaults are the paper's. A key
that is not a setting is refused. `extends: other.yaml` builds on another file: settings within settings are merged,
lists are replaced. On the command line, `--set training.max_steps=500` overrides a setting; the value is YAML. Relative
paths are relative to the folder in which the command runs, except that of `extends`, which is relative to its file.

This page is written by `docs/make_settings.py`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    parts = {name: f.annotation for name, f in Experiment.model_fields.items() if _is_settings(f.annotation)}
    fields = {field.name: field for field in documented_fields(Experiment)}
    own = [field for name, field in fields.items() if name not in {*parts, "corpus", "guidance"}]
    yield _table("The experiment", "", own)
    for kind in get_args(get_args(CorpusSettings)[0]):
        yield _section(f"`corpus` of kind {kind.model_fields['kind'].default}", kind)
    for name, kind in parts.items():
        if name == "training":  # guidance stands beside the model
            for method in METHODS:
                chosen = method.settings_type
                yield _section(f"`guidance`, a list of methods: {chosen.model_fields['method'].default}", chosen)
        yield _section(f"`{name}`", kind, fields[name].resumable)
        for inner, field in kind.model_fields.items():
            for part in filter(_is_settings, get_args(field.annotation)):  # or null
                yield _section(f"`{name}.{inner}`", part)


def _is_settings(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Settings)


def _section(title: str, kind: type[Settings], resumable: bool = False) -> str:
    text = (kind.__doc__ or "").strip() + (f" All of this {RESUMABLE}." if resumable else "")
    return _table(title, text, documented_fields(kind))


def _table(title: str, text: str, fields: Iterable[DocumentedField]) -> str:
    lines = [f"## {title}", ""] + ([text, ""] if text else []) + ["| setting | default | meaning |", "|---|---|---|"]
    for name, default, documentation, resumable in fields:
        meaning = " ".join(documentation.split()) + (f" *{RESUMABLE.capitalize()}.*" if resumable else "")
        lines.append(f"| `{name}` | {_shown(default)} | {meaning} |")
    return "\n".join([*lines, ""])


def _shown(default: str) -> str:
    return default if default == "required" else f"`{'null' if default == 'None' else default}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
