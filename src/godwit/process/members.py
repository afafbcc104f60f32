"""Who runs: every process holds a lock under its name, and says in a document where it listens and that it is alive.

    processes/coordinator.json       {"format": 1, "pid": ..., "address": "127.0.0.1:40123", "beat": 17, "epoch": 12}
    processes/regions/west.json
    processes/regions/west/lock      held by the operating system (`flock`) as long as the process lives; in a
                                     store without such locks a lease (`storage/lease.py`)

Clocks of two processes are never compared: who watches a beat measures with its own clock for how long it has not
changed (`SilenceWatch`).
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from godwit.errors import ConfigError
from godwit.ids import RegionId
from godwit.process.wire import FORMAT
from godwit.storage import names
from godwit.storage.open_store import lock_of
from godwit.storage.store import Store

COORDINATOR = f"{names.PROCESSES}/coordinator"
REGIONS = f"{names.PROCESSES}/regions"
#: how often a process publishes that it is alive (seconds)
BEAT_EVERY = 0.5


@dataclass(frozen=True)
class ProcessMember:
    """A process as it says it is."""

    address: str
    epoch: int = 0
    beat: int = 0
    pid: int = field(default_factory=os.getpid)
    host: str = field(default_factory=socket.gethostname)
    format: int = FORMAT
    #: what has failed in it, with the reason
    failures: dict[str, str] = field(default_factory=dict)
    #: it has said goodbye
    left: bool = False


def region_document(region: str) -> str:
    return f"{REGIONS}/{region}"


def member(store: Store, name: str) -> ProcessMember | None:
    """What a process last published of itself; None: it was never there."""
    found: dict[str, Any] | None = store.get_document(name)
    if found is None:
        return None
    if found.get("format") != FORMAT:
        msg = (
            f"{store.where(name)} was written by a process of format {found.get('format')}, this one has {FORMAT}: "
            "stop all processes of the fleet (`godwit down`), and start them with one godwit version"
        )
        raise ConfigError(msg)
    return ProcessMember(**found)


def region_members(store: Store) -> dict[RegionId, ProcessMember]:
    """The processes of regions that were ever there."""
    files = (name.removesuffix(".json") for name in store.disk.names(REGIONS) if name.endswith(".json"))
    found = {RegionId(name): member(store, region_document(name)) for name in sorted(files)}
    return {region: one for region, one in found.items() if one is not None}


class Membership:
    """One process under its name: refused if another has it; says that it is alive until it leaves."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._lock = lock_of(store, name)
        self._beat, self._stopping = 0, threading.Event()
        self._thread: threading.Thread | None = None
        self._publishing = threading.Lock()
        #: what the document says
        self.describe: Callable[[], ProcessMember] = lambda: ProcessMember("")

    def join(self) -> None:
        """StateError if a process of that name runs; ConfigError if it has another format."""
        member(self._store, self._name)
        self._lock.take()

    def start(self) -> None:
        self.publish()
        self._thread = threading.Thread(target=self._run, name=f"{self._name}/beat", daemon=True)
        self._thread.start()

    def publish(self, left: bool = False) -> None:
        with self._publishing:
            self._beat += 1
            self._store.put_document(self._name, {**asdict(self.describe()), "beat": self._beat, "left": left})

    def leave(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            with contextlib.suppress(OSError):  # (a store that is away: silence says it)
                self.publish(left=True)
        self._lock.release()

    def _run(self) -> None:
        while not self._stopping.wait(BEAT_EVERY):
            try:
                self.publish()
            except OSError:
                continue  # a store that is away for a moment: silence says it


@dataclass
class SilenceWatch:
    """Who has been silent for how long, by the clock of the watcher. Pure: it is fed with what was read."""

    lease: float
    _seen: dict[str, tuple[tuple[int, int], float]] = field(default_factory=dict)
    _looked: float | None = None

    def looks(self, now: float) -> None:
        """The watcher looks now. Was it away itself (stopped, or its store was), others were not silent meanwhile."""
        away = 0.0 if self._looked is None else now - self._looked
        if away > self.lease / 2:
            self._seen = {name: (said, at + away) for name, (said, at) in self._seen.items()}
        self._looked = now

    def observe(self, name: str, one: ProcessMember, now: float) -> None:
        said = (one.pid, one.beat)
        if name not in self._seen or self._seen[name][0] != said:
            self._seen[name] = (said, now)

    def silent(self, now: float) -> set[str]:
        return {name for name, (_, at) in self._seen.items() if now - at > self.lease}
