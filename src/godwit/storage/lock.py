"""One process works in a fleet's folder at a time: an exclusive lock that ends with its process, and says whose it is.

The operating system holds the lock (`flock`), so that of a dead process is free. Readers need none.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from godwit.errors import StateError

FILE = "lock"
#: folder -> (the open file, who uses it); of this process, because the operating system counts by process and open file
_held: dict[str, tuple[int, set[int]]] = {}
_guard = threading.RLock()  # (a lock that is collected lets go, on whatever thread that happens)


class FolderLock:
    """The lock on a folder, for one user of it. Several users in one process share what the process holds."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = os.path.realpath(folder)

    def take(self) -> None:
        """StateError, with the holder's name, if another process works here."""
        with _guard:
            if self._folder not in _held:
                _held[self._folder] = (_opened(self._folder), set())
            _held[self._folder][1].add(id(self))

    def __del__(self) -> None:
        self.release()  # of a fleet that could not be opened

    def release(self) -> None:
        with _guard:
            if self._folder not in _held:
                return
            file, users = _held[self._folder]
            users.discard(id(self))
            if not users:
                del _held[self._folder]
                os.close(file)


def holder(folder: str | Path) -> dict[str, Any] | None:
    """Who works in a folder now: pid, host, since; None: nobody."""
    try:
        file = os.open(Path(folder) / FILE, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _told(file)
    finally:
        os.close(file)
    return None


def no_other(folder: Path) -> None:
    """StateError if a process holds a lock in or below a folder: a fleet's regions may be processes of their own."""
    for file in sorted(folder.rglob(FILE)) if folder.exists() else ():
        if (who := holder(file.parent)) is not None and who.get("pid") != os.getpid():
            msg = f"{file.parent} is in use by process {who.get('pid', '?')}; stop the fleet first (`godwit down`)"
            raise StateError(msg)


def _opened(folder: str) -> int:
    try:
        os.makedirs(folder, exist_ok=True)
        file = os.open(f"{folder}/{FILE}", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as fault:
        msg = f"{folder} cannot be a fleet's folder: {fault.strerror}; give another one"
        raise StateError(msg) from fault
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as taken:
        who = _told(file)
        os.close(file)
        msg = (
            f"{folder} is in use by process {who.get('pid', '?')} on {who.get('host', '?')} "
            f"since {who.get('since', '?')}; stop that one first, or give another folder"
        )
        raise StateError(msg) from taken
    me = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(me).encode(), 0)
    return file


def _told(file: int) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(os.pread(file, 4096, 0) or b"{}")
    except ValueError:
        return {}
    return found
