"""What a program uses while it runs: processor time with its children, and files it creates in a folder."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import psutil


class CpuTime:
    """Processor time of this process and its children (Spark's JVM) from now on."""

    def __init__(self) -> None:
        self._began, self._used = time.monotonic(), _cpu_seconds()

    def cores(self) -> float:
        return (_cpu_seconds() - self._used) / max(time.monotonic() - self._began, 1e-9)


def _cpu_seconds() -> float:
    me = psutil.Process()
    total = 0.0
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


class FilesCreated:
    """Files that come into being below a folder from now on, also those that are gone again by the end.

    Python tells of every file it opens; those that Spark or Arrow have written are found by a listing at the end.
    """

    _hooked: list[FilesCreated] = []  # noqa: RUF012 - a hook cannot be taken away again

    def __init__(self, folder: Path) -> None:
        self._folder, self._began = f"{os.path.realpath(folder)}/", time.monotonic()
        self._before, self._count = _listed(self._folder), 0
        self._seen: set[str] = set()
        if not self._hooked:
            sys.addaudithook(_tell)
        self._hooked[:] = [self]

    def per_minute(self) -> float:
        self._hooked.clear()
        unseen = _listed(self._folder) - self._before - self._seen
        return (self._count + len(unseen)) * 60 / (time.monotonic() - self._began)

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        path = arguments[0 if event == "open" else 1]
        path = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
        if not isinstance(path, str) or not path.startswith(self._folder):
            return
        if event != "open":
            self._seen.add(path)  # a draft that gets its name, or a file a second one, is no new file
        elif isinstance(arguments[2], int) and arguments[2] & os.O_CREAT and not os.path.exists(path):
            self._count += 1
            self._seen.add(path)


def _tell(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.rename", "os.link"):
        for counter in FilesCreated._hooked:
            counter.note(event, arguments)


def _listed(folder: str) -> set[str]:
    return {f"{where}/{name}" for where, _, names in os.walk(folder.rstrip("/")) for name in names}
