"""What a query's rows wait for: a place, their turn behind what their device sent elsewhere before, the sources that
have come least far."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from godwit.model.deployment import Deployment
from godwit.model.plan import Query, Scan
from godwit.protocol.memory import Snapshot
from godwit.protocol.watermarks import NEVER, Mark, WatermarkTracker, source_id

#: number of the slowest that are named
NAMED = 3


def waits(query: Query, deployment: Deployment, known: Iterable[Snapshot], newest_us: int | None) -> list[str]:
    """In words; none: it waits for nothing. `known`: what each region remembers of the query's shape."""
    if (why := deployment.parked.get(query.id)) is not None:
        return [f"a place: {why}"]
    known = list(known)
    books, slow = [WatermarkTracker(one.marks) for one in known], list[tuple[int, str]]()
    held = sorted({source for one in known for _, source, _ in one.held})
    turns = [f"the end of the session that {source} had in another region" for source in held[:NAMED]]
    turns += [f"and {len(held) - NAMED} other such ends"] if len(held) > NAMED else []
    for operator, node in enumerate(query.shape.plan.operators):
        if not isinstance(node, Scan):
            continue
        for device in deployment.sources_of(query, operator):
            mark = _furthest(books, operator, source_id(node.stream, device))
            clock = NEVER if mark is None else mark.clock
            if mark is not None and (mark.idle or mark.closed or mark.left):
                continue
            if newest_us is None or clock < newest_us:
                slow.append((clock, _told(node.stream, device, clock, newest_us, deployment.devices.get(device))))
    slow.sort()
    rest = [f"and {len(slow) - NAMED} other devices"] if len(slow) > NAMED else []
    return [*turns, *(text for _, text in slow[:NAMED]), *rest]


def _furthest(books: Iterable[WatermarkTracker], operator: int, source: str) -> Mark | None:
    """What the region says that knows most of a source."""
    known = [mark for book in books if (mark := book.mark(operator, source)) is not None]
    return max(known, key=lambda mark: (mark.session, mark.clock), default=None)


def _told(stream: str, device: str, clock: int, newest_us: int | None, site: str | None) -> str:
    where = "" if site is not None else ", which is attached to no site"
    if clock <= NEVER or newest_us is None:
        return f"device '{device}' of {stream}{where}: it has sent nothing yet"
    at = dt.datetime.fromtimestamp(clock / 1e6, dt.UTC).isoformat(timespec="milliseconds")
    return f"device '{device}' of {stream}{where}: at {at}, {(newest_us - clock) / 1e6:.1f} s behind the newest row"
