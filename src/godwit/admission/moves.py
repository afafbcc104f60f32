"""Moves on a ledger: bring a stream to a host, move an operator. They may overdraw; the caller looks and rolls back."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from godwit.admission.model import SLACK
from godwit.admission.state import AllocationLedger


def bring(ledger: AllocationLedger, stream: int, host: int) -> bool:
    """Make the host hold the stream, from the holder with most room, through relays where links are few."""
    if ledger.holds(stream, host):
        return True
    path = _direct(ledger, stream, host) if ledger.link_free is None else _relayed(ledger, stream, host)
    if not path:
        return False
    for sender, receiver in pairwise(path):
        ledger.receive(stream, receiver, sender)
    return True


def _direct(ledger: AllocationLedger, stream: int, host: int) -> list[int]:
    holders = ledger.holders(stream)
    return [max(holders, key=lambda g: (ledger.out_free[g], -g)), host] if holders else []


def _relayed(ledger: AllocationLedger, stream: int, host: int) -> list[int]:
    """A shortest path from a holder over links with room; breadth first, backwards from the host."""
    assert ledger.link_free is not None
    rate = ledger.catalog.streams[stream].rate
    holders = ledger.holders(stream)
    into: dict[int, list[int]] = {}
    for (source, target), free in ledger.link_free.items():
        if free >= rate - SLACK:
            into.setdefault(target, []).append(source)
    next_hop = {host: -1}
    queue = deque([host])
    while queue:
        here = queue.popleft()
        if here in holders:
            path = [here]
            while next_hop[path[-1]] >= 0:
                path.append(next_hop[path[-1]])
            return path
        for source in into.get(here, []):
            if source not in next_hop:
                next_hop[source] = here
                queue.append(source)
    return []


def move_operator(ledger: AllocationLedger, operator: int, source: int, target: int) -> bool:
    """Run an operator on another host; its consumers follow, and what it alone needed at the old host is dropped."""
    what = ledger.catalog.operators[operator]
    if target in ledger.placed[operator]:
        return False
    mark = ledger.mark()
    if not all(bring(ledger, stream, target) for stream in what.inputs):
        ledger.rollback(mark)
        return False
    ledger.place(operator, target)
    if target in ledger.received[what.output]:
        sender = ledger.received[what.output][target]
        ledger.unreceive(what.output, target)
        if sender != source:
            ledger.release(what.output, sender)
    if source in ledger.placed[operator]:  # a relay that fed the target may have been its last user
        ledger.unplace(operator, source)
    if not _hand_over(ledger, what.output, source, target):
        ledger.rollback(mark)
        return False
    for stream in what.inputs:
        ledger.release(stream, source)
    return True


def _hand_over(ledger: AllocationLedger, stream: int, source: int, target: int) -> bool:
    """The target makes the stream now: serve and send it from there; the source gets it back if it still needs it."""
    if not ledger.origin(stream, source) and source not in ledger.received[stream]:
        if ledger.served.get(stream) == source:
            ledger.unserve(stream)
            ledger.serve(stream, target)
        if ledger.link_free is None:
            for receiver in ledger.receivers(stream, source):
                ledger.unreceive(stream, receiver)
                ledger.receive(stream, receiver, target)
        if ledger.uses[stream].get(source, 0) and not bring_back(ledger, stream, source):
            return False
    ledger.release(stream, source)
    return True


def bring_back(ledger: AllocationLedger, stream: int, host: int) -> bool:
    """Give a host that lost its own production a copy from elsewhere, never from one it feeds itself."""
    rate = ledger.catalog.streams[stream].rate
    others = [g for g in ledger.holders(stream) if g != host and not ledger.feeds(stream, host, g)]
    if ledger.link_free is not None:
        others = [g for g in others if ledger.link_free.get((g, host), 0.0) >= rate - SLACK]
    if not others:
        return False
    ledger.receive(stream, host, max(others, key=lambda g: (ledger.out_free[g], -g)))
    return True
