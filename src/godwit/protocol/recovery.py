"""Where a kernel begins: at the first start of a shape in a region, and after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from godwit.ids import Epoch, RegionId
from godwit.model.deployment import Deployment
from godwit.model.plan import Shape
from godwit.protocol.inputs import CONTROL, InputLogs, scan_log
from godwit.protocol.kernel import RegionKernel
from godwit.protocol.memory import Snapshot

#: past every epoch
ALL = Epoch(2**62)


def begin(region: RegionId, shape: Shape, logs: InputLogs[Any]) -> RegionKernel:
    """The first start of a shape in a region, with the epoch that brought its first query.

    That epoch is taken in by the first micro-batch, like any other. Sources are read from where their logs stood when
    it was published.
    """
    return RegionKernel(region, shape, *_before_next_query(region, shape, logs, {}, *logs.oldest()))


def recover(
    region: RegionId, shape: Shape, logs: InputLogs[Any], deployment: Deployment, memory: Snapshot, busy: bool = False
) -> RegionKernel:
    """As the last commit left it. `busy`: state is still on its way here.

    If the shape had no query then, what came since was for nobody. So it begins as at its first start, but for what
    other regions have sent already: that was for queries that are gone, and one of the same name must not take it for
    its own. Its own messages are numbered on.
    """
    kernel = RegionKernel(region, shape, deployment, memory)
    if busy or not kernel.unemployed:
        return kernel
    known, (at, oldest) = memory.positions[CONTROL], logs.oldest()
    start = (known, deployment) if known >= at else (at, oldest)
    found, fresh = _before_next_query(region, shape, logs, memory.positions, *start)
    return RegionKernel(region, shape, found, replace(fresh, outbox=memory.outbox))


def _before_next_query(
    region: RegionId, shape: Shape, logs: InputLogs[Any], known: Mapping[str, int], number: int, deployment: Deployment
) -> tuple[Deployment, Snapshot]:
    """Stand before the next epoch that brings a query of the shape, after a known one; sources as they did then."""
    positions = {**known, CONTROL: number}
    for at, change in logs.epochs(number, deployment, ALL):
        if any(True for _ in change.deployment.of_shape(shape.key)):
            for index, scan in shape.plan.scans:
                name, start = scan_log(index, scan), logs.start(at, f"{region}/{scan.stream}")
                positions[name] = max(positions.get(name, 0), start)
            break
        positions[CONTROL], deployment = at, change.deployment
    return deployment, Snapshot(positions)
