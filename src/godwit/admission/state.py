"""The ledger: which host runs, receives, sends and serves what, and what is left of every resource.

The ledger is the (d, x, z) of the model, kept as dictionaries for speed: `served` is d, `received` is x (each host
gets a stream from one sender), `placed` is z. Every change goes through six primitives that write a journal, so that
a planner may try, look and `rollback`. `release` drops what is no longer used. Resources may be overdrawn in
between; a planner must leave none overdrawn (`overdrawn`), and `check.py` verifies that independently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from godwit.admission.model import SLACK, Catalog, HostNetwork


@dataclass(frozen=True)
class LedgerSnapshot:
    """A state as plain sets: d_hs, x_hms and z_ho that are 1."""

    served: frozenset[tuple[int, int]]
    flows: frozenset[tuple[int, int, int]]
    placed: frozenset[tuple[int, int]]


class AllocationLedger:
    """The state of all admitted queries, with undo."""

    def __init__(self, network: HostNetwork, catalog: Catalog) -> None:
        self.network = network
        self.catalog = catalog
        self.cpu_free = network.cpu.copy()
        self.in_free = network.nic_in.copy()
        self.out_free = network.nic_out.copy()
        self.link_free: dict[tuple[int, int], float] | None = None if network.links is None else dict(network.links)
        #: stream -> the host that serves it to clients
        self.served: dict[int, int] = {}
        #: stream -> receiver -> sender
        self.received: defaultdict[int, dict[int, int]] = defaultdict(dict)
        #: host -> (stream, receiver) of what it sends
        self.sending: list[set[tuple[int, int]]] = [set() for _ in network.hosts]
        #: host -> streams it receives
        self.receiving: list[set[int]] = [set() for _ in network.hosts]
        #: operator -> hosts that run it
        self.placed: defaultdict[int, set[int]] = defaultdict(set)
        #: host -> operators it runs
        self.running: list[set[int]] = [set() for _ in network.hosts]
        #: stream -> host -> how many local operators make it
        self.made: defaultdict[int, dict[int, int]] = defaultdict(dict)
        #: stream -> host -> how many local operators, receivers and clients use it from there
        self.uses: defaultdict[int, dict[int, int]] = defaultdict(dict)
        #: mean capacities, to compare overdrafts of different resources
        self.typical = tuple(float(a.mean()) if len(a) else 0.0 for a in (network.cpu, network.nic_in, network.nic_out))
        self._journal: list[tuple[Callable[..., None], tuple[int, ...]]] = []

    # -- questions -----------------------------------------------------------------------------------------------
    def origin(self, stream: int, host: int) -> bool:
        """Whether the stream starts at the host: it is a home, or an operator there makes it."""
        return host in self.catalog.streams[stream].homes or host in self.made[stream]

    def holds(self, stream: int, host: int) -> bool:
        """y_hs: the host has the stream from an origin or a sender."""
        return self.origin(stream, host) or host in self.received[stream]

    def holders(self, stream: int) -> set[int]:
        """All hosts that have the stream."""
        return set(self.catalog.streams[stream].homes) | set(self.made[stream]) | set(self.received[stream])

    def receivers(self, stream: int, sender: int) -> list[int]:
        """The hosts that get the stream from this sender."""
        return [host for host, source in self.received[stream].items() if source == sender]

    def can_send(self, stream: int, source: int, target: int) -> bool:
        """Whether one more copy fits out of the source, over the link and into the target."""
        rate = self.catalog.streams[stream].rate - SLACK
        if self.out_free[source] < rate or self.in_free[target] < rate:
            return False
        return self.link_free is None or self.link_free.get((source, target), 0.0) >= rate

    def feeds(self, stream: int, ancestor: int, host: int) -> bool:
        """Whether the host's copy of the stream comes, through however many relays, from the ancestor."""
        sources = self.received[stream]
        while host in sources and not self.origin(stream, host):
            host = sources[host]
            if host == ancestor:
                return True
        return False

    def overdrawn(self) -> Iterator[tuple[str, int, int, float]]:
        """Resources in the red: (kind, host, other host of a link or -1, amount)."""
        for kind, free in (("cpu", self.cpu_free), ("nic_in", self.in_free), ("nic_out", self.out_free)):
            for host in np.flatnonzero(free < -SLACK):
                yield kind, int(host), -1, float(-free[host])
        for (source, target), left in (self.link_free or {}).items():
            if left < -SLACK:
                yield "link", source, target, -left

    def fits(self) -> bool:
        """Whether no resource is overdrawn."""
        return next(self.overdrawn(), None) is None

    def snapshot(self) -> LedgerSnapshot:
        """The state as plain sets, for checkers, models and reports."""
        return LedgerSnapshot(
            frozenset((host, stream) for stream, host in self.served.items()),
            frozenset((g, m, s) for s, sources in self.received.items() for m, g in sources.items()),
            frozenset((host, operator) for operator, hosts in self.placed.items() for host in hosts),
        )

    # -- undo ----------------------------------------------------------------------------------------------------
    def mark(self) -> int:
        """A point to come back to."""
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Undo everything since the mark."""
        while len(self._journal) > mark:
            undo, arguments = self._journal.pop()
            undo(*arguments)
            self._journal.pop()

    def forget(self) -> None:
        """Keep what was done; earlier marks are void."""
        self._journal.clear()

    # -- the six primitives --------------------------------------------------------------------------------------
    def place(self, operator: int, host: int) -> None:
        """Run an operator on a host."""
        what = self.catalog.operators[operator]
        self.cpu_free[host] -= what.cpu
        self.placed[operator].add(host)
        self.running[host].add(operator)
        self.made[what.output][host] = self.made[what.output].get(host, 0) + 1
        for stream in what.inputs:
            self._use(stream, host, 1)
        self._journal.append((self.unplace, (operator, host)))

    def unplace(self, operator: int, host: int) -> None:
        """Stop an operator."""
        what = self.catalog.operators[operator]
        self.cpu_free[host] += what.cpu
        self.placed[operator].remove(host)
        self.running[host].remove(operator)
        self.made[what.output][host] -= 1
        if not self.made[what.output][host]:
            del self.made[what.output][host]
        for stream in what.inputs:
            self._use(stream, host, -1)
        self._journal.append((self.place, (operator, host)))

    def receive(self, stream: int, host: int, sender: int) -> None:
        """Let a host receive a stream."""
        self._transfer(stream, host, sender, 1)
        self.received[stream][host] = sender
        self.sending[sender].add((stream, host))
        self.receiving[host].add(stream)
        self._use(stream, sender, 1)
        self._journal.append((self.unreceive, (stream, host)))

    def unreceive(self, stream: int, host: int) -> None:
        """End a transfer."""
        sender = self.received[stream].pop(host)
        self.sending[sender].remove((stream, host))
        self.receiving[host].remove(stream)
        self._transfer(stream, host, sender, -1)
        self._use(stream, sender, -1)
        self._journal.append((self.receive, (stream, host, sender)))

    def serve(self, stream: int, host: int) -> None:
        """Deliver a stream to its clients from a host."""
        self.served[stream] = host
        self.out_free[host] -= self.catalog.streams[stream].rate
        self._use(stream, host, 1)
        self._journal.append((self.unserve, (stream,)))

    def unserve(self, stream: int) -> None:
        """End the delivery."""
        host = self.served.pop(stream)
        self.out_free[host] += self.catalog.streams[stream].rate
        self._use(stream, host, -1)
        self._journal.append((self.serve, (stream, host)))

    # -- built from them -----------------------------------------------------------------------------------------
    def resource(self, stream: int, host: int, sender: int) -> None:
        """Let a host receive the stream from another sender than now."""
        old = self.received[stream][host]
        self.unreceive(stream, host)
        self.receive(stream, host, sender)
        self.release(stream, old)

    def release(self, stream: int, host: int) -> None:
        """Drop the host's copy of a stream that is unused, and then whatever was there only for it."""
        if self.uses[stream].get(host, 0):
            if host in self.received[stream] and self.origin(stream, host):
                self._end_transfer(stream, host)
            return
        if host in self.received[stream]:
            self._end_transfer(stream, host)
        for operator in [o for o in self.catalog.makers[stream] if host in self.placed[o]]:
            self.unplace(operator, host)
            for needed in self.catalog.operators[operator].inputs:
                self.release(needed, host)

    def withdraw(self, stream: int) -> None:
        """Stop serving a stream and drop all that only it needed."""
        host = self.served[stream]
        self.unserve(stream)
        self.release(stream, host)

    def _end_transfer(self, stream: int, host: int) -> None:
        sender = self.received[stream][host]
        self.unreceive(stream, host)
        self.release(stream, sender)

    def _use(self, stream: int, host: int, change: int) -> None:
        uses = self.uses[stream]
        uses[host] = uses.get(host, 0) + change
        if not uses[host]:
            del uses[host]

    def _transfer(self, stream: int, host: int, sender: int, sign: int) -> None:
        rate = sign * self.catalog.streams[stream].rate
        self.out_free[sender] -= rate
        self.in_free[host] -= rate
        if self.link_free is not None:
            self.link_free[sender, host] = self.link_free.get((sender, host), 0.0) - rate
