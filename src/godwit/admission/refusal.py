"""Why a query does not fit, and the smallest addition found that would make it fit.

First the reasons no capacity can cure (no host at all, a base stream without a home). Then the dynamic programme
plans with overdrafts allowed but dear, repair moves cure what they can, and what is still in the red is short: so
much at that host or link. With exactly that much more, that very plan fits. Of several such plans the one that lacks
least is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from godwit.admission.dp import Floats
from godwit.admission.model import SLACK, AdmissionQuery
from godwit.admission.proposal import PENALTY, QueryArrays, propose
from godwit.admission.repair import repair
from godwit.admission.state import AllocationLedger

_FIELDS = {"cpu": "cpu", "nic_in": "nic_in", "nic_out": "nic_out"}
_WORDS = {"cpu": "CPU", "nic_in": "incoming bandwidth", "nic_out": "outgoing bandwidth", "link": "link bandwidth"}


@dataclass(frozen=True)
class Addition:
    """So much more of one resource, at one host or link."""

    resource: str
    host: str
    amount: float
    #: the other end, for a link
    target: str | None = None

    def __str__(self) -> str:
        where = f"'{self.host}'" if self.target is None else f"'{self.host}' -> '{self.target}'"
        return f"{self.amount:.6g} more {_WORDS[self.resource]} at {where}"


@dataclass(frozen=True)
class Shortage:
    """What is short, in words and values; empty additions mean that no capacity helps."""

    reason: str
    additions: tuple[Addition, ...] = ()


def explain(ledger: AllocationLedger, query: AdmissionQuery, price: Floats) -> Shortage:
    """Say why no plan was found. The ledger is left as it was."""
    missing = _unreachable(ledger, query)
    if missing:
        return Shortage(missing)
    candidates = [found for penalty in _PENALTIES if (found := _overdrawn(ledger, query, price, penalty))]
    if not candidates:
        return Shortage("no host can be reached over the links from the homes of the base streams: add a link")
    best = min(candidates, key=lambda additions: sum(_relative(ledger, a) for a in additions))
    return Shortage(
        "not enough " + _and([_WORDS[a.resource] for a in best]) + ": " + _and([str(a) for a in best]), best
    )


#: a plan that spreads its overdraft, and one that concentrates it
_PENALTIES = (PENALTY, 10.0, 1e-3)


def overload(ledger: AllocationLedger) -> Shortage:
    """What the running plan overdraws, as it stands."""
    additions = _additions(ledger)
    if not additions:
        return Shortage("nothing is overdrawn")
    return Shortage("overdrawn: " + _and([str(a) for a in additions]) + " would do", additions)


def _unreachable(ledger: AllocationLedger, query: AdmissionQuery) -> str | None:
    """Base streams that no host has: no capacity can help."""
    catalog = ledger.catalog
    lost = [
        catalog.streams[s].signature
        for s in query.streams
        if not catalog.streams[s].homes and not any(o in query.operators for o in catalog.makers[s])
    ]
    if not len(ledger.network):
        return "there is no host: add one"
    if not lost:
        return None
    return f"base stream {_and([repr(name) for name in lost])} has no home: let it enter at some host"


def _overdrawn(ledger: AllocationLedger, query: AdmissionQuery, price: Floats, penalty: float) -> tuple[Addition, ...]:
    """The overdrafts of a soft plan, after repairs have cured what can be cured."""
    mark = ledger.mark()
    shape = QueryArrays.of(ledger.catalog, query)
    additions: tuple[Addition, ...] = ()
    if np.isfinite(propose(ledger, query, shape, price, penalty)):
        repair(ledger)
        additions = _additions(ledger)
    ledger.rollback(mark)
    return additions


def _additions(ledger: AllocationLedger) -> tuple[Addition, ...]:
    hosts = ledger.network.hosts
    return tuple(
        Addition(kind, hosts[host].id, amount + SLACK, None if other < 0 else hosts[other].id)
        for kind, host, other, amount in ledger.overdrawn()
    )


def _relative(ledger: AllocationLedger, addition: Addition) -> float:
    """How large an addition is beside a typical host."""
    typical = ledger.typical[0] if addition.resource == "cpu" else ledger.typical[1]
    return addition.amount / max(typical, SLACK)


def _and(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    return ", ".join(unique[:-1]) + (" and " if len(unique) > 1 else "") + unique[-1]
