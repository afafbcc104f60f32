"""Where versions of queries part in a region's source logs, as its own process has drawn the line.

An embedded fleet has one lock for epochs and rows, so the epoch's record says where the logs ended. Where regions are
processes, rows come in while the coordinator writes: each region draws its line itself, when it first hears of the
epoch and before any of its runners does. What a runner has read by then lies before the line.
"""

from __future__ import annotations

from collections.abc import Mapping

from godwit.ids import RegionId, StreamId
from godwit.storage.names import plan_lines
from godwit.storage.store import Store


def draw_line(store: Store, region: RegionId, epoch: int, ends: Mapping[StreamId, int], oldest: int) -> None:
    """Once: an epoch that is followed again, after a crash, has the line that it had. Those before `oldest` go."""
    known = store.get_document(plan_lines(region)) or {}
    if str(epoch) not in known:
        kept = {number: line for number, line in known.items() if int(number) >= oldest}
        store.put_document(plan_lines(region), {**kept, str(epoch): dict(ends)})


def line_drawn(store: Store, region: str, stream: str, epoch: int) -> int | None:
    """None: the epoch's record says it."""
    line = (store.get_document(plan_lines(region)) or {}).get(str(epoch), {})
    found: int | None = line.get(stream)
    return found
