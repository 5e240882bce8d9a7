"""The model card: a README.md with a header of YAML, which hubs show for a model folder or an export.

The card is not sealed, so users may edit it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import yaml

import manyglot
from manyglot.corpus.languages import Direction, base_language, english_language_name, is_known_language_code
from manyglot.model.transformer import Transformer

CARD_NAME, HEADER_END = "README.md", "---\n"
_PRIVATE_USE = re.compile("q[a-t][a-z]")
_SOURCES = {
    "phrasebook": "The phrasebook of manyglot: dates, amounts, places and lists, composed from Unicode CLDR.",
    "synthetic": "Synthetic languages, which manyglot generates.",
}
"""The text of the built-in corpora."""


@dataclass(frozen=True)
class GroupScore:
    """The mean scores of a group of directions on test text."""

    directions: str
    """The name of the group, such as supervised."""
    num_directions: int
    bleu: float
    chrf: float
    language_accuracy: float | None
    """LangAcc: percentage of outputs identified as the target language."""


@dataclass(frozen=True)
class ModelCard:
    """What a card says about a model."""

    model: Transformer
    languages: Sequence[str]
    """The codes of all languages."""
    trained_directions: Sequence[Direction]
    config: Mapping[str, Any]
    """The resolved settings of the experiment; empty if they are unknown."""
    training_info: Mapping[str, Any]
    scores: Sequence[GroupScore] = ()
    library: str = "manyglot"
    targets: Sequence[str] = ()
    """The codes of the target languages, if they are not all languages."""
    is_folded: bool = False
    """Whether guidance is folded into the weights."""
    usage: str = """```python
import manyglot

model = manyglot.load("path/of/this/folder")
model.translate(["Tuesday, March 5, 2024"], to="{target}")
```"""
    """How to use the model, in Markdown."""

    def format(self) -> str:
        """Return the text of README.md."""
        targets = self.targets or self.languages
        sections = {
            "Use": self.usage.replace("{target}", targets[-1]),
            "Languages": self._format_languages(),
            "Guidance": self._format_guidance(),
            "Training data": self._format_data(),
            "Scores": self._format_scores(),
        }
        body = "\n".join(f"## {title}\n\n{text}\n" for title, text in sections.items() if text)
        header = yaml.safe_dump(self._header(), sort_keys=False, allow_unicode=True)
        return f"{HEADER_END}{header}{HEADER_END}\n# {self._title()}\n\n{self._format_architecture()}\n\n{body}"

    def _title(self) -> str:
        names = [english_language_name(code) for code in self.targets]
        if not names or set(self.targets) == set(self.languages):
            return f"Translation between {len(self.languages)} languages"
        return f"Translation into {' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))}"

    def _header(self) -> dict[str, Any]:
        known = [code for code in self.languages if is_known_language_code(code)]
        codes = dict.fromkeys(code for code in map(base_language, known) if not _PRIVATE_USE.fullmatch(code))
        header: dict[str, Any] = {"language": list(codes)} if codes else {}
        header |= {"library_name": self.library, "pipeline_tag": "translation", "tags": ["translation", "manyglot"]}
        if self.scores:
            results = [_as_index_entry(score) for score in self.scores]
            header["model-index"] = [{"name": self._title(), "results": results}]
        return header

    def _format_architecture(self) -> str:
        settings = self.model.settings
        num_parameters = sum(parameter.numel() for parameter in self.model.parameters())
        return (
            f"A Transformer of {num_parameters / 1e6:,.1f} million parameters, with {settings.num_encoder_layers} "
            f"encoder layers, {settings.num_decoder_layers} decoder layers and width {settings.width} "
            f"({settings.norm}-norm). It was made with manyglot {manyglot.__version__}, a toolkit for multilingual "
            f"machine translation.{self._format_trimming()}"
        )

    def _format_trimming(self) -> str:
        whole = self.training_info.get("trimmed_from")
        if whole is None:
            return ""
        return (
            f" It is a part of the model `{PurePath(whole['model']).name}`, which has {whole['num_languages']:,} "
            f"languages and {whole['num_subwords']:,} subwords."
        )

    def _format_languages(self) -> str:
        listed = ", ".join(f"{english_language_name(code)} (`{code}`)" for code in self.languages)
        return f"{listed}." if len(self.targets) in (0, len(self.languages)) else f"Source languages: {listed}."

    def _format_guidance(self) -> str:
        methods = []
        for method in self.model.methods:
            values = method.model_dump(mode="json", exclude={"method"}, exclude_defaults=True)
            options = [f"{name}: {_join(value)}" for name, value in values.items()]
            methods.append(f"`{method.method}`" + (f" ({'; '.join(options)})" if options else ""))
        folded = " Except for tags, their effect is folded into the weights." if self.is_folded else ""
        return f"Methods that tell the model its target language: {', '.join(methods)}.{folded}" if methods else ""

    def _format_data(self) -> str:
        corpus = self.config.get("corpus") or {}
        if not corpus:
            return ""
        num_directions = len(self.languages) * (len(self.languages) - 1)
        return (
            f"{_describe_text(corpus)} The model was trained on {len(self.trained_directions):,} of the "
            f"{num_directions:,} directions between its languages; all others are zero-shot.{self._format_start()}"
        )

    def _format_start(self) -> str:
        """Name the model that training started from, and its licenses."""
        started = self.training_info.get("started_from")
        if not isinstance(started, Mapping):
            return ""
        stated = {"license": "license", "text_license": "license of its text"}
        known = [f"{label}: {started[key]}" for key, label in stated.items() if started.get(key)]
        licenses = "; ".join(known) or "license: see its card"
        return f" Training started from the weights of `{started.get('model')}` ({licenses})."

    def _format_scores(self) -> str:
        lines = []
        metric, value = self.training_info.get("best_metric"), self.training_info.get("value")
        if metric and isinstance(value, int | float):
            step, steps = self.training_info.get("step", 0), self.training_info.get("steps", 0)
            lines += ["| validation metric | value | step |", "|---|---|---|"]
            lines += [f"| `{metric}` | {value:.2f} | {step:,} of {steps:,} |"]
        if self.scores:
            lines += [""] if lines else []
            lines += ["| test directions | number | BLEU | chrF++ | LangAcc |", "|---|---|---|---|---|"]
        for score in self.scores:
            accuracy = "" if score.language_accuracy is None else f"{score.language_accuracy:.1f}%"
            name, number = score.directions, score.num_directions
            lines.append(f"| {name} | {number:,} | {score.bleu:.1f} | {score.chrf:.1f} | {accuracy} |")
        return "\n".join(lines)


def _describe_text(corpus: Mapping[str, Any]) -> str:
    """Name the text and its license, or the parts of a mixture with their licenses."""
    license_of_all = corpus.get("license")
    parts = [part for part in corpus.get("parts") or () if isinstance(part, Mapping)]
    if not parts:
        source = _SOURCES.get(corpus.get("kind", ""), f"The text is {_text_name(corpus)}.")
        return f"{source} License of the text: {license_of_all or 'not stated'}."
    names = [f"{_text_name(part)} (license: {part.get('license') or license_of_all or 'not stated'})" for part in parts]
    return f"The text is a mixture of {' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))}."


def _text_name(corpus: Mapping[str, Any]) -> str:
    path, kind = corpus.get("path"), str(corpus.get("kind"))
    return f"the {kind} corpus of manyglot" if kind in _SOURCES else f"`{PurePath(str(path)).name}`"


def _join(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _as_index_entry(score: GroupScore) -> dict[str, Any]:
    """Return an entry of the model-index, in which hubs find the scores."""
    metrics = {"bleu": score.bleu, "chrf": score.chrf}
    return {
        "task": {"type": "translation"},
        "dataset": {"name": f"test text, {score.num_directions} {score.directions} directions", "type": "test"},
        "metrics": [{"type": name, "value": round(value, 2)} for name, value in metrics.items()],
    }
