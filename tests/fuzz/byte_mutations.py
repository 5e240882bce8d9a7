"""Mutations of bytes: each takes the content of a file and returns other content and a description.

The same generator of random numbers gives the same mutation.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

Mutated = tuple[bytes, str]
"""Changed content, and what was changed."""
ByteMutation = Callable[[bytes, random.Random], Mutated]

EXTREME_INTEGERS = (0, 1, -1, 2**7, 2**15, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1)
HOSTILE_TEXT: dict[str, bytes] = {
    "a NUL byte": b"\0",
    "a lone surrogate": b"\xed\xa0\x80",
    "an escaped lone surrogate": rb"\ud800",
    "an invalid byte": b"\xff",
    "an overlong encoding": b"\xc0\xaf",
    "a byte order mark": b"\xef\xbb\xbf",
    "right-to-left overrides": "\u202eabc\u202c\u2066".encode(),
    "a terminal escape": b"\x1b[2J\x1b]0;x\x07",
    "a carriage return": b"\r",
    "line separators": "\u2028\u2029\x85\x0b\x0c".encode(),
    "combining marks": ("a" + "\u0301" * 500).encode(),
    "a long line": b"a" * 300_000,
    "many tabs": b"\t" * 200,
    "many newlines": b"\n" * 200,
    "tags and markup": b"</script><script>alert(1)</script>__de__ <2de> __NULL__",
    "open brackets": b"[" * 5000,
    "open braces": b'{"a":' * 2000,
    "a YAML alias": b"&a [*a, *a] <<: *a !!python/object/apply:os.system [exit]",
    "a long number": b"9" * 5000,
}


def mutate_bytes(content: bytes, rng: random.Random) -> Mutated:
    """Apply one mutation, or a few of them."""
    descriptions = []
    for _ in range(rng.choice((1, 1, 1, 1, 2, 4))):
        content, description = rng.choice(BYTE_MUTATIONS)(content, rng)
        descriptions.append(description)
    return content, "; ".join(descriptions)


def random_offset(content: bytes, rng: random.Random) -> int:
    """Return a position: anywhere, near the beginning or near the end."""
    size = len(content)
    match rng.randrange(4):
        case 0:
            return rng.randrange(min(size, 256) + 1)
        case 1:
            return size - rng.randrange(min(size, 256) + 1)
    return rng.randrange(size + 1)


def flip_bits(content: bytes, rng: random.Random) -> Mutated:
    changed, offsets = bytearray(content), []
    for _ in range(rng.choice((1, 1, 1, 8)) if content else 0):
        offset = min(random_offset(content, rng), len(content) - 1)
        changed[offset] ^= 1 << rng.randrange(8)
        offsets.append(offset)
    return bytes(changed), f"flip bits at {offsets}"


def insert_bytes(content: bytes, rng: random.Random) -> Mutated:
    offset, length = random_offset(content, rng), rng.choice((1, 2, 8, 100))
    return content[:offset] + rng.randbytes(length) + content[offset:], f"insert {length} bytes at {offset}"


def delete_bytes(content: bytes, rng: random.Random) -> Mutated:
    offset, length = random_offset(content, rng), rng.choice((1, 2, 8, 100))
    return content[:offset] + content[offset + length :], f"delete {length} bytes at {offset}"


def truncate(content: bytes, rng: random.Random) -> Mutated:
    size = rng.choice((0, 1, random_offset(content, rng), random_offset(content, rng)))
    return content[:size], f"truncate to {size} bytes"


def zero_range(content: bytes, rng: random.Random) -> Mutated:
    offset, length = random_offset(content, rng), rng.choice((1, 16, 4096, len(content)))
    length = min(length, len(content) - offset)
    return content[:offset] + bytes(length) + content[offset + length :], f"zero {length} bytes at {offset}"


def zero_everything(content: bytes, rng: random.Random) -> Mutated:
    return bytes(len(content)), "zero all bytes"


def repeat_part(content: bytes, rng: random.Random) -> Mutated:
    first, last = sorted((random_offset(content, rng), random_offset(content, rng)))
    return content[:last] + content[first:], f"repeat the bytes from {first} to {last}"


def splice(content: bytes, rng: random.Random) -> Mutated:
    source, target, length = random_offset(content, rng), random_offset(content, rng), rng.choice((4, 32, 512))
    part = content[source : source + length]
    return content[:target] + part + content[target + len(part) :], f"copy {len(part)} bytes from {source} to {target}"


def write_integer(content: bytes, rng: random.Random) -> Mutated:
    offset, value = random_offset(content, rng), rng.choice(EXTREME_INTEGERS)
    width, code = rng.choice(((2, "H"), (4, "I"), (8, "Q")))
    packed = struct.pack(f"<{code}", value % 2 ** (8 * width))
    return content[:offset] + packed + content[offset + width :], f"write {value} as {width} bytes at {offset}"


def write_special_float(content: bytes, rng: random.Random) -> Mutated:
    offset, value = random_offset(content, rng) // 4 * 4, rng.choice((float("nan"), float("inf"), 1e38))
    return content[:offset] + struct.pack("<f", value) + content[offset + 4 :], f"write the float {value} at {offset}"


def insert_hostile_text(content: bytes, rng: random.Random) -> Mutated:
    offset, name = random_offset(content, rng), rng.choice(sorted(HOSTILE_TEXT))
    return content[:offset] + HOSTILE_TEXT[name] + content[offset:], f"insert {name} at {offset}"


def append_bytes(content: bytes, rng: random.Random) -> Mutated:
    tail = rng.choice((b"\0", b"\n", b"x", content, rng.randbytes(64)))
    return content + tail, f"append {len(tail)} bytes"


BYTE_MUTATIONS: tuple[ByteMutation, ...] = (
    *(flip_bits, flip_bits, flip_bits, insert_bytes, delete_bytes, truncate, truncate, zero_range, zero_everything),
    *(repeat_part, splice, write_integer, write_integer, write_special_float, insert_hostile_text, append_bytes),
)
