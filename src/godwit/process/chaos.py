"""Plays a script of faults (`godwit.testing.chaos`) against the processes of a fleet, and says how long each took.

A fault is over when it was taken back; recovery is from then until the process is heard from and the rows that were
sent meanwhile are taken. What is right in the end is not decided here, but by the oracle.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from godwit.errors import DeploymentError
from godwit.process.connect import ConnectedFleet
from godwit.process.launcher import Launcher
from godwit.testing.chaos import (
    COORDINATOR,
    ChaosScript,
    CutLink,
    DelayLink,
    KillProcess,
    MoveDevice,
    PauseProcess,
    PlaceQuery,
    SendBatches,
    SlowProcess,
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


class ChaosPlayer:
    """`send`: lets all devices send so many batches, each until it is taken."""

    def __init__(self, launcher: Launcher, fleet: ConnectedFleet, send: Callable[[int], None]) -> None:
        self._launcher, self._fleet, self._send = launcher, fleet, send
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
