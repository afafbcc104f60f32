"""A folder of the local file system. Plain strings and system calls: runners that wait ask `exists` all the time."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import threading
from collections import OrderedDict
from pathlib import Path

#: limit of files kept open for appending: each shape has a log of commits and one per receiver, in each region
MOST_OPEN = max(64, min(2048, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4))


class LocalDisk:
    """Files below a folder; see `base.Disk`."""

    hard_links = True

    def __init__(self, folder: str | Path) -> None:
        # Whole, because Java keeps the working directory it was started in.
        self.root = os.path.realpath(folder)
        #: files that are added to, the one that was used last at the end
        self._open: OrderedDict[str, int] = OrderedDict()
        self._guard = threading.RLock()

    def read(self, name: str) -> bytes:
        with open(self.path(name), "rb", buffering=0) as file:
            return file.readall()

    def write(self, name: str, data: bytes) -> None:
        file = self._opened(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            _write(file, data)
        finally:
            os.close(file)

    def append(self, name: str, data: bytes) -> None:
        with self._guard:
            file = self._open.get(name)
            if file is None:
                file = self._opened(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                self._open[name] = file
                if len(self._open) > MOST_OPEN:
                    self._close(next(iter(self._open)))
            else:
                self._open.move_to_end(name)
            _write(file, data)

    def _opened(self, name: str, flags: int) -> int:
        path = self.path(name)
        try:
            return os.open(path, flags, 0o666)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return os.open(path, flags, 0o666)

    def _close(self, name: str) -> None:
        with self._guard:
            file = self._open.pop(name, None)
            if file is not None:
                os.close(file)

    def __del__(self) -> None:
        for file in self._open.values():
            os.close(file)

    def read_from(self, name: str, start: int, size: int | None = None) -> bytes:
        file = os.open(self.path(name), os.O_RDONLY)
        try:
            if size is None:
                size = max(os.fstat(file).st_size - start, 0)
            return os.pread(file, size, start)
        finally:
            os.close(file)

    def truncate(self, name: str, size: int) -> None:
        os.truncate(self.path(name), size)

    def link(self, name: str, new: str) -> None:
        target = self.path(new)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.link(self.path(name), target)

    def rename(self, name: str, new: str) -> None:
        self._close(name)
        self._close(new)
        os.replace(self.path(name), self.path(new))

    def delete(self, name: str) -> None:
        self._close(name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(name))

    def exists(self, name: str) -> bool:
        return os.path.exists(self.path(name))

    def is_folder(self, name: str) -> bool:
        return os.path.isdir(self.path(name))

    def size(self, name: str) -> int:
        return os.stat(self.path(name)).st_size

    def names(self, folder: str) -> list[str]:
        try:
            return os.listdir(self.path(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def make_folder(self, name: str) -> None:
        os.makedirs(self.path(name), exist_ok=True)

    def delete_folder(self, name: str) -> None:
        for file in [file for file in list(self._open) if file.startswith(f"{name}/")]:
            self._close(file)
        shutil.rmtree(self.path(name), ignore_errors=True)

    def sync(self, name: str) -> None:
        try:
            file = os.open(self.path(name), os.O_RDONLY)
        except FileNotFoundError:
            return  # removed since: nothing to keep
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def path(self, name: str) -> str:
        return name if name[:1] == "/" else f"{self.root}/{name}"

    def take_in(self, folder: str) -> list[str]:
        return sorted(f"{folder}/{name}" for name in self.names(folder))


def _write(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
