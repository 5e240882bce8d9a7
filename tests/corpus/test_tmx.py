"""Translation memories: what is read, what is refused, and the memory of reading."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest

from manyglot.corpus.tmx import MAX_PENDING_BYTES, read_tmx
from manyglot.errors import CorpusError

TICO_19 = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
<header creationtool="tool" segtype="sentence" srclang="en" datatype="PlainText"/>
<body>
<tu tuid="1"><prop type="domain">health</prop>
<tuv xml:lang="en"><seg>Wash your hands &amp; face.</seg></tuv>
<tuv xml:lang="fr"><seg>Lavez-vous les mains
et le visage.</seg></tuv></tu>
<tu tuid="2"><tuv xml:lang="EN"><seg>Press <bpt i="1">&lt;b></bpt><hi>Start</hi><ept>&lt;/b></ept>.</seg></tuv>
<tuv lang="pt_br"><seg>Prima.</seg></tuv><tuv xml:lang="fr"><seg/></tuv></tu>
</body></tmx>
"""
ROWS = [
    {"en": "Wash your hands & face.", "fr": "Lavez-vous les mains et le visage."},
    {"en": "Press Start.", "pt-BR": "Prima."},
]


def read(folder: Path, content: str | bytes, name: str = "all.en-fr.tmx") -> list[dict[str, str]]:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return [dict(unit) for unit in read_tmx(path)]


def test_units_are_read_by_language(tmp_path: Path) -> None:
    assert read(tmp_path, TICO_19) == ROWS
    assert read(tmp_path, gzip.compress(TICO_19.encode()), "all.en-fr.tmx.gz") == ROWS
    assert read(tmp_path, TICO_19.replace("UTF-8", "UTF-16").encode("utf-16")) == ROWS


BOMB = "<!DOCTYPE tmx [" + "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 12)) + "]>"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</body></tmx>", "", r"tmx, line 13 is not valid XML \(no element found\). If the file is incomplete"),
        ("Prima.</seg>", "Prima.</tuv>", r"line 11 is not valid XML \(mismatched tag\)"),
        ('<!DOCTYPE tmx SYSTEM "tmx14.dtd">', BOMB, r"line 2: the file has declarations of its own in <!DOCTYPE>"),
        ('SYSTEM "tmx14.dtd"', '[<!ENTITY x SYSTEM "file:///etc/passwd">]', "line 2: the file has declarations"),
        ("Prima.", "&x;", "line 11: the entity 'x' is not allowed"),
        (' lang="pt_br"', "", "line 11: <tuv> names no language. Add xml:lang"),
        ('"pt_br"', '"EN"', "line 11: the unit has two texts in 'en'"),
        ("Prima.", "a" * 2**22, "line 11: a translation unit has more than 4,194,304 bytes"),
        ("Prima.", "<hi>" * 200, "nested too deeply"),
        ("<prop", "<tu><prop", "line 6: <tu> is inside <tu>"),
        ("<body>", f"<body><!--{'a' * (MAX_PENDING_BYTES + 2**17)}-->", "a tag or comment has more than"),
        ("UTF-8", "big5", "the encoding is not supported .* Convert the file to UTF-8"),
        ("tmx", "xml", "is XML, but not TMX"),
    ],
)
def test_damaged_and_hostile_files_are_refused_by_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=message) as error:
        read(tmp_path, TICO_19.replace(old, new))
    assert len(str(error.value)) < 500


def test_text_of_another_encoding_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="line 7 is not valid XML"):
        read(tmp_path, TICO_19.encode().replace(b"hands", b"h\xff"))


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    start, end = TICO_19.index("<tu "), TICO_19.index("</body>")
    path = tmp_path / "large.tmx"
    path.write_text(TICO_19[:start])
    with path.open("a") as file:
        file.writelines([TICO_19[start:end]] * 5_000 + [TICO_19[end:]])
    tracemalloc.start()
    assert sum(1 for _ in read_tmx(path)) == 10_000
    assert tracemalloc.get_traced_memory()[1] < 2**20 < path.stat().st_size
    tracemalloc.stop()


def test_many_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="too many names"):
        read(tmp_path, "<tmx>" + "".join(f"<a{i}/>" for i in range(2000)) + "</tmx>")
    units = "".join(f'<tu><tuv xml:lang="a{i}"><seg>x</seg></tuv></tu>' for i in range(2000))
    with pytest.raises(CorpusError, match="too many languages"):
        read(tmp_path, f"<tmx>{units}</tmx>")
