"""What happens in a test, as a list of values that can be read, printed and replayed, and the player that does it.

    Script([
        [{"train": "t1", "boarded": 7, "ts": ...}],   rows, sent by the devices that they name
        PAUSE(),                                      process everything that is available
        MOVE("t1", "east"),                           a device hops to another site
        DETACH("t1"),                                 out of reach: it buffers what it sends
        KILL("staged"),                               the process dies at this moment, and the folder is opened again
        [...],
    ], stream="passengers", device="train")

The player abandons the fleet object at a KILL, as a process that died would: nothing is flushed, nothing is stopped.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from godwit.model.changes import Change

Row = Mapping[str, Any]

#: the moments of a micro-batch at which a process can be killed, in their order
MOMENTS = ("polled", "staged", "committed", "published", "cleaned")


class Killed(BaseException):
    """The process dies here. Not an Exception: nothing may catch it on the way."""


@dataclass(frozen=True)
class SEND:
    """A device sends rows; while it is away, it buffers them."""

    device: str
    rows: Sequence[Row]
    stream: str | None = None


@dataclass(frozen=True)
class PAUSE:
    """Let the fleet process what is available; before, wait `seconds`, or publish a `watermark` for every device."""

    seconds: float = 0.0
    watermark: dt.datetime | None = None


@dataclass(frozen=True)
class MOVE:
    """A device attaches to a site: it hops, or comes back."""

    device: str
    site: str


@dataclass(frozen=True)
class DETACH:
    """A device is out of reach."""

    device: str


@dataclass(frozen=True)
class KILL:
    """The process dies at a moment of the next micro-batch that has work, and the folder is opened again."""

    moment: str = "staged"

    def __post_init__(self) -> None:
        if self.moment not in MOMENTS:
            msg = f"KILL({self.moment!r}): there is no such moment; moments: {', '.join(MOMENTS)}"
            raise ValueError(msg)


@dataclass(frozen=True)
class SUBMIT:
    sql: str
    name: str


@dataclass(frozen=True)
class WITHDRAW:
    name: str


@dataclass(frozen=True)
class CHANGE:
    """The topology changes."""

    changes: tuple[Change, ...]

    def __init__(self, *changes: Change) -> None:
        object.__setattr__(self, "changes", changes)


Action = SEND | PAUSE | MOVE | DETACH | KILL | SUBMIT | WITHDRAW | CHANGE


@dataclass(frozen=True)
class Script:
    """Actions, and lists of rows between them. `stream`, `device`: of which stream rows are, who sent each."""

    steps: Sequence[Action | Sequence[Row]]
    stream: str | None = None
    device: str = "device"

    def actions(self) -> list[Action]:
        """With every list of rows as what its devices send, in the order in which they first appear."""
        found: list[Action] = []
        for step in self.steps:
            if not isinstance(step, Sequence):
                found.append(step)
                continue
            senders = dict.fromkeys(str(row[self.device]) for row in step)
            for sender in senders:
                mine = [row for row in step if str(row[self.device]) == sender]
                found.append(SEND(sender, mine, self.stream))
        return found


class Playable(Protocol):
    """What a player needs of a fleet."""

    deployment: Any

    def device(self, name: str) -> Any: ...

    def submit(self, sql: str, name: str) -> Any: ...

    def withdraw(self, query: Any) -> None: ...

    def change(self, changes: Iterable[Change]) -> None: ...

    def tell_time(self, stream: Any, clocks: Any) -> None: ...

    def process_available(self) -> None: ...


F = TypeVar("F", bound=Playable)


@dataclass
class Player(Generic[F]):
    """Plays scripts into a fleet. `open_fleet(at=...)` opens it, and opens it again after a KILL.

    `prepare` declares topology, streams, devices and queries in the empty fleet, once.
    """

    open_fleet: Callable[..., F]
    prepare: Callable[[F], object] = lambda fleet: None
    _kill_at: str | None = None
    _devices: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fleet: F = self.open_fleet(at=self._moment)
        self.prepare(self.fleet)

    def play(self, script: Script | Iterable[Action]) -> None:
        """Do one action after the other."""
        for action in script.actions() if isinstance(script, Script) else script:
            self.do(action)

    def do(self, action: Action) -> None:
        match action:
            case SEND(device, rows, stream):
                self.device(device).push([dict(row) for row in rows], stream)
            case PAUSE(seconds, watermark):
                self._pause(seconds, watermark)
            case MOVE(device, site):
                self.device(device).attach(site)
            case DETACH(device):
                self.device(device).detach()
            case KILL(moment):
                self._kill(moment)
            case SUBMIT(sql, name):
                self.fleet.submit(sql, name)
            case WITHDRAW(name):
                self.fleet.withdraw(name)
            case CHANGE(changes):
                self.fleet.change(changes)

    def device(self, name: str) -> Any:
        """The handle of a device; it lives through a KILL with what it has buffered, as the real device would."""
        if name not in self._devices:
            self._devices[name] = self.fleet.device(name)
        return self._devices[name]

    def _pause(self, seconds: float, watermark: dt.datetime | None) -> None:
        time.sleep(seconds)
        if watermark is not None:
            micros = round(watermark.timestamp() * 1_000_000)
            now = self.fleet.deployment
            for stream, devices in now.feeds.items():
                self.fleet.tell_time(stream, {d: micros for d in devices if now.devices.get(d) is not None})
        self.fleet.process_available()

    def _kill(self, moment: str) -> None:
        self._kill_at = moment
        with contextlib.suppress(Killed):
            self.fleet.process_available()
        self._kill_at = None
        buffered = {name: handle._buffer for name, handle in self._devices.items()}
        self.fleet = self.open_fleet(at=self._moment)
        self._devices = {}
        for name, waiting in buffered.items():
            self.device(name)._buffer = waiting

    def _moment(self, moment: str) -> None:
        if moment == self._kill_at:
            self._kill_at = None
            raise Killed
