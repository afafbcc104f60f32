"""How records lie in a chunk file: one frame after the other, each with its length, number and checksums.

    head   magic, format, kind, number, size of the body, checksum of the body, checksum of the head
    body   of a record: sizes of its parts, the JSON text, definitions, rows (see `inline.py`)

A chunk begins with a frame that says what came before it. A frame that the file ends within is the torn end of a write
that nobody was told of: readers stop there. Any other frame that is not what was written is damage, and is named.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from godwit.errors import StateError
from godwit.storage.inline import Definition, Encoded, InlineRows, decode
from godwit.storage.records import FORMAT, refuse_format

MAGIC = b"gw"
#: a record; the beginning of a chunk; from which number on the log is kept; a record with definitions for later ones
RECORD, BEGIN, FLOOR, DEFINING = 0, 1, 2, 3

_HEAD = struct.Struct("<2sBBQIII")
_UNSUMMED = _HEAD.size - 4
_COUNTS, _SIZE = struct.Struct("<HH"), struct.Struct("<I")
HEAD_SIZE = _HEAD.size


@dataclass(frozen=True)
class RecordFrame:
    """A frame as its head says it is; where it lies in its chunk."""

    kind: int
    number: int
    #: of the body
    size: int
    checksum: int
    offset: int

    @property
    def body(self) -> int:
        return self.offset + HEAD_SIZE

    @property
    def end(self) -> int:
        return self.body + self.size


def pack(kind: int, number: int, body: bytes = b"") -> bytes:
    head = _HEAD.pack(MAGIC, FORMAT, kind, number, len(body), zlib.crc32(body), 0)[:_UNSUMMED]
    return b"%b%b%b" % (head, _SIZE.pack(zlib.crc32(head)), body)


def pack_begin(first: int, previous: int, floor: int) -> bytes:
    """The beginning of a chunk: its first number, that of the chunk before it (0: none), and the log's floor."""
    return pack(BEGIN, first, json.dumps([previous, floor]).encode())


def pack_record(number: int, record: Encoded) -> bytes:
    fresh = [one.encode() if isinstance(one, str) else one for one in record.fresh]
    rows = [one.data for one in record.rows]
    parts = [record.text, *fresh, *rows]
    sizes = b"".join(_SIZE.pack(len(part)) for part in parts)
    kinds = bytes(isinstance(one, str) for one in record.fresh)  # (which of the definitions are texts)
    kind = DEFINING if fresh else RECORD
    return pack(kind, number, b"".join([_COUNTS.pack(len(fresh), len(rows)), kinds, sizes, *parts]))


def frames(data: bytes, at: int, where: str) -> Iterator[RecordFrame]:
    """The frames in a chunk from byte `at` on, of which `data` is the rest; up to a torn end. Bodies are not looked
    at."""
    offset = at
    while len(data) - (offset - at) >= HEAD_SIZE:
        start = offset - at
        magic, written, kind, number, size, checksum, own = _HEAD.unpack_from(data, start)
        if own != zlib.crc32(data[start : start + _UNSUMMED]) or magic != MAGIC:
            if not any(data[start:]):
                return  # blocks that a lost power supply has left empty
            damaged(where, f"there is no record at byte {offset}, or its head was changed")
        refuse_format(written, where)
        frame = RecordFrame(kind, number, size, checksum, offset)
        if frame.end - at > len(data):
            return
        yield frame
        offset = frame.end


@dataclass(frozen=True)
class Body:
    """The parts of a record's body."""

    text: bytes
    fresh: tuple[Definition, ...]
    rows: tuple[bytes, ...]

    def record(self, defined: Sequence[Definition]) -> Any:
        return decode(self.text, defined, lambda n, schema: InlineRows(None, self.rows[n], _bytes(defined[schema])))


def verified(frame: RecordFrame, body: bytes, where: str) -> bytes:
    if zlib.crc32(body) != frame.checksum:
        damaged(where, f"the checksum of record {frame.number} at byte {frame.offset} does not match")
    return body


def begins(body: bytes) -> tuple[int, int]:
    """(the first number of the chunk before, or 0; the floor), as `pack_begin` has them."""
    previous, floor = json.loads(body)
    return previous, floor


def unpack_record(body: bytes) -> Body:
    defined, rows = _COUNTS.unpack_from(body)
    kinds = body[_COUNTS.size : _COUNTS.size + defined]
    count, at = 1 + defined + rows, _COUNTS.size + defined
    sizes = struct.unpack_from(f"<{count}I", body, at)
    at, parts = at + 4 * count, []
    for size in sizes:
        parts.append(body[at : at + size])
        at += size
    fresh = (part.decode() if text else part for text, part in zip(kinds, parts[1:], strict=False))
    return Body(parts[0], tuple(fresh), tuple(parts[1 + defined :]))


def _bytes(value: Definition) -> bytes:
    assert isinstance(value, bytes)
    return value


def damaged(where: str, what: str) -> NoReturn:
    msg = f"{where} is damaged: {what}; restore it from a copy, or run `godwit check FOLDER --repair`"
    raise StateError(msg)
