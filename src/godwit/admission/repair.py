"""Repair moves: bring a ledger with overdrawn resources back into its limits, or say that it cannot be done.

CPU short at a host: move an operator away, or swap two. NIC out short: let a receiver take the stream from another
holder (re-source), or move the operator that needs it to where the stream is. NIC in or a link short: move the
operator away. A move is kept if it lowers the total overdraft; the cheapest of those that help most wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import numpy as np

from godwit.admission.model import SLACK
from godwit.admission.moves import move_operator
from godwit.admission.state import AllocationLedger

Move = Callable[[AllocationLedger], bool]

#: candidate targets an operator, and candidate moves a step: more find little and cost time
TARGETS = 6
CANDIDATES = 60


def overdraft(ledger: AllocationLedger) -> float:
    """How far in the red the ledger is, each resource relative to a host's average capacity."""
    total = 0.0
    for free, typical in zip((ledger.cpu_free, ledger.in_free, ledger.out_free), ledger.typical, strict=True):
        if free.min() < -SLACK:
            total -= float(free[free < -SLACK].sum()) / max(typical, SLACK)
    if ledger.link_free is not None:
        total += sum(-left for left in ledger.link_free.values() if left < -SLACK) / max(ledger.typical[1], SLACK)
    return total


def repair(ledger: AllocationLedger, steps: int = 8) -> bool:
    """Repair within a number of moves. On failure the ledger is left as it is: the caller rolls back."""
    for _ in range(steps):
        worst = max(ledger.overdrawn(), key=lambda short: short[3], default=None)
        if worst is None:
            return True
        if not _improve(ledger, worst):
            return False
    return ledger.fits()


def _improve(ledger: AllocationLedger, short: tuple[str, int, int, float]) -> bool:
    """Try candidate moves and keep the best; a move that cures everything is taken at once."""
    before = overdraft(ledger)
    best: tuple[float, Move] | None = None
    mark = ledger.mark()
    for move in islice(_candidates(ledger, short), CANDIDATES):
        if move(ledger):
            after = overdraft(ledger)
            if after <= 0.0:
                return True
            if after < before - 1e-9 and (best is None or after < best[0]):
                best = (after, move)
        ledger.rollback(mark)
    return best is not None and best[1](ledger)


def _candidates(ledger: AllocationLedger, short: tuple[str, int, int, float]) -> Iterator[Move]:
    kind, host, other, amount = short
    if kind == "cpu":
        yield from _relieve_cpu(ledger, host, amount)
        yield from _swap_cpu(ledger, host, amount)
    elif kind == "nic_out":
        yield from _resource(ledger, host)
        yield from _relieve_out(ledger, host)
    elif kind == "nic_in":
        yield from _relieve_in(ledger, host)
    else:
        yield from _relieve_link(ledger, host, other)


def _relieve_cpu(ledger: AllocationLedger, host: int, amount: float) -> Iterator[Move]:
    """Operators just large enough first, then the smaller ones, largest first."""
    operators = ledger.catalog.operators
    here = sorted(
        ledger.running[host], key=lambda o: (operators[o].cpu < amount - SLACK, abs(operators[o].cpu - amount), o)
    )
    for operator in here:
        if operators[operator].cpu > SLACK:
            yield from _moves_of(ledger, operator, host)


def _moves_of(ledger: AllocationLedger, operator: int, host: int) -> Iterator[Move]:
    for target in targets(ledger, operator, host):
        yield partial(move_operator, operator=operator, source=host, target=target)


def targets(ledger: AllocationLedger, operator: int, host: int) -> list[int]:
    """Hosts with CPU for the operator, those first that must receive least for it and have room to receive it."""
    what = ledger.catalog.operators[operator]
    fits = ledger.cpu_free >= what.cpu - SLACK
    fits[host] = False
    if not fits.any():
        return []
    missing = np.zeros(len(ledger.network))
    for stream in what.inputs:
        lacks = np.ones(len(ledger.network), dtype=bool)
        lacks[list(ledger.holders(stream))] = False
        missing[lacks] += ledger.catalog.streams[stream].rate
    order = np.lexsort((ledger.cpu_free, missing, missing > ledger.in_free + SLACK))
    return [int(g) for g in order if fits[g]][:TARGETS]


