"""A disk in memory: for tests, the simulator, and whoever needs no folder."""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import dataclass


@dataclass
class File:
    """What names lead to; several may lead to one."""

    data: bytes = b""
    #: what of it would survive a lost power supply (`faulty.VolatileDisk`)
    synced: bytes | None = None


class MemoryDisk:
    """Files in a dictionary; see `base.Disk`. Spark gets a copy in a temporary folder."""

    hard_links = True

    def __init__(self) -> None:
        self.root = "memory"
        self._files: dict[str, File] = {}
        self._folders: set[str] = set()
        self._lock = threading.RLock()
        self._spool: tempfile.TemporaryDirectory[str] | None = None

    def read(self, name: str) -> bytes:
        return self._file(name).data

    def write(self, name: str, data: bytes) -> None:
        with self._lock:
            self._enter(name, File(bytes(data)))

    def append(self, name: str, data: bytes) -> None:
        with self._lock:
            file = self._files.get(name) or File()
            self._enter(name, file)
            file.data += data

    def read_from(self, name: str, start: int, size: int | None = None) -> bytes:
        return self._file(name).data[start : None if size is None else start + size]

    def truncate(self, name: str, size: int) -> None:
        with self._lock:
            file = self._file(name)
            file.data = file.data[:size]

    def link(self, name: str, new: str) -> None:
        with self._lock:
            if new in self._files:
                raise FileExistsError(new)
            self._enter(new, self._file(name))

    def rename(self, name: str, new: str) -> None:
        with self._lock:
            self._enter(new, self._file(name))
            self._leave(name)

    def delete(self, name: str) -> None:
        with self._lock:
            if name in self._files:
                self._leave(name)

    def exists(self, name: str) -> bool:
        return name in self._files or name in self._folders

    def is_folder(self, name: str) -> bool:
        return name in self._folders

    def size(self, name: str) -> int:
        return len(self._file(name).data)

    def names(self, folder: str) -> list[str]:
        start = f"{folder}/" if folder else ""
        with self._lock:
            inside = [n[len(start) :] for n in (*self._files, *self._folders) if n.startswith(start) and n != folder]
        return sorted({name.partition("/")[0] for name in inside})

    def make_folder(self, name: str) -> None:
        with self._lock:
            self._folders.update(folders_of(f"{name}/x"))

    def delete_folder(self, name: str) -> None:
        with self._lock:
            for file in [n for n in self._files if n.startswith(f"{name}/")]:
                self._leave(file)
            self._folders = {f for f in self._folders if f != name and not f.startswith(f"{name}/")}

    def sync(self, name: str) -> None:
        pass

    def path(self, name: str) -> str:
        if name[:1] == "/":
            return name
        if self._spool is None:
            self._spool = tempfile.TemporaryDirectory(prefix="godwit-memory-")
        path = f"{self._spool.name}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if name in self._files:
            with open(path, "wb") as file:
                file.write(self._files[name].data)
        return path

    def take_in(self, folder: str) -> list[str]:
        path, found = self.path(folder), []
        for name in sorted(os.listdir(path)):
            with open(f"{path}/{name}", "rb") as file:
                self.write(f"{folder}/{name}", file.read())
            found.append(f"{folder}/{name}")
        return found

    def _file(self, name: str) -> File:
        try:
            return self._files[name]
        except KeyError:
            raise FileNotFoundError(name) from None

    def _enter(self, name: str, file: File) -> None:
        self._files[name] = file
        self._folders.update(folders_of(name))

    def _leave(self, name: str) -> None:
        del self._files[name]


def folders_of(name: str) -> list[str]:
    """The folders that a name lies in, outermost first; without the root."""
    parts = name.split("/")[:-1]
    return ["/".join(parts[: k + 1]) for k in range(len(parts))]
