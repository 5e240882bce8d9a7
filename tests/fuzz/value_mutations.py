"""Mutations that know a format: values in JSON and YAML, headers and values of NumPy and safetensors files."""

from __future__ import annotations

import copy
import io
import json
import random
import re
import struct
import zipfile
from typing import Any

import numpy as np

from tests.fuzz.byte_mutations import HOSTILE_TEXT, Mutated, mutate_bytes

HOSTILE_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3.7, -0.0, 1e-320, 1e308, 10**30, 2**31, 2**63, 2**64),
    *(float("nan"), float("inf"), "", "x", "no", "null", "1", "true", "../../x", "/dev/zero"),
    *("a\0b", "\ud800", "\u202e", "x" * 100_000, [], {}, [[]], [None], {"": None}, {"a": {"b": {}}}, [1, "x", None]),
)
HOSTILE_JSON = {
    "deep lists": "[" * 5000 + "]" * 5000,
    "deep objects": '{"a":' * 5000 + "1" + "}" * 5000,
    "an integer of 5,000 digits": "9" * 5000,
    "a number beyond floats": "1e999",
    "NaN": "NaN",
    "minus infinity": "-Infinity",
    "nothing": "",
}
HOSTILE_YAML = HOSTILE_JSON | {
    "an integer tag": "!!int x",
    "an object of Python": "!!python/object/apply:os.system [exit]",
    "an alias to itself": "&a [*a]",
    "an alias bomb": "[&a [x, x], &b [*a, *a, *a], &c [*b, *b, *b], &d [*c, *c, *c]]",
    "a merge key": "{<<: {a: 1}, b: 2}",
    "a sexagesimal number": "1:30",
    "an impossible date": "2024-13-45",
    "a date": "2024-01-01",
    "an octal number": "010",
    "a hexadecimal number": "0x1F",
    "a grouped number": "1_000",
    "a block scalar": "|\n  x\n  y",
    "a question mark": "? x",
    "a tab": "\tx",
    "a second document": "x\n---\ny: 1",
    "an open bracket": "[1, 2",
    "an infinity of YAML": ".inf",
    "yes": "yes",
}
_PLACEHOLDER = "REPLACEDVALUE"


def mutate_values(values: Any, rng: random.Random) -> tuple[Any, str]:
    """Replace, delete, rename or swap one value of a tree of plain values; return a copy of the tree."""
    values = copy.deepcopy(values)
    paths = [path for path in iter_paths(values) if path]
    if not paths:
        return rng.choice(HOSTILE_VALUES), "replace everything"
    path = rng.choice(paths)
    parent, key, name = value_at(values, path[:-1]), path[-1], ".".join(map(str, path))
    match rng.randrange(7):
        case 0:
            del parent[key]
            return values, f"delete {name}"
        case 1 if isinstance(parent, dict):
            new_key = rng.choice((str(key) + "x", str(key)[:-1], "", "x" * 5000, "\ud800"))
            parent[new_key] = parent.pop(key)
            return values, f"rename {name} to {new_key[:20]!r}"
        case 2:
            other = rng.choice(paths)
            parent[key] = copy.deepcopy(value_at(values, other))
            return values, f"copy {'.'.join(map(str, other))} to {name}"
        case 3 if isinstance(parent[key], (int, float)) and not isinstance(parent[key], bool):
            parent[key] = rng.choice((parent[key] + 1, parent[key] - 1, -parent[key], parent[key] * 2, parent[key] / 2))
            return values, f"set {name} to {parent[key]!r}"
        case 4 if isinstance(parent[key], (list, str)) and parent[key]:
            parent[key] = rng.choice((parent[key][1:], parent[key][:-1], parent[key] * 2, parent[key][::-1]))
            return values, f"change {name} to {str(parent[key])[:60]!r}"
        case _:
            parent[key] = copy.deepcopy(rng.choice(HOSTILE_VALUES))
            return values, f"set {name} to {str(parent[key])[:60]!r}"