def _swap_cpu(ledger: AllocationLedger, host: int, amount: float) -> Iterator[Move]:
    """A larger operator from here against a smaller one from there."""
    operators = ledger.catalog.operators
    for there in np.argsort(-ledger.cpu_free)[:TARGETS]:
        for mine in sorted(ledger.running[host], key=lambda o: (-operators[o].cpu, o)):
            for theirs in sorted(ledger.running[there], key=lambda o: (operators[o].cpu, o)):
                gain = operators[mine].cpu - operators[theirs].cpu
                if there != host and gain >= amount - SLACK and ledger.cpu_free[there] >= gain - SLACK:
                    yield partial(_swap, mine=mine, theirs=theirs, host=host, there=int(there))
                    break


def _swap(ledger: AllocationLedger, mine: int, theirs: int, host: int, there: int) -> bool:
    return move_operator(ledger, mine, host, there) and (
        host in ledger.placed[theirs]
        or there not in ledger.placed[theirs]
        or move_operator(ledger, theirs, there, host)
    )


def _outgoing(ledger: AllocationLedger, host: int) -> list[tuple[int, int]]:
    """(stream, receiver) of all transfers from a host, large ones first."""
    return sorted(ledger.sending[host], key=lambda pair: (-ledger.catalog.streams[pair[0]].rate, pair))


def _resource(ledger: AllocationLedger, host: int) -> Iterator[Move]:
    for stream, receiver in _outgoing(ledger, host):
        for sender in sorted(ledger.holders(stream), key=lambda g: (-ledger.out_free[g], g)):
            if sender in (host, receiver) or ledger.feeds(stream, receiver, sender):
                continue
            if ledger.out_free[sender] < ledger.catalog.streams[stream].rate - SLACK:
                break
            if ledger.link_free is None or ledger.can_send(stream, sender, receiver):
                yield partial(_switch, stream=stream, receiver=receiver, sender=sender)
                break


def _switch(ledger: AllocationLedger, stream: int, receiver: int, sender: int) -> bool:
    ledger.resource(stream, receiver, sender)
    return True


def _relieve_out(ledger: AllocationLedger, host: int) -> Iterator[Move]:
    """The operator that makes a receiver need the stream goes to where the stream is."""
    for stream, receiver in _outgoing(ledger, host):
        yield from _move_users(ledger, stream, receiver)


def _move_users(ledger: AllocationLedger, stream: int, host: int) -> Iterator[Move]:
    users = [o for o in ledger.running[host] if stream in ledger.catalog.operators[o].inputs]
    if len(users) == 1 and ledger.uses[stream].get(host, 0) == 1:
        yield from _moves_of(ledger, users[0], host)


def _relieve_in(ledger: AllocationLedger, host: int) -> Iterator[Move]:
    for stream in sorted(ledger.receiving[host], key=lambda s: (-ledger.catalog.streams[s].rate, s)):
        yield from _move_users(ledger, stream, host)


def _relieve_link(ledger: AllocationLedger, source: int, target: int) -> Iterator[Move]:
    crossing = [s for s, receiver in ledger.sending[source] if receiver == target]
    for stream in sorted(crossing, key=lambda s: (-ledger.catalog.streams[s].rate, s)):
        for sender in sorted(ledger.holders(stream) - {source, target}):
            if not ledger.feeds(stream, target, sender) and ledger.can_send(stream, sender, target):
                yield partial(_switch, stream=stream, receiver=target, sender=sender)
        yield from _move_users(ledger, stream, target)
