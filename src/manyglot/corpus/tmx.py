"""Read translation memories (TMX) as a stream, in bounded memory whatever the file holds.

The parser loads no other file and expands no entity: a file that declares entities is refused. A reference to a
document type, as in `<!DOCTYPE tmx SYSTEM "tmx14.dtd">`, is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from xml.parsers import expat

from manyglot.corpus.textfiles import MAX_LINE_BYTES, to_single_line
from manyglot.corpus.zip_archives import TextSource, read_source_blocks
from manyglot.errors import CorpusError, shorten

MAX_PENDING_BYTES = 2**22
"""Maximum size of a tag or comment. The parser holds it in memory until it ends."""
MAX_DEPTH, MAX_NAMES, MAX_LANGUAGES = 100, 1000, 1000
"""Maximum nesting, and the maximum number of distinct names of elements and attributes and of languages. The parser
holds them in memory."""
_MARKUP_ELEMENTS = {"bpt", "ept", "it", "ph", "ut", "sub"}
"""Elements inside a segment whose content is markup of the original document, not text."""
_UNIT_ELEMENTS = {"tu", "tuv", "seg"}
_LANGUAGE_ATTRIBUTES = ("xml:lang", "lang")


def read_tmx(source: TextSource) -> Iterator[Mapping[str, str]]:
    """Yield the texts of each translation unit by language. Languages are spelled as in `pt-BR` and `zh-Hans`."""
    reader = _UnitReader(source)
    for block in read_source_blocks(source):
        yield from reader.parse(block)
    yield from reader.parse(b"", is_last=True)


class _UnitReader:
    """Collects the translation units of the blocks of a file."""

    def __init__(self, source: TextSource) -> None:
        self._source, self._num_bytes = source, 0
        self._elements: list[str] = []
        self._names: set[str] = set()
        self._codes: dict[str, str] = {}
        self._units: list[dict[str, str]] = []
        self._unit: dict[str, str] = {}
        self._code = ""
        self._text: list[str] | None = None
        self._unit_bytes = self._markup_depth = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._start_document_type
        self._parser.EntityDeclHandler = self._refuse_entity
        self._parser.SkippedEntityHandler = self._refuse_entity
        self._parser.StartElementHandler = self._start_element
        self._parser.EndElementHandler = self._end_element
        self._parser.CharacterDataHandler = self._add_text

    def parse(self, block: bytes, is_last: bool = False) -> list[dict[str, str]]:
        """Parse the next block and return the units that are complete."""
        self._num_bytes += len(block)
        try:
            self._parser.Parse(block, is_last)
        except expat.ExpatError as error:
            reason = expat.errors.messages.get(error.code, "invalid")
            raise CorpusError(
                f"{self._source}, line {error.lineno} is not valid XML ({reason}). "
                f"If the file is incomplete, download it again."
            ) from None
        except (ValueError, LookupError) as error:  # an encoding that Python does not know or expat cannot use
            raise self._error(
                f"the encoding is not supported ({shorten(str(error))}). Convert the file to UTF-8."
            ) from None
        if is_last and self._names and "tmx" not in self._names:
            raise CorpusError(f"{self._source} is XML, but not TMX: it has no element <tmx>.")
        if self._num_bytes - self._parser.CurrentByteIndex > MAX_PENDING_BYTES:
            raise self._error(f"a tag or comment has more than {MAX_PENDING_BYTES:,} bytes. Shorten it.")
        units, self._units = self._units, []
        return units

    def _error(self, message: str) -> CorpusError:
        return CorpusError(f"{self._source}, line {self._parser.CurrentLineNumber}: {message}")

    def _start_document_type(self, name: str, system_id: object, public_id: object, has_declarations: bool) -> None:
        if has_declarations:
            raise self._error("the file has declarations of its own in <!DOCTYPE>. Remove them.")

    def _refuse_entity(self, name: str, *declaration: object) -> None:
        raise self._error(f"the entity '{shorten(name)}' is not allowed. Replace it by its text.")

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        self._names.update((name, *attributes))
        if name in _UNIT_ELEMENTS and name in self._elements:
            raise self._error(f"<{name}> is inside <{name}>. Write the file again.")
        self._elements.append(name)
        if len(self._names) > MAX_NAMES or len(self._elements) > MAX_DEPTH:
            raise self._error("elements are nested too deeply or have too many names. Is the file TMX?")
        if self._text is not None:
            self._markup_depth += name in _MARKUP_ELEMENTS
        elif name == "tu":
            self._unit, self._unit_bytes = {}, 0
        elif name == "tuv" and "tu" in self._elements:
            self._code = self._language(attributes)
        elif name == "seg" and "tuv" in self._elements:
            self._text = []

    def _language(self, attributes: dict[str, str]) -> str:
        spelling = next((attributes[name] for name in _LANGUAGE_ATTRIBUTES if name in attributes), "")
        if not spelling:
            raise self._error("<tuv> names no language. Add xml:lang.")
        if spelling not in self._codes:
            self._codes[spelling] = _normalize_case(spelling)
            if len(self._codes) > MAX_LANGUAGES or len(spelling) > MAX_NAMES:
                raise self._error("the file has too many languages. Is xml:lang the language of each text?")
        return self._codes[spelling]

    def _add_text(self, text: str) -> None:
        if self._text is None or self._markup_depth:
            return
        self._text.append(text)
        self._unit_bytes += len(text.encode())
        if self._unit_bytes > MAX_LINE_BYTES:
            raise self._error(f"a translation unit has more than {MAX_LINE_BYTES:,} bytes of text. Shorten it.")

    def _end_element(self, name: str) -> None:
        self._elements.pop()
        if name == "tu":
            self._units.append(self._unit)
        elif self._text is not None and name in _MARKUP_ELEMENTS:
            self._markup_depth -= 1
        elif self._text is not None and name == "seg":
            sentence, self._text = to_single_line("".join(self._text)), None
            if self._code in self._unit:
                raise self._error(f"the unit has two texts in '{shorten(self._code)}'. Remove one of them.")
            if sentence:
                self._unit[self._code] = sentence


def _normalize_case(code: str) -> str:
    """Spell a code as BCP 47 recommends, because TMX does not distinguish case: EN-us becomes en-US."""
    first, *rest = re.split("[-_]", code)
    return "-".join([first.lower(), *(part.title() if len(part) == 4 else part.upper() for part in rest)])
