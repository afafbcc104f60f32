"""Bytes over several links, in emulation: every hop is a socket, and every link has a pace.

    stream    pieces follow each other over all hops at once (an ad-hoc migration query; a delta)
    forward   every node stores all of it before it sends it on (state transfer)

A link without a limit goes as fast as the machine does.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

#: bytes that travel as one piece
PIECE = 256 * 1024


@dataclass(frozen=True)
class Links:
    """What the links between sites are like. `mbit`: megabits per second; None: no limit.

    `round_trip_ms`: between the hub's region and any other; how it is emulated stands in `link_delays.py`.
    """

    mbit: float | None = None
    round_trip_ms: float = 0.0
    #: the region that all others are linked to, and the control plane with it
    hub: str = "cloud"

    @property
    def carries(self) -> bool:
        """Whether bytes of state take their time; with a latency alone they come with the message that has them."""
        return self.mbit is not None or not self.round_trip_ms

    def seconds(self, one: str, other: str) -> float:
        """How long a message takes from a region to another."""
        trips = 0.0 if one == other else 0.5 if self.hub in (one, other) else 1.0
        return trips * self.round_trip_ms / 1000


class _Pace:
    """Lets a sender wait as long as a link of that bandwidth would have been busy."""

    def __init__(self, mbit: float | None) -> None:
        self._mbit, self._began, self._sent = mbit, 0.0, 0

    def take(self, size: int) -> None:
        if self._mbit is None:
            return
        self._began = self._began or time.perf_counter()
        self._sent += size
        due = self._began + self._sent * 8 / (self._mbit * 1e6)
        time.sleep(max(due - time.perf_counter(), 0.0))


def stream(sources: Sequence[Path], targets: Sequence[Path], hops: int, links: Links) -> None:
    """Copy files over a number of hops, piece by piece."""
    if not sources:
        return
    pairs = [socket.socketpair() for _ in range(hops)]
    faults: list[OSError] = []
    first = (lambda: _send(_pieces(sources), pairs[0][0], _Pace(links.mbit)),)
    middle = tuple(_relay(pairs[k - 1][1], pairs[k][0], _Pace(links.mbit)) for k in range(1, hops))
    threads = [threading.Thread(target=_guarded, args=(work, faults), daemon=True) for work in (*first, *middle)]
    for thread in threads:
        thread.start()
    try:
        _receive(pairs[-1][1], targets, [os.path.getsize(source) for source in sources])
    except OSError as fault:
        faults.append(fault)
        for sender, _ in pairs:  # whoever still sends notices
            sender.close()
    for thread in threads:
        thread.join()
    for _, receiver in pairs:
        receiver.close()
    if faults:
        raise faults[0]


def forward(sources: Sequence[Path], targets: Sequence[Path], hops: int, links: Links) -> None:
    """Copy files over a number of hops, each of which begins when the one before has everything."""
    here = list(sources)
    for hop in range(1, hops + 1):
        there = list(targets) if hop == hops else [t.with_name(f"{t.name}.hop{hop}") for t in targets]
        stream(here, there, 1, links)
        if hop > 1:
            for file in here:
                file.unlink()
        here = there


def _pieces(files: Sequence[Path]) -> Iterator[bytes]:
    for path in files:
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                yield piece


def _send(pieces: Iterator[bytes], link: socket.socket, pace: _Pace) -> None:
    with link:
        for piece in pieces:
            link.sendall(piece)
            pace.take(len(piece))


def _relay(inbound: socket.socket, outbound: socket.socket, pace: _Pace) -> Callable[[], None]:
    return lambda: _send(iter(lambda: inbound.recv(PIECE), b""), outbound, pace)


def _receive(link: socket.socket, targets: Sequence[Path], sizes: Sequence[int]) -> None:
    for target, size in zip(targets, sizes, strict=True):
        with target.open("wb") as file:
            left = size
            while left:
                piece = link.recv(min(left, PIECE))
                if not piece:
                    msg = f"{target}: the sender went away {left} bytes too early"
                    raise ConnectionError(msg)
                file.write(piece)
                left -= len(piece)


def _guarded(work: Callable[[], None], faults: list[OSError]) -> None:
    try:
        work()
    except OSError as fault:
        faults.append(fault)
