"""`manyglot trim`: make a model smaller by dropping languages, and the subwords that the others do not use."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
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
from manyglot.files import StrPath, is_empty_folder
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

    languages: int
    subwords: int
    parameters: int
    embedding_parameters: int
    """The rows of subwords and tags, and the bias of the output layer."""
    guidance_parameters: int
    other_parameters: int
    bytes: int
    """The size of the files of the model."""

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
    used_ids: set[int] | None = None
    if paths or data is not None:
        used_ids = _subwords_in_text(trained.vocabulary, [Path(path) for path in paths], codes)
        used_ids |= set() if data is None else _subwords_in_data(trained.vocabulary, Path(data), codes)
    elif len(codes) == len(trained.vocabulary.languages):
        raise SettingsError("There is nothing to trim. Give --languages, --text or --data.")
    else:
        print_status("All subwords stay. To drop those that these languages do not use, give --text or --data.")
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
        raise LanguageError(f"A model needs at least two languages, and {codes[0]} is only one. Keep another one.")
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


def _subwords_in_text(vocabulary: Vocabulary, paths: Sequence[Path], codes: Sequence[str]) -> set[int]:
    """Return the subwords of some text; raise an error if it lacks a language."""
    used: set[int] = set()
    found: set[str | None] = set()
    with progress_counter("reading the text", "sentences", hidden=not paths) as progress:
        for path in paths:
            num_sentences, sentences = 0, read_sentences(path, codes)
            while block := list(islice(sentences, BLOCK_SIZE)):
                languages, lines = zip(*block, strict=True)
                used.update(chain(*vocabulary.encode(lines, languages)))
                if vocabulary.subword_model.splits_targets_differently:
                    used.update(chain(*vocabulary.encode_targets(lines, languages)))
                found.update(languages)
                num_sentences += len(block)
                progress.advance(len(block))
            if not num_sentences:
                raise CorpusError(f"{path} has no text in {_join(codes)}. Give text in these languages.")
    if paths:
        pieces = vocabulary.subword_model.pieces()
        _check_languages_have_text(codes, found, set(chain(*(pieces[i] for i in used))))
    return used


def _check_languages_have_text(codes: Sequence[str], found: Collection[str | None], characters: set[str]) -> None:
    """Raise an error if a language has no text. Text of unknown languages is enough if it has letters of its script."""
    for code in codes:
        script = language_script_code(code)
        has_letters = script is None or any(
            character.isalpha() and may_occur_in(character, {script}) for character in characters
        )
        if code not in found and not (None in found and has_letters):
            raise CorpusError(
                f"The text has no sentences in {code} ({english_language_name(code)}), so its subwords would be lost. "
                f"Add text in this language, or do not keep it."
            )


def _subwords_in_data(vocabulary: Vocabulary, folder: Path, codes: Sequence[str]) -> set[int]:
    """Return the subwords of prepared data in some languages."""
    dataset = PreparedDataset(folder)
    if dataset.vocabulary.subword_model.serialized != vocabulary.subword_model.serialized:
        raise FolderError(
            f"{folder} has other subwords than the model. Give data that was prepared with its subwords, or --text."
        )
    names, used = match_languages(codes, dataset.languages, f"the languages of {folder}"), set[int]()
    for code in codes:
        if code not in names:
            raise LanguageError(
                f"{folder} has no text in {code} ({english_language_name(code)}). Add --text in this language as well, "
                f"or do not keep it."
            )
    for split in Split:
        dataset.verify(f"store/{split}/{name}" for name in ("tokens.npy", "offsets.npy"))
        for name in names.values():
            used |= dataset.token_store(split).used_subwords(name)
    return used


def _table_row(name: str, before: int, after: int) -> list[str]:
    """Format a size before and after."""
    sizes = [format_bytes(size) if name == "bytes" else f"{size:,}" for size in (before, after)]
    return ["files" if name == "bytes" else name.replace("_", " "), *sizes, f"{after / before:.1%}"]


def _join(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + ", …" * (len(names) > 10)
