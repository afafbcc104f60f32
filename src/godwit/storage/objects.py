"""What an object store is to us: values by name that are put whole, put if the name is free, got, listed and deleted.

`bucket.py` (S3, GCS, Azure) and `nats_objects.py` (JetStream) provide it; `object_disk.py` makes a `Disk` of it, and
`object_log.py` logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Objects(Protocol):
    #: how messages call it
    root: str

    def get(self, name: str) -> bytes:
        """FileNotFoundError: there is none."""

    def put(self, name: str, data: bytes) -> None:
        """Whole, replacing what was there."""

    def create(self, name: str, data: bytes) -> bool:
        """Whole, if the name is free; False: it is taken. The server decides."""

    def size(self, name: str) -> int:
        """FileNotFoundError: there is none."""

    def delete(self, name: str) -> None:
        """Nothing happens if there is none."""

    def names(self, folder: str) -> list[str]:
        """The next part of every name below a folder."""

    def below(self, folder: str) -> Iterable[str]:
        """All names below a folder."""
