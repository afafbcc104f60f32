"""Logs on disk: a numbered sequence of immutable records, each created by one atomic step, and segments beside them.

A record is a small JSON file; what it names (segments: Parquet files) exists before it does. One writer a log, any
number of readers, each of which remembers the number it has come to. A reader needs no listing: it asks for the next.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from godwit.errors import StateError

Record = dict[str, Any]


@dataclass(frozen=True)
class Segment:
    """Rows in Parquet files that never change."""

    files: tuple[str, ...]
    rows: int
    bytes: int
    #: Spark's schema as JSON, so that reading needs no look into the files
    schema: str
    #: least and greatest value of the column that readers prune by (microseconds), if there is one
    low: int | None = None
    high: int | None = None
    #: whatever else the writer must know again
    tags: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> Record:
        return dict(self.__dict__)  # not `asdict`: every commit names all live segments, and nobody changes a record

    @staticmethod
    def from_json(record: Record) -> Segment:
        return Segment(**{**record, "files": tuple(record["files"])})


class Log:
    """A numbered sequence of records in one folder. The first number is 1."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._name = folder, str(folder)
        folder.mkdir(parents=True, exist_ok=True)
        numbers = [int(p.stem) for p in folder.glob("*.json")]
        #: the newest record's number; for readers in other processes: as far as they have looked
        self.last = max(numbers, default=0)
        self.first = min(numbers, default=1)
        #: below `first` there may be records whose removal did not come to its end
        self._oldest = self.first
        self.first = max(self.first, self._floor())
        self.last = max(self.last, self.first - 1)

    def append(self, record: Record) -> int:
        """Write the next record; it is there wholly or not at all."""
        number = self.last + 1
        path = self._path(number)
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(record, separators=(",", ":")))
        try:
            os.link(draft, path)  # fails if the number is taken: two writers would lose records silently otherwise
        except FileExistsError as taken:
            msg = f"{path} exists already: two writers share this log; run one process a region"
            raise StateError(msg) from taken
        finally:
            draft.unlink(missing_ok=True)
        self.last = number
        return number

    def read(self, number: int) -> Record | None:
        """The record of that number, or None if it is not written yet (or no longer kept)."""
        try:
            text = self._path(number).read_text()
        except FileNotFoundError:
            return None
        try:
            record: Record = json.loads(text)
        except json.JSONDecodeError as error:
            msg = f"{self._path(number)} is not a record ({error}); restore the file, or remove the fleet's folder"
            raise StateError(msg) from error
        self.last = max(self.last, number)
        return record

    def after(self, number: int) -> Iterator[tuple[int, Record]]:
        """Records past `number`, as far as they are written and still kept."""
        while True:
            record = self.read(number + 1)
            if record is None:
                floor = self._floor()
                if floor <= number + 1:
                    return
                number = floor - 1
                continue
            number += 1
            yield number, record

    def exists(self, number: int) -> bool:
        """Whether there is a record of that number or, where it is no longer kept, a later one."""
        # Runners that wait ask this all the time: plain strings, no pathlib.
        there = os.path.exists(f"{self._name}/{number:010d}.json")
        return number <= self.last or there or self._floor() > number

    def end(self) -> int:
        """The number of the newest record, as it is on disk now."""
        self.last = max(self.last, self._floor() - 1)
        while self._path(self.last + 1).exists():
            self.last += 1
        return self.last

    def truncate(self, below: int) -> list[Record]:
        """Forget the records below a number that every reader has passed; returns them, so that their files can go."""
        numbers = range(self.first, min(below, self.last))
        gone = [record for record in map(self.read, numbers) if record is not None]
        for _ in self.drop(below):
            pass
        return gone

    def drop(self, below: int) -> Iterator[int]:
        """The same one by one, without looking into them; yields their numbers."""
        below = min(below, self.last)  # the newest stays: it says where the log stands
        if below > self.first:
            draft = self.folder / "truncated.tmp"
            draft.write_text(str(below))
            draft.rename(self.folder / "truncated")
            self.first = below
        numbers, self._oldest = range(self._oldest, self.first), self.first
        for number in numbers:
            self._path(number).unlink(missing_ok=True)
            yield number

    def _floor(self) -> int:
        """The least number that is still kept, as whoever truncates the log has written it down."""
        path = f"{self._name}/truncated"
        return int(Path(path).read_text()) if os.path.exists(path) else 1

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:010d}.json"
