"""A place in a store: where the files of a micro-batch go. Handed around like a path, but relative to its store."""

from __future__ import annotations

from dataclasses import dataclass

from godwit.storage.base import SegmentStore


@dataclass(frozen=True)
class Place:
    store: SegmentStore
    #: a reference: of a folder, or of a file without its suffix
    reference: str

    def __truediv__(self, part: str) -> Place:
        return Place(self.store, f"{self.reference}/{part}")

    @property
    def name(self) -> str:
        return self.reference.rpartition("/")[2]

    def with_name(self, name: str) -> Place:
        folder, slash, _ = self.reference.rpartition("/")
        return Place(self.store, f"{folder}{slash}{name}")

    @property
    def path(self) -> str:
        """As Spark needs it."""
        return self.store.path(self.reference)
