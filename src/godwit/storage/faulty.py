"""Disks that fail as told: scripted faults around any disk, and a memory that forgets what was not synced.

A script is a list of values, so that a failing run can be read and replayed:

    FaultyDisk(disk, [DiskFault("write", "full", match="*/commits/*", nth=3)])
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any, Literal

from godwit.storage.base import Disk
from godwit.storage.memory import File, MemoryDisk, folders_of

Kind = Literal["full", "error", "slow", "torn", "lost", "crash"]
#: what changes something on the disk
MUTATIONS = ("write", "append", "truncate", "link", "rename", "delete", "sync")


class Crashed(BaseException):
    """The machine has stopped here. Not an Exception: nobody may handle it."""


@dataclass(frozen=True)
class DiskFault:
    """One thing that goes wrong: the `nth` call (from 1) of an operation ("*": any mutation) on a name that matches.

    full: no space left; error: the device reports one; slow: takes `seconds`; torn: half of the data is written, then
    the machine stops; lost: acknowledged, but nothing is written; crash: the machine stops before anything happens.
    """

    operation: str
    kind: Kind
    match: str = "*"
    nth: int = 1
    seconds: float = 0.05
    #: whether later calls fail, too
    lasting: bool = False


class FaultyDisk:
    """Another disk, with the faults of a script; see `base.Disk`."""

    def __init__(self, disk: Disk, faults: Sequence[DiskFault] = ()) -> None:
        self.disk, self.root, self.hard_links = disk, disk.root, disk.hard_links
        self._faults, self._seen = list(faults), [0] * len(faults)
        self._lock = threading.Lock()
        #: mutations so far
        self.count = 0
        self.crashed = False

    def _due(self, operation: str, name: str) -> DiskFault | None:
        with self._lock:
            self.count += operation in MUTATIONS
            for k, fault in enumerate(self._faults):
                meant = operation in MUTATIONS if fault.operation == "*" else fault.operation == operation
                if meant and fnmatch(name, fault.match):
                    self._seen[k] += 1
                    if self._seen[k] == fault.nth or (fault.lasting and self._seen[k] > fault.nth):
                        return fault
        return None

    def _do(self, operation: str, name: str, act: Callable[[], Any], half: Callable[[], Any] = lambda: None) -> Any:
        if self.crashed:
            raise Crashed(operation, name)
        fault = self._due(operation, name)
        match None if fault is None else fault.kind:
            case "full":
                raise OSError(errno.ENOSPC, "no space left on device", name)
            case "error":
                raise OSError(errno.EIO, "input/output error", name)
            case "slow":
                assert fault is not None
                time.sleep(fault.seconds)
            case "torn":
                half()
                self.crashed = True
                raise Crashed(operation, name)
            case "crash":
                self.crashed = True
                raise Crashed(operation, name)
            case "lost":
                return None
        return act()

    def read(self, name: str) -> bytes:
        found: bytes = self._do("read", name, lambda: self.disk.read(name))
        return found

    def write(self, name: str, data: bytes) -> None:
        half = bytes(data[: len(data) // 2])
        self._do("write", name, lambda: self.disk.write(name, data), lambda: self.disk.write(name, half))

    def append(self, name: str, data: bytes) -> None:
        half = data[: len(data) // 2]
        self._do("append", name, lambda: self.disk.append(name, data), lambda: self.disk.append(name, half))

    def read_from(self, name: str, start: int, size: int | None = None) -> bytes:
        found: bytes = self._do("read", name, lambda: self.disk.read_from(name, start, size))
        return found

    def truncate(self, name: str, size: int) -> None:
        self._do("truncate", name, lambda: self.disk.truncate(name, size))

    def link(self, name: str, new: str) -> None:
        self._do("link", new, lambda: self.disk.link(name, new))

    def rename(self, name: str, new: str) -> None:
        self._do("rename", new, lambda: self.disk.rename(name, new))

    def delete(self, name: str) -> None:
        self._do("delete", name, lambda: self.disk.delete(name))

    def sync(self, name: str) -> None:
        self._do("sync", name, lambda: self.disk.sync(name))

    def exists(self, name: str) -> bool:
        return self.disk.exists(name)

    def is_folder(self, name: str) -> bool:
        return self.disk.is_folder(name)

    def size(self, name: str) -> int:
        return self.disk.size(name)

    def names(self, folder: str) -> list[str]:
        return self.disk.names(folder)

    def make_folder(self, name: str) -> None:
        self.disk.make_folder(name)

    def delete_folder(self, name: str) -> None:
        self.disk.delete_folder(name)

    def path(self, name: str) -> str:
        return self.disk.path(name)

    def take_in(self, folder: str) -> list[str]:
        return self.disk.take_in(folder)


class VolatileDisk(MemoryDisk):
    """A disk whose power supply may fail: only synced contents under synced names survive."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[str, File] = {}
        self._kept_folders: set[str] = set()

    def sync(self, name: str) -> None:
        with self._lock:
            if name in self._files:
                self._files[name].synced = self._files[name].data
                return
            here = {n: f for n, f in self._files.items() if n.rpartition("/")[0] == name}
            self._kept = {n: f for n, f in self._kept.items() if n.rpartition("/")[0] != name} | here
            self._kept_folders |= {f for f in self._folders if f.rpartition("/")[0] == name}

    def lose_power(self, torn: bool = False, early: str = "") -> None:
        """Forget what was not synced; with `torn`, half of an unsynced content may be there, otherwise nothing.

        `early`: a pattern of names whose content had come to the disk before it was synced."""
        with self._lock:
            there = {n: f for n, f in self._kept.items() if set(folders_of(n)) <= self._kept_folders}
            for name, file in there.items():
                known = file.synced or b""
                rest = file.data[len(known) :] if file.data.startswith(known) else b""
                half = rest if fnmatch(name, early) else rest[: len(rest) // 2] if torn else b""
                file.data = file.synced = known + half
            self._files, self._folders = dict(there), set(self._kept_folders)
