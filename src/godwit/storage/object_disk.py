"""A disk on an object store. A folder is what names have in common; an empty one has a mark.

Spark reads and writes files: what it reads is copied into a local folder (`spool`) first, once, because segments never
change; what it has written is put into the store when it is taken in.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading

from godwit.storage.names import MARK
from godwit.storage.objects import Objects

#: more than that is not kept beside the store; the oldest goes (bytes)
MOST_SPOOLED = 2_000_000_000


class ObjectDisk:
    """See `base.Disk`. Nobody appends here: logs on object stores have an object for each record (`object_log.py`)."""

    hard_links = False

    def __init__(self, objects: Objects) -> None:
        self.objects, self.root = objects, objects.root
        self._spool: tempfile.TemporaryDirectory[str] | None = None
        self._spooled = 0
        self._marked: set[str] = set()
        self._guard = threading.Lock()

    def read(self, name: str) -> bytes:
        if name[:1] == "/":
            with open(name, "rb") as file:
                return file.read()
        return self.objects.get(name)

    def write(self, name: str, data: bytes) -> None:
        self.objects.put(name, bytes(data))

    def append(self, name: str, data: bytes) -> None:
        """Lines that people read, by one process: not for logs."""
        with self._guard:
            before = b""
            with contextlib.suppress(FileNotFoundError):
                before = self.objects.get(name)
            self.objects.put(name, before + data)

    def read_from(self, name: str, start: int, size: int | None = None) -> bytes:
        return self.read(name)[start : None if size is None else start + size]

    def truncate(self, name: str, size: int) -> None:
        self.objects.put(name, self.objects.get(name)[:size])

    def link(self, name: str, new: str) -> None:
        """A copy: object stores know no second names."""
        if not self.objects.create(new, self.objects.get(name)):
            raise FileExistsError(new)

    def rename(self, name: str, new: str) -> None:
        """A reader sees the value before or after. A crash in between leaves the draft as well, which nobody reads."""
        self.objects.put(new, self.objects.get(name))
        self.objects.delete(name)

    def replace(self, name: str, data: bytes) -> None:
        """At once: an object is put whole or not at all, so that a draft is not needed."""
        self.objects.put(name, data)

    def delete(self, name: str) -> None:
        self.objects.delete(name)
        if self._spool is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._spool.name}/{name}")

    def exists(self, name: str) -> bool:
        try:
            self.size(name)
        except FileNotFoundError:
            return self.is_folder(name)
        return True

    def is_folder(self, name: str) -> bool:
        return name in self._marked or bool(self.objects.names(name))

    def size(self, name: str) -> int:
        return os.stat(name).st_size if name[:1] == "/" else self.objects.size(name)

    def names(self, folder: str) -> list[str]:
        return [name for name in self.objects.names(folder) if name != MARK]

    def make_folder(self, name: str) -> None:
        if name not in self._marked:
            self.objects.put(f"{name}/{MARK}", b"")
            self._marked.add(name)

    def delete_folder(self, name: str) -> None:
        self._marked = {one for one in self._marked if one != name and not one.startswith(f"{name}/")}
        for one in self.objects.below(name):
            self.objects.delete(one)
        if self._spool is not None:
            shutil.rmtree(f"{self._spool.name}/{name}", ignore_errors=True)

    def sync(self, name: str) -> None:
        """What was put is as durable as the server keeps it."""

    def path(self, name: str) -> str:
        if name[:1] == "/":
            return name
        with self._guard:
            if self._spool is None:
                self._spool = tempfile.TemporaryDirectory(prefix="godwit-spool-")
        path = f"{self._spool.name}/{name}"
        if os.path.exists(path):
            return path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # (a folder that Spark is to write into)
            data = self.objects.get(name)
            draft = f"{path}.{threading.get_ident()}"
            with open(draft, "wb") as file:
                file.write(data)
            os.replace(draft, path)
            self._make_room(len(data))
        return path

    def take_in(self, folder: str) -> list[str]:
        path, found = self.path(folder), []
        for name in sorted(os.listdir(path)):
            with open(f"{path}/{name}", "rb") as file:
                self.write(f"{folder}/{name}", file.read())
            found.append(f"{folder}/{name}")
        return found

    def _make_room(self, more: int) -> None:
        """Remove what was used longest ago once there is too much of it."""
        assert self._spool is not None
        with self._guard:
            self._spooled += more
            if self._spooled <= MOST_SPOOLED:
                return
            files = [os.path.join(at, name) for at, _, those in os.walk(self._spool.name) for name in those]
            files.sort(key=lambda file: os.stat(file).st_atime)
            for file in files[: len(files) // 2]:
                os.unlink(file)
            self._spooled = sum(os.stat(file).st_size for file in files[len(files) // 2 :])
