"""One process under a name where no file system has locks: the object store decides who has the next number of a lease.

    leases/regions/west/0000000007      {"pid": 41, "host": "a", ...}: the seventh process under this name
    leases/regions/west/alive           {"number": 7, "beat": 120}: changes as long as it lives

Whoever comes takes the next number (put if absent) once the holder has said goodbye, is dead (on the same machine, by
its process id), or was silent for the lease, measured by the watcher's own clock. A holder that finds a higher number
is fenced: it ends. Until it has found out it can do no harm: the next record of a log is there, or it is not.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from godwit.errors import StateError
from godwit.storage.names import number, number_of
from godwit.storage.objects import Objects

log = logging.getLogger(__name__)

#: how often a holder says that it is alive; after how much silence somebody else may come (seconds)
BEAT_EVERY, SILENCE = 1.0, 8.0


def _fenced() -> None:
    """At once: what is under way must not be finished."""
    os._exit(75)


class Lease:
    """A name in an object store, for one process."""

    def __init__(self, objects: Objects, name: str, fenced: Callable[[], None] = _fenced) -> None:
        self._objects, self._name, self._folder, self._fenced = objects, name, f"leases/{name}", fenced
        self._number = 0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self) -> None:
        """StateError, with the holder's name, if another process has it."""
        if self._number:
            return
        newest, who = _newest(self._objects, self._folder)
        if who is not None and not _dead(who) and not self._silent():
            raise _in_use(self._objects, self._name, who)
        if not self._objects.create(f"{self._folder}/{number(newest + 1)}", json.dumps(_me()).encode()):
            raise _in_use(self._objects, self._name, _newest(self._objects, self._folder)[1] or {})
        self._number = newest + 1
        for old in range(max(1, newest - 3), newest + 1):
            self._objects.delete(f"{self._folder}/{number(old)}")
        self._over.clear()
        self._thread = threading.Thread(target=self._run, name=f"lease/{self._name}", daemon=True)
        self._thread.start()

    def release(self) -> None:
        if not self._number:
            return
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        with contextlib.suppress(OSError):
            self._objects.put(f"{self._folder}/{number(self._number)}", json.dumps({"left": True}).encode())
        self._number = 0

    def _silent(self) -> bool:
        """Whether the holder says nothing for the lease."""
        until, first = time.monotonic() + SILENCE, self._beat()
        while time.monotonic() < until:
            if self._beat() != first:
                return False
            time.sleep(BEAT_EVERY / 4)
        return True

    def _beat(self) -> bytes:
        try:
            return self._objects.get(f"{self._folder}/alive")
        except FileNotFoundError:
            return b""

    def _run(self) -> None:
        beat = 0
        while not self._over.wait(BEAT_EVERY if beat else 0.0):
            beat += 1
            try:
                newest, _ = _newest(self._objects, self._folder)
                if newest > self._number:
                    log.error("%s: another process has taken this name (number %s): ended", self._name, newest)
                    self._fenced()
                    return
                told = json.dumps({"number": self._number, "beat": beat}).encode()
                self._objects.put(f"{self._folder}/alive", told)
            except OSError:
                continue  # a store that is away: silence says it


def lease_holder(objects: Objects, name: str) -> dict[str, Any] | None:
    """Who has a name now, as far as can be said without waiting: pid, host, since; None: nobody."""
    _, who = _newest(objects, f"leases/{name}")
    return None if who is None or _dead(who) else who


def _newest(objects: Objects, folder: str) -> tuple[int, dict[str, Any] | None]:
    """The number that was taken last, and by whom; None: it has left."""
    taken = max((n for name in objects.names(folder) if (n := number_of(name)) is not None), default=0)
    if not taken:
        return 0, None
    try:
        who: dict[str, Any] = json.loads(objects.get(f"{folder}/{number(taken)}"))
    except FileNotFoundError:
        return taken, None
    return taken, None if who.get("left") else who


def _me() -> dict[str, Any]:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "machine": _machine(),
        "born": born(os.getpid()),
        "since": since,
    }


def _dead(who: dict[str, Any]) -> bool:
    """For certain: it ran on this machine, and its process is gone."""
    return who.get("machine") == _machine() and born(int(who.get("pid", 0))) != who.get("born")


def _machine() -> str:
    """The same for processes that see each other's ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def born(pid: int) -> str:
    """When a process was started, in ticks of its machine; empty: it is not there, or only its remains are."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _in_use(objects: Objects, name: str, who: dict[str, Any]) -> StateError:
    return StateError(
        f"{objects.root}/{name} is in use by process {who.get('pid', '?')} on {who.get('host', '?')} "
        f"since {who.get('since', '?')}; stop that one first, or give another store"
    )
