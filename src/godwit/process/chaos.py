"""Plays a script of faults (`godwit.testing.chaos`) against the processes of a fleet, and says how long each took.

A fault is over when it was taken back; recovery is from then until the process is heard from and the rows that were
sent meanwhile are taken. What is right in the end is not decided here, but by the oracle.
"""

from __future__ import annotations

import resource
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from godwit.errors import DeploymentError
from godwit.process.connect import ConnectedFleet
from godwit.process.launcher import Launcher
from godwit.process.proxy import Proxy
from godwit.testing.chaos import (
    COORDINATOR,
    ChaosScript,
    CutLink,
    CutStore,
    DelayLink,
    FullDisk,
    JumpClock,
    KillBroker,
    KillProcess,
    MoveDevice,
    PauseProcess,
    PlaceQuery,
    SendBatches,
    SlowProcess,
    SlowStore,
    Step,
)

#: of a slow process: how long it stands still, and how long it runs in between (seconds)
STANDS, RUNS = 0.09, 0.01


@dataclass(frozen=True)
class Recovery:
    """What a fault has cost."""

    step: Step
    #: from its end until all processes were at work again
    seconds: float


class Broker(Protocol):
    """The server that keeps the logs of a fleet."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


class ChaosPlayer:
    """`send`: lets all devices send that many batches, each repeated until it is accepted."""

    def __init__(
        self,
        launcher: Launcher,
        fleet: ConnectedFleet,
        send: Callable[[int], None],
        broker: Broker | None = None,
        store_link: Proxy | None = None,
    ) -> None:
        """`broker`: the server that keeps the logs; `store_link`: the proxy before it."""
        self._launcher, self._fleet, self._send = launcher, fleet, send
        self._broker, self._store_link = broker, store_link
        self._specs = {region.name: region for region in launcher.spec.regions}
        self.recoveries: list[Recovery] = []

    def play(self, script: ChaosScript) -> list[Recovery]:
        for step in script.steps:
            self._do(step)
        return self.recoveries

    def _do(self, step: Step) -> None:
        match step:
            case SendBatches(batches):
                self._send(batches)
            case MoveDevice(device, site):
                self._fleet.move_device(device, site)
            case PlaceQuery(query, site):
                plan = self._fleet.deployment.queries[query].shape.plan  # type: ignore[index]
                self._fleet.place({f"{query}/{i}": site for i in range(len(plan.operators)) if not plan.is_local(i)})
            case KillProcess(process, away):
                self._launcher.signal(process, signal.SIGKILL)
                self._launcher.gone(process)
                time.sleep(away)
                self._recover(step, lambda: self._start(process))
            case PauseProcess(process, seconds):
                self._launcher.signal(process, signal.SIGSTOP)
                time.sleep(seconds)
                self._recover(step, lambda: self._launcher.signal(process, signal.SIGCONT))
            case SlowProcess(process, seconds):
                self._slowly(process, seconds)
                self._recover(step)
            case CutLink(process, seconds):
                proxy = self._launcher.proxies[process]
                proxy.cut(True)
                time.sleep(seconds)
                self._recover(step, lambda: proxy.cut(False))
            case DelayLink(process, ms, seconds):
                proxy = self._launcher.proxies[process]
                proxy.delay(ms / 1000)
                threading.Timer(seconds, proxy.delay, [0.0]).start()
                self._send(1)
                self._recover(step)
            case JumpClock(process, by, seconds):
                self._launcher.jump(process, by)
                self._send(1)
                time.sleep(seconds)
                self._recover(step, lambda: self._launcher.jump(process, 0.0))
            case _:
                self._at_the_store(step)

    def _at_the_store(self, step: Step) -> None:
        match step:
            case KillBroker(away):
                assert self._broker is not None, "there is no broker to kill"
                self._broker.kill()
                time.sleep(away)
                self._recover(step, self._broker.start)
            case CutStore(seconds):
                link = self._link()
                link.cut(True)
                time.sleep(seconds)
                self._recover(step, lambda: link.cut(False))
            case SlowStore(ms, seconds):
                link = self._link()
                link.delay(ms / 1000)
                self._send(1)
                time.sleep(seconds)
                self._recover(step, lambda: link.delay(0.0))
            case FullDisk(process, seconds):
                pid = self._launcher.pid(process)
                assert pid is not None, f"{process} does not run"
                before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
                time.sleep(seconds)
                self._recover(step, lambda: self._writes_again(pid, before))

    @staticmethod
    def _writes_again(pid: int, limits: tuple[int, int]) -> None:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)

    def _link(self) -> Proxy:
        assert self._store_link is not None, "there is no proxy before the store"
        return self._store_link

    def _start(self, process: str) -> None:
        if process == COORDINATOR:
            self._launcher.start_coordinator()
        else:
            self._launcher.start_region(self._specs[process])
            self._launcher.joined()

    def _slowly(self, process: str, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._launcher.signal(process, signal.SIGSTOP)
            time.sleep(STANDS)
            self._launcher.signal(process, signal.SIGCONT)
            time.sleep(RUNS)

    def _recover(self, step: Step, end: Callable[[], None] = lambda: None) -> None:
        began = time.monotonic()
        end()
        self._send(1)
        while any("error" in told for told in self._fleet.status().values()):
            if time.monotonic() - began > 120.0:
                msg = f"after {step} the fleet does not answer: {self._fleet.status()}"
                raise DeploymentError(msg)
            time.sleep(0.05)
        self.recoveries.append(Recovery(step, time.monotonic() - began))
