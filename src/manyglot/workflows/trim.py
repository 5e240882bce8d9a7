"""`manyglot trim`: make a model smaller by dropping languages, and subwords that the other languages do not use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from manyglot.argument_types import checks_argument_types
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.corpus.base import Split
from manyglot.corpus.language_selection import match_languages
from manyglot.corpus.languages import english_language_name
from manyglot.corpus.readers import read_sentences
from manyglot.corpus.scripts import language_script_code, may_occur_in
from manyglot.errors import CorpusError, FolderError, LanguageError, SettingsError
from manyglot.files import StrPath, is_empty_folder, optional_path
from manyglot.model.model_folder import MODEL_FILES, TrainedModel, save_model
from manyglot.model.run_models import load_any_model
from manyglot.model.trimming import trim_model
from manyglot.model.weights_file import stored_dtype
from manyglot.progress import format_bytes, print_status, progress_counter
from manyglot.reports.displayable import Displayable, DisplayPart
from manyglot.reports.result_table import ResultTable
from manyglot.vocabulary.trimming import trim_subword_model
from manyglot.vocabulary.vocabulary import Vocabulary

BLOCK_SIZE = 10_000
"""Number of sentences that are split into subwords together."""


@dataclass(frozen=True)
class ModelSize:
    """The size of a model folder."""

    num_languages: int
    num_subwords: int
    num_parameters: int
    num_embedding_parameters: int
    """Parameters of subwords and tags: their embeddings, and the bias of the output layer."""
    num_guidance_parameters: int
    num_other_parameters: int
    num_bytes: int
    """The total size of the files."""

    @classmethod
    def of(cls, trained: TrainedModel, folder: Path) -> ModelSize:
        """Return the size of a model and of its files."""
        parts = trained.model.num_parameters_by_part()
        embedding = parts["embedding"] + parts.get("output_bias", 0)
        guidance = sum(count for name, count in parts.items() if name.startswith("guidance."))
        return cls(
            len(trained.vocabulary.languages),
            len(trained.vocabulary.subword_model),
            sum(parts.values()),
            embedding,
            guidance,
            sum(parts.values()) - embedding - guidance,
            sum((folder / name).stat().st_size for name in MODEL_FILES),
        )


@dataclass(frozen=True, repr=False)
class TrimmedModel(Displayable):
    """A trimmed model. It can be used as the path of its folder."""

    folder: Path
    languages: tuple[str, ...]
    before: ModelSize
    after: ModelSize

    def __fspath__(self) -> str:
        return str(self.folder)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"model": str(self.folder), "languages": list(self.languages)} | {
            "before": asdict(self.before),
            "after": asdict(self.after),
        }

    def display_parts(self) -> Iterator[DisplayPart]:
        """Yield the languages, and a table of the sizes."""
        yield f"{self.folder}: {_join(self.languages)}"
        sizes = zip(asdict(self.before).items(), asdict(self.after).values(), strict=True)
        rows = [_table_row(name, before, after) for (name, before), after in sizes if before]
        yield ResultTable(["", "before", "after", "share"], rows)


@checks_argument_types
def trim(
    model: StrPath,
    output: StrPath,
    languages: str | Sequence[str] = (),
    *,
    text: StrPath | Sequence[StrPath] = (),
    data: StrPath | None = None,
) -> TrimmedModel:
    """Write a smaller model with some of the languages, and return the sizes before and after.

    The model is a model folder, a run folder or a checkpoint. `languages` are the languages to keep, or one text such
    as `de,fr`; by default, all. The subwords that the `text` of these languages does not use are dropped too. `text` is
    one or several files with a sentence per line, or corpora in any layout of kind `files`. `data` is prepared data
    with the subwords of the model, whose text is used in the same way. Without them, all subwords stay.
    """
    folder, paths = Path(output), [text] if isinstance(text, str | os.PathLike) else text
    if folder.exists() and not is_empty_folder(folder):
        raise FolderError(f"{folder} already exists. Choose another folder, or delete it.")
    trained = load_any_model(Path(model))
    assert trained.folder is not None
    codes = _select_languages(trained, languages)
    used_ids = _find_used_subwords(trained.vocabulary, codes, [Path(path) for path in paths], optional_path(data))
    subwords = trim_subword_model(trained.vocabulary.subword_model, used_ids, codes)
    trimmed = trim_model(trained, codes, subwords, os.fspath(model))
    save_model(folder, trimmed, stored_dtype(trained.folder / "model.safetensors"))
    return TrimmedModel(folder, tuple(codes), ModelSize.of(trained, trained.folder), ModelSize.of(trimmed, folder))


def _select_languages(trained: TrainedModel, names: str | Sequence[str]) -> list[str]:
    """Return the codes of the languages to keep; raise an error if the model could not translate between them."""
    known = trained.vocabulary.languages
    listed = [name.strip() for each in ([names] if isinstance(names, str) else names) for name in each.split(",")]
    codes = sorted({known.find_code(name) for name in listed if name}) or list(known)
    if len(codes) < 2:
        raise LanguageError(f"A model needs at least two languages, but only {codes[0]} is left. Keep another one.")
    if any(set(direction) <= set(codes) for direction in trained.trained_directions):
        return codes
    if trained.targets is not None:
        sources = sorted({direction.source for direction in trained.trained_directions})
        raise LanguageError(
            f"The model does not translate between {_join(codes)}: it translates from {_join(sources)} into "
            f"{_join(trained.targets)}. Keep a language of each side."
        )
    print_status("No direction between these languages was trained: all of them are zero-shot.")
    return codes


def _find_used_subwords(
    vocabulary: Vocabulary, codes: Sequence[str], text: Sequence[Path], data: Path | None
) -> set[int] | None:
    """Return the subwords of the text and the data; None if neither is given."""
    if text or data is not None:
        usage = _TextUsage(vocabulary, codes)
        usage.add_text(text)
        if data is not None:
            usage.add_data(data)
        usage.check()
        return usage.subwords
    if len(codes) == len(vocabulary.languages):
        raise SettingsError("There is nothing to trim. Give --languages, --text or --data.")
    print_status("All subwords stay. To drop those that these languages do not use, give --text or --data.")
    return None


class _TextUsage:
    """The subwords and languages of some text in the remaining languages."""

    def __init__(self, vocabulary: Vocabulary, codes: Sequence[str]) -> None:
        self._vocabulary, self._codes = vocabulary, codes
        self.subwords: set[int] = set()
        self._languages: set[str | None] = set()
        """The languages with text; None if the language of some text is unknown."""
        self._characters: set[str] = set()
        """The characters of text of unknown language."""

    def add_text(self, paths: Sequence[Path]) -> None:
        """Add the text of files or corpora."""
        with progress_counter("reading the text", "sentences", hidden=not paths) as progress:
            for path in paths:
                sentences, is_empty = read_sentences(path, self._codes), True
                while block := list(islice(sentences, BLOCK_SIZE)):
                    self._add_sentences(block)
                    progress.advance(len(block))
                    is_empty = False
                if is_empty:
                    raise CorpusError(f"{path} has no text in {_join(self._codes)}. Give text in these languages.")

    def _add_sentences(self, sentences: Sequence[tuple[str | None, str]]) -> None:
        languages, texts = zip(*sentences, strict=True)
        self.subwords.update(chain(*self._vocabulary.encode(texts, languages)))
        if self._vocabulary.subword_model.splits_targets_differently:
            self.subwords.update(chain(*self._vocabulary.encode_targets(texts, languages)))
        self._languages.update(languages)
        self._characters.update(*(text for language, text in sentences if language is None))

    def add_data(self, folder: Path) -> None:
        """Add the text of prepared data that has the subwords of the model."""
        dataset = PreparedDataset(folder)
        if dataset.vocabulary.subword_model.serialized != self._vocabulary.subword_model.serialized:
            raise FolderError(
                f"{folder} has other subwords than the model. Give data that was prepared with its subwords, or --text."
            )
        names = match_languages(self._codes, dataset.languages, f"the languages of {folder}")
        self._languages.update(names)
        for split in Split:
            dataset.verify(f"store/{split}/{name}" for name in ("tokens.npy", "offsets.npy"))
            for name in names.values():
                self.subwords |= dataset.token_store(split).used_subwords(name)

    def check(self) -> None:
        """Raise an error if a language has no text. Text of unknown language must have letters of its script."""
        for code in self._codes:
            script = language_script_code(code)
            has_letters = script is None or any(
                character.isalpha() and may_occur_in(character, {script}) for character in self._characters
            )
            if code not in self._languages and not (None in self._languages and has_letters):
                raise CorpusError(
                    f"There is no text in {code} ({english_language_name(code)}), so its subwords would be lost. Give "
                    f"--text in this language, or drop the language."
                )


def _table_row(name: str, before: int, after: int) -> list[str]:
    """Format a size before and after."""
    sizes = [format_bytes(size) if name == "num_bytes" else f"{size:,}" for size in (before, after)]
    label = "files" if name == "num_bytes" else name.removeprefix("num_").replace("_", " ")
    return [label, *sizes, f"{after / before:.1%}"]


def _join(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + ", …" * (len(names) > 10)
