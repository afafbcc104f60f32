"""What lies on disk, typed: an envelope (format, checksum) around every record and document, and the records.

    {"format":2,"crc":2890763311,"record":{...}}

The checksum is that of the bytes of the record. A reader refuses what another version has written instead of guessing.
Records of logs with one writer lie in chunk files instead (`frames.py`), under the same format number.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from godwit.errors import StateError
from godwit.protocol.watermarks import Mark
from godwit.storage.base import SegmentStore
from godwit.storage.segment import Segment

#: of everything this godwit writes and reads. 1: every record a file of its own; 2: chunk files, rows in records
FORMAT = 2
_HEAD, _BODY = b'{"format":', b',"record":'


def pack(value: Any) -> bytes:
    """A record or document as it lies on disk."""
    body = json.dumps(value, separators=(",", ":")).encode()
    return b'%b%d,"crc":%d%b%b}' % (_HEAD, FORMAT, zlib.crc32(body), _BODY, body)


def unpack(data: bytes, where: str) -> Any:
    """The inverse; StateError where the bytes are not what was written. `where`: how messages call them."""
    start = data.find(_BODY, 0, 64)
    if not data.startswith(_HEAD) or start < 0:
        _refuse(data, where)
    head, body = data[len(_HEAD) : start], data[start + len(_BODY) : -1]
    written, _, checksum = head.partition(b',"crc":')
    if not (written.isdigit() and checksum.isdigit()):
        _refuse(data, where)
    refuse_format(int(written), where)
    if zlib.crc32(body) != int(checksum):
        _refuse(data, where)
    return json.loads(body)


def refuse_format(written: int, where: str) -> None:
    """StateError if something was written in another format."""
    if written > FORMAT:
        msg = (
            f"{where} was written by a newer godwit (format {written}, this one reads {FORMAT}): "
            "upgrade godwit, or open it with that version"
        )
        raise StateError(msg)
    if written < FORMAT:
        msg = (
            f"{where} was written by an older godwit (format {written}, this one reads {FORMAT}): "
            "open it with that version, or begin in a new folder"
        )
        raise StateError(msg)


def _refuse(data: bytes, where: str) -> None:
    what = "is empty" if not data else "is damaged: its checksum does not match, or it was cut off"
    if data.startswith((b"{", b"[")) and not data.startswith(_HEAD) and data.rstrip().endswith((b"}", b"]")):
        what = "has no format: it is not godwit's, or of a version before formats were written"
    msg = f"{where} {what}; restore it from a copy, or run `godwit check FOLDER --repair`"
    raise StateError(msg)


@dataclass(frozen=True)
class SourceRecord:
    """One entry of a source log: rows of some devices, and how far each has come."""

    segment: Segment | None
    marks: Mapping[str, Mark]
    #: device -> how many of the rows are its
    rows: Mapping[str, int]
    newest_us: int | None
    #: sender -> the last sequence number that came through with it
    sequence: Mapping[str, int]
    #: when it entered the fleet (wall clock, seconds)
    entered: float = field(default_factory=time.time)
    #: device -> how far it had come before: those of its rows that are older came too late; only where there are any
    late: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        more = {"late": dict(self.late)} if self.late else {}
        return {
            **more,
            "segment": None if self.segment is None else self.segment.to_json(),
            "marks": {device: mark.to_json() for device, mark in self.marks.items()},
            "rows": dict(self.rows),
            "newest_us": self.newest_us,
            "sequence": dict(self.sequence),
            "entered": self.entered,
        }

    @staticmethod
    def from_json(record: Mapping[str, Any], store: SegmentStore | None = None) -> SourceRecord:
        segment = record["segment"]
        return SourceRecord(
            None if segment is None else Segment.from_json(segment, store),
            {device: Mark.from_json(mark) for device, mark in record["marks"].items()},
            record["rows"],
            record["newest_us"],
            record["sequence"],
            record["entered"],
            record.get("late", {}),
        )


@dataclass(frozen=True)
class CommitRecord:
    """What every reader of commits needs to know of one; the rest, `content`, belongs to the region's kernel."""

    epoch: int
    #: log -> the last record taken in
    positions: Mapping[str, int]
    content: Mapping[str, Any]

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> CommitRecord:
        return CommitRecord(record["epoch"], record["positions"], record)
