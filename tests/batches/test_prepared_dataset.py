"""A damaged dataset is always noticed: by opening it, or else by the checksums."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from manyglot.batches.background_verification import verified_in_background
from manyglot.batches.loader import BatchLoader, DataPosition
from manyglot.batches.plan import BatchSettings
from manyglot.batches.prepared_dataset import PreparedDataset, dataset_files
from manyglot.corpus.base import Split
from manyglot.devices import find_device
from manyglot.distributed import DistributedContext
from manyglot.errors import FolderError
from manyglot.vocabulary.vocabulary import LanguageTags

NUM_MUTATIONS = 150


@pytest.fixture
def copy(dataset: PreparedDataset, tmp_path: Path) -> Path:
    shutil.copytree(dataset.folder, tmp_path / "data")
    return tmp_path / "data"


def mutate(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return the content of a file after a random accident; `other` is the content of another file."""
    position = rng.randrange(len(content) + 1)
    flipped = bytearray(content)
    if content:
        flipped[position % len(content)] ^= 1 << rng.randrange(8)
    size = rng.randrange(1, 9)
    return rng.choice(
        [
            bytes(flipped),
            bytes(flipped),
            content[:position],
            content[:position] + bytes(len(content) - position),
            content[:128] + bytes(len(content[128:])),  # the values of an array, without its header
            content[:position] + rng.randbytes(size) + content[position + size :],
            content[:position] + rng.randbytes(size) + content[position:],
            content + content[-size:],
            other,
        ]
    )


def mutations(folder: Path, seed: int) -> Iterator[str]:
    """Damage one file after another and restore it each time; yield its name."""
    rng, paths = random.Random(seed), sorted(path for path in folder.rglob("*") if path.is_file())
    contents = {path: path.read_bytes() for path in paths}
    for _ in range(NUM_MUTATIONS):
        path, other = rng.choices(paths, k=2)
        mutated = mutate(contents[path], contents[other], rng)
        if mutated == contents[path]:
            continue
        path.write_bytes(mutated)
        yield path.relative_to(folder).as_posix()
        path.write_bytes(contents[path])


def batches(dataset: PreparedDataset) -> list[list[list[list[int]]]]:
    """Return some training and dev batches and all text."""
    tags = [LanguageTags(source=(dataset.vocabulary.tag_id(i),)) for i in range(len(dataset.languages))]
    read = []
    for split in (Split.TRAIN, Split.DEV):
        settings = BatchSettings(max_tokens=200)
        loader = BatchLoader(dataset.token_store(split), dataset.train_directions, settings, tags, seed=1)
        for batch, _ in islice(loader.iter_batches(DataPosition()), 8):
            read.append([batch.source_BS.tolist(), batch.label_BT.tolist()])
    return read


def test_no_mutation_is_used_silently(dataset: PreparedDataset, copy: Path) -> None:
    expected, noticed = batches(dataset), 0
    distributed = DistributedContext(find_device("cpu"))
    for name in mutations(copy, seed=1):
        try:
            damaged = PreparedDataset(copy)
            with verified_in_background(damaged, distributed) as verification:
                got = batches(damaged)
                verification.raise_if_damaged()
        except FolderError as error:
            assert str(error).startswith(str(copy / name)) or name == "dataset.json", error  # noqa: PT017
            noticed += 1
        else:
            assert name == "dataset.json", "only white space in the metadata may change"
            assert got == expected
            assert damaged.metadata == dataset.metadata
    assert noticed > 0.9 * NUM_MUTATIONS


def test_a_dataset_has_exactly_the_sealed_files(dataset: PreparedDataset) -> None:
    names = {path.relative_to(dataset.folder).as_posix() for path in dataset.folder.rglob("*") if path.is_file()}
    assert names == {"dataset.json", *dataset_files(dataset.languages)}
    assert dataset.num_bytes == sum((dataset.folder / name).stat().st_size for name in dataset.seals)
    dataset.verify()


def test_opening_notices_wrong_sizes_and_missing_files(copy: Path) -> None:
    intact = {name: (copy / name).read_bytes() for name in PreparedDataset(copy).seals}
    for name, content in intact.items():
        (copy / name).unlink()
        with pytest.raises(FolderError, match=rf"{name} is damaged \(it is missing"):
            PreparedDataset(copy)
        (copy / name).write_bytes(content + b"\n")
        with pytest.raises(FolderError, match=rf"{name} is damaged .*{len(content):,} bytes.*prepare it again\.$"):
            PreparedDataset(copy)
        (copy / name).write_bytes(content)


@pytest.mark.parametrize(
    "edit",
    [
        {"directions": [["qaa", "qac"]]},
        {"central_language": "qab"},
        {"files": {}},
        {"seal": {"kind": "dataset", "keys": [], "sha256": "0" * 64}},
    ],
)
def test_edited_metadata_is_refused(edit: dict[str, object], copy: Path) -> None:
    metadata = json.loads((copy / "dataset.json").read_text("utf-8"))
    (copy / "dataset.json").write_text(json.dumps(metadata | edit), "utf-8")
    with pytest.raises(FolderError, match=r"dataset\.json is damaged \(its content does not match its checksum\)"):
        PreparedDataset(copy)


def test_metadata_without_a_seal_is_refused(copy: Path) -> None:
    metadata = json.loads((copy / "dataset.json").read_text("utf-8"))
    for key in ("seal", "files"):
        (copy / "dataset.json").write_text(json.dumps({k: metadata[k] for k in metadata if k != key}), "utf-8")
        with pytest.raises(FolderError, match=r"dataset\.json is damaged"):
            PreparedDataset(copy)


@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000, '{"format": 3}', '{"format": 3' + "0" * 5_000 + "}"])
def test_other_metadata_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "dataset.json").write_text(content)
    with pytest.raises(FolderError) as error:
        PreparedDataset(tmp_path)
    assert len(str(error.value)) < 500 + len(str(tmp_path))
    assert "prepare it again" in str(error.value).lower()


def test_a_pipe_in_the_place_of_a_file_does_not_block(copy: Path) -> None:
    for name in ("dataset.json", "subwords.model", "text/test.qaa", "store/train/tokens.npy"):
        content = (copy / name).read_bytes()
        (copy / name).unlink()
        os.mkfifo(copy / name)
        with pytest.raises(FolderError, match=name):
            PreparedDataset(copy)
        (copy / name).unlink()
        (copy / name).write_bytes(content)


def test_text_is_verified_before_it_is_read(copy: Path) -> None:
    path = copy / "text" / "test.qab"
    path.write_bytes(path.read_bytes().replace(b"a", b"b", 1))
    dataset = PreparedDataset(copy)
    assert len(dataset.rows(Split.DEV)) == 8
    for read in (lambda: dataset.rows(Split.TEST), lambda: dataset.sentences(Split.TEST, "qab")):
        with pytest.raises(FolderError, match=r"test\.qab is damaged \(its checksum is wrong\)"):
            read()


def test_the_digest_depends_on_every_file(dataset: PreparedDataset, copy: Path) -> None:
    assert PreparedDataset(copy).digest() == dataset.digest()
    assert len({seal.sha256 for seal in dataset.seals.values()}) > 10
    assert dataset.metadata["files"].keys() == dataset.seals.keys()
