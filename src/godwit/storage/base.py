"""What godwit asks of storage (logs, segments, documents), and the little that a backend must provide (`Disk`).

Names are relative and look like paths: "regions/west/sources/passengers". Nothing outside of a backend knows where
the store lies, so a fleet's folder may be renamed or copied. `store.py` builds all three kinds on top of any `Disk`; a
broker may provide a `LogStore` of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

#: what survives: the end of the process, or the end of the power supply as well
Durability = Literal["process", "power"]


class LogStore(Protocol):
    """Named logs: numbered sequences of immutable records. The first number is 1; one writer each, any readers. Only
    the logs in `names.SHARED` are written by several processes: there, whoever has a number first has it."""

    def append_record(self, log: str, number: int, record: Mapping[str, Any]) -> None:
        """Write a record, wholly or not at all; StateError if the number is taken. When it returns, it is durable.

        A record may hold JSON values, and what `inline.py` allows beside."""

    def read_record(self, log: str, number: int) -> dict[str, Any] | None:
        """None: not written yet, or no longer kept. StateError: damaged, or of another format. Readers share it: it
        must not be changed."""

    def has_record(self, log: str, number: int) -> bool: ...

    def reaches(self, log: str, number: int) -> bool:
        """Whether there is a record of that number or, where it is no longer kept, a later one."""

    def bounds(self, log: str) -> tuple[int, int]:
        """(the least number that is kept, the newest number); (1, 0) of an empty log."""

    def numbers(self, log: str) -> list[int]:
        """The numbers that are there, in order; not for hot paths."""

    def floor(self, log: str) -> int:
        """The least number that is still kept, as whoever truncated the log has written it down."""

    def drop(self, log: str, below: int) -> Iterator[int]:
        """Keep only what is not below a number, and the newest in any case; the numbers that go, one by one."""

    def wait(self, log: str, after: int, timeout: float) -> bool:
        """Wait until there is a record past a number; False: there was none in time."""


class SegmentStore(Protocol):
    """Files that never change, by reference. Absolute references are recorded files that lie outside of the store."""

    @property
    def links(self) -> bool:
        """Whether a link costs less than a copy."""

    def path(self, reference: str) -> str:
        """Where a reader that needs a file, such as Spark, finds it."""

    def reference(self, path: str | Path) -> str:
        """The inverse: relative where the file lies in the store."""

    def put_table(self, reference: str, table: Any, row_groups: Sequence[int] = ()) -> tuple[int, int]:
        """Keep an Arrow table as a Parquet file; its size and checksum. `row_groups`: how many rows go into each."""

    def take_in(self, folder: str) -> list[str]:
        """References of the Parquet files that Spark has written into a folder (`path`)."""

    def table(
        self, reference: str, known: int | None = None, columns: Sequence[str] | None = None, *, keep: bool = True
    ) -> Any:
        """The Arrow table in a Parquet file (at least these columns), verified by its checksum if that is known."""

    def checksum(self, reference: str) -> int:
        """Of a file as it is now."""

    def verify(self, reference: str, known: int) -> None:
        """Raise a StateError if a file is not what was written."""

    def link(self, reference: str, new: str) -> None:
        """The same file under a second reference, without a copy; each may be deleted on its own."""

    def delete(self, reference: str) -> None: ...

    def exists(self, reference: str) -> bool: ...

    def size(self, reference: str) -> int: ...


class DocumentStore(Protocol):
    """Small values that are replaced as a whole: positions, snapshots, the topology."""

    def put_document(self, name: str, value: Any) -> None:
        """Replace it atomically: a reader sees the value before or after, never half of it."""

    def get_document(self, name: str) -> Any | None:
        """None: there is none. StateError: damaged, or of a newer format."""

    def delete_document(self, name: str) -> None: ...


class Disk(Protocol):
    """What a backend provides: files in folders, an exclusive link, an atomic rename, and a way to make both durable.

    Reading, sizing or linking what is not there raises FileNotFoundError; deleting it does nothing. Folders come into
    being with the first file in them. A file that was opened to be added to may be kept open.
    """

    #: how messages call it
    root: str
    #: whether a link costs less than a copy
    hard_links: bool

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, data: bytes) -> None: ...

    def append(self, name: str, data: bytes) -> None: ...

    def read_from(self, name: str, start: int, size: int | None = None) -> bytes:
        """That number of bytes from an offset on (None: all); fewer where the file ends."""

    def truncate(self, name: str, size: int) -> None:
        """Cut a file off."""

    def link(self, name: str, new: str) -> None:
        """FileExistsError if the new name is taken."""

    def rename(self, name: str, new: str) -> None:
        """Replaces whatever has the new name."""

    def delete(self, name: str) -> None: ...

    def exists(self, name: str) -> bool:
        """Whether there is a file or folder."""

    def is_folder(self, name: str) -> bool: ...

    def size(self, name: str) -> int: ...

    def names(self, folder: str) -> list[str]:
        """What lies directly in a folder, in any order; nothing if there is no such folder."""

    def make_folder(self, name: str) -> None: ...

    def delete_folder(self, name: str) -> None:
        """With everything in it."""

    def sync(self, name: str) -> None:
        """Make a file's content, or a folder's list of names, survive a lost power supply."""

    def path(self, name: str) -> str:
        """A path for readers and writers outside of Python, such as Spark."""

    def take_in(self, folder: str) -> list[str]:
        """The names of the files that such a writer has put into a folder."""