def iter_paths(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """Yield the path of each value in a tree."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from iter_paths(inner, (*path, key))


def value_at(value: Any, path: tuple[Any, ...]) -> Any:
    """Return the value at a path."""
    for key in path:
        value = value[key]
    return value


def mutate_json(content: bytes, rng: random.Random) -> Mutated:
    """Change a value, a key, or the text of a value in JSON."""
    values = json.loads(content)
    match rng.randrange(4):
        case 0:
            return _with_raw_text(values, rng)
        case 1 if isinstance(values, dict) and values:
            text, key = json.dumps(values, indent=2, ensure_ascii=False), rng.choice(sorted(values))
            duplicate = json.dumps({key: rng.choice(HOSTILE_VALUES[:20])})[1:-1]
            return f"{text[:-2]},\n{duplicate}\n}}".encode(), f"add {duplicate[:60]} again"
    values, description = mutate_values(values, rng)
    return json.dumps(values, indent=2).encode(), description


def mutate_json_line(content: bytes, rng: random.Random) -> Mutated:
    """Change one line of JSONL."""
    lines = content.splitlines(keepends=True)
    number = rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            del lines[number]
            return b"".join(lines), f"delete line {number + 1}"
        case 1:
            lines.insert(rng.randrange(len(lines) + 1), lines[number])
            return b"".join(lines), f"repeat line {number + 1}"
    line, description = mutate_json(lines[number], rng)
    lines[number] = line.replace(b"\n", b" ") + b"\n"
    return b"".join(lines), f"line {number + 1}: {description}"


def _with_raw_text(values: Any, rng: random.Random) -> Mutated:
    """Put text that no JSON writer produces in the place of a value."""
    values, name = copy.deepcopy(values), rng.choice(sorted(HOSTILE_JSON))
    path = rng.choice(list(iter_paths(values)))
    if path:
        value_at(values, path[:-1])[path[-1]] = _PLACEHOLDER
    else:
        values = _PLACEHOLDER
    text = json.dumps(values, indent=2).replace(f'"{_PLACEHOLDER}"', HOSTILE_JSON[name])
    return text.encode(), f"set {'.'.join(map(str, path))} to {name}"


def mutate_yaml(content: bytes, rng: random.Random) -> Mutated:
    """Change one line of YAML: its value, its key, its indentation or its position."""
    lines = content.decode("utf-8").splitlines()
    number = rng.choice([i for i, line in enumerate(lines) if line.strip()])
    line, match_ = lines[number], re.fullmatch(r"( *(?:- )?)([^:]*?)(: ?)?([^:]*)", lines[number])
    lead, key, colon = (match_[1], match_[2], match_[3] or "") if match_ and match_[3] else ("", "", "")
    match rng.randrange(9):
        case 0:
            del lines[number]
            what = "delete"
        case 1:
            lines.insert(rng.randrange(len(lines) + 1), line)
            what = "repeat"
        case 2:
            lines[number], what = " " * rng.choice((1, 2, 7)) + line, "indent"
        case 3:
            lines[number], what = f"{lead}{rng.choice((key[:-1], key + 'x', 'x' * 3000))}{colon or ': '}1", "rename"
        case 4 | 5:
            name = rng.choice(sorted(HOSTILE_TEXT))
            text = HOSTILE_TEXT[name].decode("utf-8", "surrogateescape")
            lines[number], what = f"{lead}{key}{colon or ': '}{text}", f"write {name} to"
        case _:
            name = rng.choice(sorted(HOSTILE_YAML))
            lines[number], what = f"{lead}{key}{colon or ': '}{HOSTILE_YAML[name]}", f"write {name} to"
    text = "\n".join(lines) + "\n"
    return text.encode("utf-8", "surrogateescape"), f"{what} line {number + 1} ({line.strip()[:60]!r})"


def mutate_npy(content: bytes, rng: random.Random) -> Mutated:
    """Change the header or the values of a NumPy array."""
    array = np.load(io.BytesIO(content))
    match rng.randrange(9):
        case 0:
            return _npy_bytes(array * 0), "zero all values"
        case 1:
            return _npy_bytes(np.concatenate([array, array[-1:]])), "repeat the last row"
        case 2:
            return _npy_bytes(array[:-1]), "drop the last row"
        case 3:
            return _npy_bytes(
                rng.choice((array[::-1], np.roll(array, 1, 0), array[..., None], array.ravel()))
            ), "reorder"
        case 4:
            dtype = rng.choice(("<f8", "<i8", ">i8", "<u4", "<i4", "<u2", "|b1", "<U4", "<c16", "<M8[s]"))
            return _npy_bytes(array.astype(dtype)), f"convert to {dtype}"
        case 5 if array.size:
            changed, row = array.copy(), rng.randrange(array.size)
            kind = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.iinfo(np.int8)
            value = rng.choice((0, 1, kind.max, kind.min, int(changed.flat[row]) ^ 1))
            changed.flat[row] = np.array(value).astype(array.dtype)
            return _npy_bytes(changed), f"set value {row} to {value}"
    return _mutate_npy_header(content, rng)


def _npy_bytes(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _mutate_npy_header(content: bytes, rng: random.Random) -> Mutated:
    size = struct.unpack("<H", content[8:10])[0]
    header = content[10 : 10 + size].decode("latin-1").rstrip()
    old, new = rng.choice(
        (
            (r"\(.*\)", rng.choice(("(-1,)", "(1000000000000,)", "()", "(2, 2, 2)", "(True,)", "(0,)", "(1.5,)"))),
            (r"\(.*\)", "(" * 200 + ")" * 200),
            (r"'descr': '[^']*'", rng.choice(("'descr': '|O'", "'descr': '<i9'", "'descr': '|V0'", "'descr': ''"))),
            (r"'descr': '[^']*'", "'descr': [('a', '<i8'), ('b', '|O')]"),
            (r"'fortran_order': \w+", rng.choice(("'fortran_order': True", "'fortran_order': 1"))),
            (r"\{", "{'x': 9**9**9, "),
            (r"\{.*\}", rng.choice(("{}", "[]", "__import__('os')", "{" * 300, "'" + "x" * 9000 + "'"))),
        )
    )
    text = re.sub(old, new, header, count=1).encode("latin-1") + b"\n"
    version = rng.choice((content[6:8], content[6:8], content[6:8], b"\x02\x00", b"\x09\x09"))
    return content[:6] + version + struct.pack("<H", len(text)) + text + content[10 + size :], f"header: {new[:60]}"


def mutate_npz(content: bytes, rng: random.Random) -> Mutated:
    """Change one array of a NumPy archive, or the archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name, file = rng.choice(sorted(members)), io.BytesIO()
    match rng.randrange(6):
        case 0:
            del members[name]
            description = "delete"
        case 1:
            members[name] = members[rng.choice(sorted(members))]
            description = "replace by another"
        case 2:
            members[name], description = mutate_bytes(members[name], rng)
        case _:
            members[name], description = mutate_npy(members[name], rng)
    with zipfile.ZipFile(file, "w", rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED))) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return file.getvalue(), f"{name}: {description}"


def mutate_safetensors(content: bytes, rng: random.Random) -> Mutated:
    """Change the header of a safetensors file, or its size."""
    size = struct.unpack("<Q", content[:8])[0]
    header, data = content[8 : 8 + size], content[8 + size :]
    if rng.randrange(4) == 0:
        new_size = rng.choice((0, 1, size - 1, size + 1, len(content), 2**25, 2**40, 2**64 - 1))
        return struct.pack("<Q", new_size) + content[8:], f"header size {new_size}"
    text, description = mutate_json(header, rng)
    return struct.pack("<Q", len(text)) + text + data, f"header: {description}"
