"""A folder written by `save_pretrained` of transformers: its JSON files and the family of its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from manyglot.errors import FolderError
from manyglot.files import check_links, read_json_object

Family = Literal["m2m_100", "mbart", "marian"]
MAX_CONFIG_BYTES, MAX_TOKENIZER_CONFIG_BYTES = 2**20, 2**24
SMALL_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
TOKENIZER_CLASSES: Mapping[str, tuple[str, ...]] = {
    "m2m_100": ("M2M100Tokenizer", "NllbTokenizer", "NllbTokenizerFast"),
    "mbart": ("MBart50Tokenizer", "MBart50TokenizerFast"),
    "marian": ("MarianTokenizer",),
}
"""The tokenizers of each family. Others put language codes elsewhere, such as that of MBart-25 and of SMaLL-100."""


@dataclass(frozen=True)
class HuggingFaceFolder:
    """The JSON files of a folder; a missing file is empty."""

    path: Path
    config: Mapping[str, Any]
    generation_config: Mapping[str, Any]
    tokenizer_config: Mapping[str, Any]
    special_tokens_map: Mapping[str, Any]
    added_tokens: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> HuggingFaceFolder:
        """Read the small files of a folder, and check that the model is of a supported family."""
        if not path.is_dir():
            raise FolderError(f"{path} is not a folder. Give one written by save_pretrained of transformers.")
        if not (path / "config.json").exists():
            raise FolderError(
                f"{path} has no config.json, so it is not a model of transformers. Give one written by save_pretrained."
            )
        check_links(path)
        files = {
            Path(name).stem: read_json_object(path / name, _max_bytes(name)) if (path / name).exists() else {}
            for name in SMALL_FILES
        }
        folder = cls(path, **files)
        folder._check_family()
        return folder

    def _check_family(self) -> None:
        family = str(self.config.get("model_type"))
        if family not in TOKENIZER_CLASSES:
            known = "M2M100 and NLLB-200 (m2m_100), MBart-50 (mbart) and Marian (marian)"
            raise self.error("config.json", f"model_type {family[:50]!r} cannot be imported. Supported models: {known}")
        name = self.tokenizer_config.get("tokenizer_class") or self.config.get("tokenizer_class")
        if name is not None and name not in TOKENIZER_CLASSES[family]:
            known = ", ".join(TOKENIZER_CLASSES[family])
            raise self.error(
                "tokenizer_config.json",
                f"the tokenizer {str(name)[:50]!r} cannot be imported with this model. Supported tokenizers: {known}",
            )
        if family == "marian" and (
            self.config.get("share_encoder_decoder_embeddings") is False or self.tokenizer_config.get("separate_vocabs")
        ):
            raise self.error(
                "config.json",
                "separate vocabularies for source and target are not supported. Give a model with one vocabulary",
            )

    @property
    def family(self) -> Family:
        """The family of the model."""
        family: Family = self.config["model_type"]
        return family

    def special_tokens(self) -> list[str]:
        """The further special tokens that the files list, in order, such as language codes."""
        for values in (self.tokenizer_config, self.special_tokens_map):
            for key in ("additional_special_tokens", "extra_special_tokens"):
                listed = values.get(key)
                if isinstance(listed, list) and listed:
                    return [name for token in listed if (name := token_text(token)) is not None]
        return []

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer of config.json."""
        value = self.config.get(name, default)
        if type(value) is not int or value < 0:
            raise self.error("config.json", f"{name} should be a non-negative integer, not {str(value)[:50]}")
        return value

    def error(self, file: str, problem: str) -> FolderError:
        """Return the error of a file of the folder."""
        return FolderError(f"{self.path / file}: {problem}.")


def token_text(token: Any) -> str | None:
    """Return the text of a token, which is a string or an object with `content`; None if it is damaged."""
    text = token.get("content") if isinstance(token, Mapping) else token
    return text if isinstance(text, str) else None


def _max_bytes(name: str) -> int:
    return MAX_CONFIG_BYTES if name.endswith("config.json") and "tokenizer" not in name else MAX_TOKENIZER_CONFIG_BYTES
