"""Archives: members are read as files are, and suspicious archives are refused."""

from __future__ import annotations

import gzip
import stat
import struct
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from manyglot.corpus import zip_archives
from manyglot.corpus.textfiles import read_lines
from manyglot.corpus.zip_archives import list_zip_members, read_source_blocks
from manyglot.errors import CorpusError, ManyglotError


def archive(folder: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    path = folder / "de-en.txt.zip"
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return path


def test_members_are_read_as_files(tmp_path: Path) -> None:
    path = archive(tmp_path, {"b/x.de": "Grüße\r\nzwei\n".encode(), "a.gz": gzip.compress(b"one\n"), "b/": b""})
    packed, plain = list_zip_members(path)
    assert list(read_lines(plain)) == ["Grüße", "zwei"]
    assert list(read_lines(packed)) == ["one"]
    assert str(plain) == f"{path}:b/x.de"
    with pytest.raises(CorpusError, match=r"de-en.txt.zip:b/bad, line 2 is not UTF-8"):
        list(read_lines(list_zip_members(archive(tmp_path, {"b/bad": b"a\n\xff\n"}))[0]))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../train.de", "holds '../train.de', a path outside the archive"),
        ("/etc/train.de", "a path outside the archive"),
        ("a\\..\\..\\train.de", "a path outside the archive"),
        ("C:\\train.de", "a path outside the archive"),
        ("more.zip", "holds another archive, 'more.zip'. Unpack it"),
        ("more.TAR", "holds another archive"),
    ],
)
def test_suspicious_names_are_refused(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=message):
        list_zip_members(archive(tmp_path, {"README": b"", name: b"text"}))


def test_links_and_rare_compression_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("train.de")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = tmp_path / "links.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(link, "/etc/passwd")
    with pytest.raises(CorpusError, match=r"holds the link 'train.de'"):
        list_zip_members(path)
    with pytest.raises(CorpusError, match="rare compression method"):
        list_zip_members(archive(tmp_path, {"train.de": b"x"}, zipfile.ZIP_LZMA))


def test_text_that_expands_too_far_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path, {"train.de": b"a" * 2**20})
    assert list_zip_members(path)
    monkeypatch.setattr(zip_archives, "SMALL_BYTES", 2**16)
    with pytest.raises(CorpusError, match=r"'train.de' expands more than 100-fold, to 1,048,576 bytes"):
        list_zip_members(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_and_overlapping_members_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("train.de", "a")
        file.writestr("train.de", "b")
    with pytest.raises(CorpusError, match=r"holds 'train.de' twice"):
        list_zip_members(path)
    content = archive(tmp_path, {"a": b"x" * 99, "b": b"y" * 99}, zipfile.ZIP_STORED).read_bytes()
    second = content.rindex(b"PK\1\2")
    path.write_bytes(content[: second + 42] + struct.pack("<I", 1) + content[second + 46 :])
    with pytest.raises(CorpusError, match="'b' overlaps another file"):
        list_zip_members(path)


def test_encrypted_members_are_refused(tmp_path: Path) -> None:
    content = bytearray(archive(tmp_path, {"train.de": b"text"}).read_bytes())
    content[content.index(b"PK\1\2") + 8] |= 1
    (tmp_path / "secret.zip").write_bytes(content)
    with pytest.raises(CorpusError, match="is encrypted"):
        list_zip_members(tmp_path / "secret.zip")


def test_a_large_list_of_members_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path, {f"{'n' * 99}{i}": b"" for i in range(900)})
    monkeypatch.setattr(zip_archives, "MAX_DIRECTORY_BYTES", 2**16 + 2**10)
    with pytest.raises(CorpusError, match="holds too many files"):
        list_zip_members(path)


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    path = archive(tmp_path, {"train.de": bytes(range(32, 127)) * 50}, zipfile.ZIP_STORED)
    content = path.read_bytes()
    for damaged, what in ((content[:-9], r"zip cannot be read as zip"), (b"", "cannot be read as zip")):
        path.write_bytes(damaged)
        with pytest.raises(CorpusError, match=what):
            list_zip_members(path)
    path.write_bytes(content[:99] + b"?" + content[100:])
    with pytest.raises(CorpusError, match=r"zip:train.de cannot be read as zip \(Bad CRC-32"):
        list(read_source_blocks(list_zip_members(path)[0]))


def test_every_changed_byte_is_refused_or_harmless(tmp_path: Path) -> None:
    text = "Grüße aus Köln\n".encode() * 3
    content = archive(tmp_path, {"train.de": text}).read_bytes()
    path = tmp_path / "changed.zip"
    for position in range(len(content)):
        path.write_bytes(content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :])
        with suppress(ManyglotError):
            assert [b"".join(read_source_blocks(member)) for member in list_zip_members(path)] == [text], position
