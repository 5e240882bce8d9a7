"""Which languages an imported model translates from and into, and which tags tell it the target language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from manyglot.corpus.language_codes import format_language_code
from manyglot.corpus.languages import Direction, Languages, is_known_language_code, looks_like_language_code
from manyglot.errors import SettingsError
from manyglot.importers.huggingface_folder import HuggingFaceFolder
from manyglot.importers.token_table import TokenTable
from manyglot.model.guidance.base import MethodSettings
from manyglot.model.guidance.token import LanguageTokenSettings

SEVERAL_LANGUAGES = ("mul", "und")
"""Codes of ISO 639 for several languages and for unknown ones."""


@dataclass(frozen=True)
class TranslationDirections:
    """The languages of a model and how it is told the target language."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    guidance: tuple[MethodSettings, ...]
    """Empty for a model with a single target language."""

    @property
    def languages(self) -> Languages:
        """The languages of both sides."""
        return Languages([*self.sources, *self.targets])

    @property
    def all_directions(self) -> tuple[Direction, ...]:
        """Every source with every other target. Which of them were trained, a checkpoint does not say."""
        return tuple(
            Direction(source, target) for source in self.sources for target in self.targets if source != target
        )


def find_directions(
    folder: HuggingFaceFolder, table: TokenTable, sources: Sequence[str], targets: Sequence[str]
) -> TranslationDirections:
    """Return the directions of a model. `sources` and `targets` are what the user states, for Marian only."""
    if folder.family != "marian":
        if sources or targets:
            raise SettingsError(
                "--source and --target apply to Marian models only. Remove them: this model names its own languages."
            )
        tags = tuple(sorted(table.tags))
        if not tags:
            raise folder.error("tokenizer_config.json", "the tokenizer has no language codes")
        return TranslationDirections(tags, tags, (LanguageTokenSettings(side="target"),))
    if table.tags and not targets:
        target_codes = tuple(sorted(table.tags))
        source_codes = _source_languages(folder, sources, target_codes)
        return TranslationDirections(source_codes, target_codes, (LanguageTokenSettings(side="source"),))
    target_codes = tuple(targets) or _stated_language(folder, "target_lang")
    if len(target_codes) != 1:
        raise SettingsError(
            f"--target: a model without tags has one target language, not {', '.join(target_codes)}. Name one."
        )
    source_codes = tuple(sources) or _stated_language(folder, "source_lang")
    if target_codes[0] in source_codes:
        raise SettingsError(f"--source and --target name the same language, {target_codes[0]}. Name different ones.")
    return TranslationDirections(source_codes, target_codes, ())


def _source_languages(folder: HuggingFaceFolder, sources: Sequence[str], targets: tuple[str, ...]) -> tuple[str, ...]:
    """Return the source languages of a model with tags of its target languages, with codes in the style of the tags."""
    if not sources and folder.tokenizer_config.get("source_lang") == folder.tokenizer_config.get("target_lang"):
        return targets  # a group of languages on both sides, or nothing is stated
    codes = tuple(sources) or _stated_language(folder, "source_lang")
    if all(len(target.split("_")[0]) == 3 for target in targets):
        codes = tuple(next((t for t in targets if t == code), format_language_code(code, "iso639-3")) for code in codes)
    return codes


def _stated_language(folder: HuggingFaceFolder, key: str) -> tuple[str, ...]:
    """Return the language that tokenizer_config.json states; raise a SettingsError if it states none, or a group."""
    code, option = folder.tokenizer_config.get(key), f"--{key.removesuffix('_lang')}"
    if not isinstance(code, str) or not code:
        raise SettingsError(
            f"{folder.path / 'tokenizer_config.json'} has no {key}. Give {option}, such as {option} de."
        )
    known = looks_like_language_code(code) and is_known_language_code(code) and code not in SEVERAL_LANGUAGES
    if not known:
        raise SettingsError(
            f"{folder.path / 'tokenizer_config.json'}: {key} {code[:50]!r} is not one language. "
            + ("Name the language: --target de." if key == "target_lang" else "Name the languages: --source de,fr.")
        )
    return (code,)
