"""Scripts of faults for a fleet of processes, as values: the same seed makes the same script, which can be read.

    script = chaos(seed=7, length=20, regions=["edge", "cloud"], devices={"t0": ["west", "east"]}, queries=["q"])
    for step in script.steps:
        print(step)                     # SendBatches(batches=2), KillProcess(process='edge', seconds=1.5)

`godwit.process.chaos` plays them against real processes; the oracle decides at the end.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

COORDINATOR = "coordinator"


@dataclass(frozen=True)
class SendBatches:
    """All devices send that many batches."""

    batches: int


@dataclass(frozen=True)
class MoveDevice:
    device: str
    site: str


@dataclass(frozen=True)
class PlaceQuery:
    """All operators of a query that are not local go to a site, with their state."""

    query: str
    site: str


@dataclass(frozen=True)
class KillProcess:
    """kill -9; started again after that many seconds."""

    process: str
    seconds: float


@dataclass(frozen=True)
class PauseProcess:
    """SIGSTOP, and SIGCONT after that many seconds: it is silent, and comes back with what it knew."""

    process: str
    seconds: float


@dataclass(frozen=True)
class SlowProcess:
    """It runs for a tenth of the time only, as on a slow disk or an overloaded machine."""

    process: str
    seconds: float


@dataclass(frozen=True)
class CutLink:
    """The process cannot be reached, and connections to it are reset; it reaches others."""

    process: str
    seconds: float


@dataclass(frozen=True)
class DelayLink:
    """What is said to the process takes so much longer."""

    process: str
    ms: float
    seconds: float


@dataclass(frozen=True)
class KillBroker:
    """kill -9 of the server that keeps the logs; started again, with what it has kept, after that many seconds."""

    seconds: float


@dataclass(frozen=True)
class CutStore:
    """The server that keeps the logs cannot be reached."""

    seconds: float


@dataclass(frozen=True)
class SlowStore:
    """Every answer of the server that keeps the logs takes so much longer."""

    ms: float
    seconds: float


@dataclass(frozen=True)
class FullDisk:
    """What the process writes to files is refused, as on a full disk; it reads as before."""

    process: str
    seconds: float


@dataclass(frozen=True)
class JumpClock:
    """The wall clock of the process jumps by so much and, after a while, back."""

    process: str
    by: float
    seconds: float


Fault = (
    KillProcess
    | PauseProcess
    | SlowProcess
    | CutLink
    | DelayLink
    | KillBroker
    | CutStore
    | SlowStore
    | FullDisk
    | JumpClock
)
FAULTS = get_args(Fault)


@dataclass(frozen=True)
class Together:
    """Several faults at once, of different processes and perhaps of the store; rows are sent while they last."""

    faults: tuple[Fault, ...]


Step = SendBatches | MoveDevice | PlaceQuery | Fault | Together
#: of faults that come together
MOST_AT_ONCE = 3


_NO_FAULTS = ("send", "move", "place", "together")


@dataclass(frozen=True)
class FaultWeights:
    """How often each kind is chosen, against the others."""

    send: float = 4.0
    move: float = 2.0
    place: float = 1.0
    kill_region: float = 1.0
    kill_coordinator: float = 1.0
    pause: float = 1.0
    slow: float = 1.0
    cut: float = 1.0
    delay: float = 1.0
    #: of stores that a server keeps
    kill_broker: float = 0.0
    cut_store: float = 0.0
    slow_store: float = 0.0
    #: of stores that are folders
    full_disk: float = 0.0
    #: where the launcher can set clocks
    clock: float = 0.0
    #: two or three of the faults above at once
    together: float = 0.0

    @property
    def faults(self) -> dict[str, float]:
        """Those of single faults alone."""
        return {kind: weight for kind, weight in vars(self).items() if kind not in _NO_FAULTS}


@dataclass(frozen=True)
class ChaosScript:
    seed: int
    steps: tuple[Step, ...] = field(default=())

    @property
    def faults(self) -> int:
        return sum(len(step.faults) if isinstance(step, Together) else isinstance(step, FAULTS) for step in self.steps)

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}", *(f"  {number}: {step}" for number, step in enumerate(self.steps, 1))])


def chaos(
    seed: int,
    length: int,
    regions: Sequence[str],
    devices: Mapping[str, Sequence[str]],
    queries: Sequence[str],
    weights: FaultWeights = FaultWeights(),  # noqa: B008 - a frozen value
    longest: float = 4.0,
) -> ChaosScript:
    """A script of that many steps. `devices`: the sites at which each may be; `longest`: of a fault, in seconds."""
    rng = random.Random(seed)
    sites = sorted({site for those in devices.values() for site in those})
    kinds = list(vars(weights))
    chosen = rng.choices(kinds, [getattr(weights, kind) for kind in kinds], k=length)

    def step(kind: str) -> Step:
        if kind != "together":
            return _step(kind, rng, regions, devices, sites, queries, longest)
        some = weights.faults
        wanted, found = rng.randint(2, MOST_AT_ONCE), dict[str, Fault]()
        while len(found) < wanted:
            (one,) = rng.choices(list(some), list(some.values()))
            fault = _step(one, rng, regions, devices, sites, queries, longest)
            assert isinstance(fault, FAULTS)
            found.setdefault(getattr(fault, "process", "the store"), fault)
        return Together(tuple(found.values()))

    return ChaosScript(seed, (SendBatches(2), *map(step, chosen), SendBatches(2)))


def _step(
    kind: str,
    rng: random.Random,
    regions: Sequence[str],
    devices: Mapping[str, Sequence[str]],
    sites: Sequence[str],
    queries: Sequence[str],
    longest: float,
) -> Step:
    seconds = round(rng.uniform(0.2, longest), 2)
    processes = [COORDINATOR, *regions]
    match kind:
        case "send":
            return SendBatches(rng.randint(1, 3))
        case "move":
            device = rng.choice(sorted(devices))
            return MoveDevice(device, rng.choice(devices[device]))
        case "place":
            return PlaceQuery(rng.choice(queries), rng.choice(sites))
        case "kill_region":
            return KillProcess(rng.choice(regions), seconds)
        case "kill_coordinator":
            return KillProcess(COORDINATOR, seconds)
        case "pause":
            return PauseProcess(rng.choice(processes), seconds)
        case "slow":
            return SlowProcess(rng.choice(processes), seconds)
        case "cut":
            return CutLink(rng.choice(regions), seconds)
        case "kill_broker":
            return KillBroker(seconds)
        case "cut_store":
            return CutStore(seconds)
        case "slow_store":
            return SlowStore(rng.choice([5.0, 20.0, 50.0]), seconds)
        case "full_disk":
            return FullDisk(rng.choice(regions), seconds)
        case "clock":
            return JumpClock(rng.choice(processes), rng.choice([-3600.0, -30.0, -1.0, 1.0, 30.0, 3600.0]), seconds)
        case _:
            return DelayLink(rng.choice(regions), rng.choice([20.0, 100.0, 400.0]), seconds)
