"""A folder of the local file system. Plain strings and system calls: runners that wait ask `exists` all the time."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path


class LocalDisk:
    """Files below a folder; see `base.Disk`."""

    def __init__(self, folder: str | Path) -> None:
        # Whole, because Java keeps the working directory it was started in.
        self.root = os.path.realpath(folder)

    def read(self, name: str) -> bytes:
        with open(self.path(name), "rb", buffering=0) as file:
            return file.readall()

    def write(self, name: str, data: bytes) -> None:
        self._write(name, data, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def append(self, name: str, data: bytes) -> None:
        self._write(name, data, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def _write(self, name: str, data: bytes, flags: int) -> None:
        path = self.path(name)
        try:
            file = os.open(path, flags, 0o666)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            file = os.open(path, flags, 0o666)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(file, left) :]
        finally:
            os.close(file)

    def link(self, name: str, new: str) -> None:
        target = self.path(new)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.link(self.path(name), target)

    def rename(self, name: str, new: str) -> None:
        os.replace(self.path(name), self.path(new))

    def delete(self, name: str) -> None:
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
