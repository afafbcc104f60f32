"""A plan as a tree, with what is shared: one value for JSON, the terminal and tests."""

from __future__ import annotations

from dataclasses import dataclass

from godwit.admission.state import AllocationLedger


@dataclass(frozen=True)
class PlanNode:
    """A stream at a host, how it gets there, and below it where that comes from."""

    stream: str
    host: str
    #: home, made or received
    way: str
    #: kind of the operator, or the sender
    by: str
    #: CPU of the operator, or rate of the transfer
    amount: float
    #: admitted queries whose plans use this stream at this host, the asking one left out
    shared_with: tuple[str, ...]
    inputs: tuple[PlanNode, ...]

    def text(self) -> str:
        """One line."""
        shared = f"  [shared with {', '.join(self.shared_with)}]" if self.shared_with else ""
        if self.way == "home":
            return f"{self.stream}  at home on {self.host}{shared}"
        if self.way == "made":
            return f"{self.stream}  {self.by} on {self.host}, CPU {self.amount:.4g}{shared}"
        return f"{self.stream}  {self.by} -> {self.host}, rate {self.amount:.4g}{shared}"

    def lines(self, indent: str = "") -> list[str]:
        """The whole tree as text."""
        rows = [indent + self.text()]
        for node in self.inputs:
            rows += node.lines(indent + "  ")
        return rows


def tree(ledger: AllocationLedger, stream: int, users: dict[tuple[int, int], tuple[str, ...]]) -> PlanNode:
    """The plan of a served stream; `users` says who else uses a stream at a host."""
    return _node(ledger, stream, ledger.served[stream], users)


def users_of(ledger: AllocationLedger, queries: dict[str, int]) -> dict[tuple[int, int], tuple[str, ...]]:
    """(stream, host) -> names of the queries whose plans pass there."""
    found: dict[tuple[int, int], list[str]] = {}
    for name, result in queries.items():
        stack = [(result, ledger.served[result])]
        while stack:
            place = stack.pop()
            names = found.setdefault(place, [])
            if name not in names:
                names.append(name)
                stack += _sources(ledger, *place)
    return {place: tuple(names) for place, names in found.items()}


def _sources(ledger: AllocationLedger, stream: int, host: int) -> list[tuple[int, int]]:
    if host in ledger.catalog.streams[stream].homes:
        return []
    if host in ledger.made[stream]:
        return [(s, host) for s in ledger.catalog.operators[_maker(ledger, stream, host)].inputs]
    return [(stream, ledger.received[stream][host])]


def _maker(ledger: AllocationLedger, stream: int, host: int) -> int:
    return next(o for o in ledger.catalog.makers[stream] if host in ledger.placed[o])


def _node(ledger: AllocationLedger, stream: int, host: int, users: dict[tuple[int, int], tuple[str, ...]]) -> PlanNode:
    what, hosts = ledger.catalog.streams[stream], ledger.network.hosts
    below = tuple(_node(ledger, s, h, users) for s, h in _sources(ledger, stream, host))
    shared = users.get((stream, host), ())
    if host in what.homes:
        return PlanNode(what.signature, hosts[host].id, "home", "", what.rate, (), below)
    if host in ledger.made[stream]:
        operator = ledger.catalog.operators[_maker(ledger, stream, host)]
        return PlanNode(what.signature, hosts[host].id, "made", operator.kind, operator.cpu, shared, below)
    sender = hosts[ledger.received[stream][host]].id
    return PlanNode(what.signature, hosts[host].id, "received", sender, what.rate, shared, below)
