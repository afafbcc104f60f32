"""Plays a script of faults (`godwit.testing.chaos`) against the processes of a fleet, and says how long each took.

A fault is over when it was taken back; recovery is from then until the process is heard from and the rows that were
sent meanwhile are taken. Where faults come together, rows are sent while they last. What is right in the end is not
decided here, but by the oracle.
"""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
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
    Fault,
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
    Together,
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
                known = self._fleet.deployment.queries[query]  # type: ignore[index]
                plan = known.shape.plan
                if not known.scattered:  # (the sink of such a query, all that could be placed, has no place)
                    placed = (i for i in range(len(plan.operators)) if not plan.is_local(i))
                    self._fleet.place({f"{query}/{i}": site for i in placed})
            case Together(faults):
                self._all_at_once(step, sorted(faults, key=_begins))
            case fault:
                with ExitStack() as ending:
                    ending.enter_context(self._fault(fault))
                    if isinstance(fault, DelayLink | JumpClock | SlowStore):
                        self._send(1)
                    time.sleep(fault.seconds)
                    self._recover(step, ending.close)

    def _all_at_once(self, step: Together, faults: list[Fault]) -> None:
        """Rows are sent as soon as all of them have begun, and taken when they are over."""
        with ExitStack() as ending, ThreadPoolExecutor(1) as beside:
            for fault in faults:
                ending.enter_context(self._fault(fault))

            def end() -> float:
                time.sleep(max(fault.seconds for fault in faults))
                now = time.monotonic()
                ending.close()
                return now

            ended = beside.submit(end)
            self._send(1)
            self._recover(step, began=ended.result())

    @contextmanager
    def _fault(self, fault: Fault) -> Iterator[None]:
        """It begins, and is taken back."""
        match fault:
            case KillProcess(process):
                self._launcher.signal(process, signal.SIGKILL)
                self._launcher.gone(process)
                yield
                self._start(process)
            case PauseProcess(process):
                pid = self._pid(process)
                os.kill(pid, signal.SIGSTOP)
                yield
                os.kill(pid, signal.SIGCONT)
            case SlowProcess(process):
                with _slowly(self._pid(process)):
                    yield
            case CutLink(process):
                self._launcher.proxies[process].cut(True)
                yield
                self._launcher.proxies[process].cut(False)
            case DelayLink(process, ms):
                self._launcher.proxies[process].delay(ms / 1000)
                yield
                self._launcher.proxies[process].delay(0.0)
            case JumpClock(process, by):
                self._launcher.jump(process, by)
                yield
                self._launcher.jump(process, 0.0)
            case FullDisk(process):
                pid = self._pid(process)
                before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
                yield
                resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
            case KillBroker():
                assert self._broker is not None, "there is no broker to kill"
                self._broker.kill()
                yield
                self._broker.start()
            case CutStore():
                self._link().cut(True)
                yield
                self._link().cut(False)
            case SlowStore(ms):
                self._link().delay(ms / 1000)
                yield
                self._link().delay(0.0)

    def _pid(self, process: str) -> int:
        pid = self._launcher.pid(process)
        assert pid is not None, f"{process} does not run"
        return pid

    def _link(self) -> Proxy:
        assert self._store_link is not None, "there is no proxy before the store"
        return self._store_link

    def _start(self, process: str) -> None:
        if process == COORDINATOR:
            self._launcher.start_coordinator()
        else:
            self._launcher.start_region(self._specs[process])
            self._launcher.joined()

    def _recover(self, step: Step, end: Callable[[], None] = lambda: None, began: float | None = None) -> None:
        """`began`: when it was taken back, if that was before."""
        began = time.monotonic() if began is None else began
        end()
        self._send(1)
        while any("error" in told for told in self._fleet.status().values()):
            if time.monotonic() - began > 120.0:
                msg = f"after {step} the fleet does not answer: {self._fleet.status()}"
                raise DeploymentError(msg)
            time.sleep(0.05)
        self.recoveries.append(Recovery(step, time.monotonic() - began))


def _begins(fault: Fault) -> int:
    """Those are taken back first that begin last: a process is started when what it needs is there."""
    match fault:
        case KillProcess(process):
            return 1 if process == COORDINATOR else 0
        case KillBroker() | CutStore() | SlowStore():
            return 3
    return 2


@contextmanager
def _slowly(pid: int) -> Iterator[None]:
    over = threading.Event()

    def hold_up() -> None:
        while not over.is_set():
            os.kill(pid, signal.SIGSTOP)
            time.sleep(STANDS)
            os.kill(pid, signal.SIGCONT)
            time.sleep(RUNS)

    thread = threading.Thread(target=hold_up, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()
