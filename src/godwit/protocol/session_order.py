"""Rows of a device come out in the order in which it sent them, also across a hand-over. Pure; the runtime and the
simulator both run it.

Where results come with the watermark nothing has to be done: it waits for the oldest session. Where each row is
answered as it comes, a device's rows could overtake those of its session before, which lie in a region that is slow or
down. So the region of the new session keeps them, with the source's own marks, until it has heard that the session
before is over: that is said in the commit that has processed its last row. Other devices' rows pass.

Whoever gathers the results may hear the old region later than the new one. So the message of a commit that ends a
session says which message each of the others gets of the same commit, and the new region tells its readers to take that
one in first (`behind`).

Both are judged by what was known before a micro-batch, so that what must come first is in a commit before.

Where the sink of a query changes its region (`handover.sinks_between`):
- its new region keeps rows that were routed to it until the old one is drained up to the epoch of the move: it has
  committed its last result then;
- rows that have crossed regions once do not go on to the new sink, but leave where they are: there they are in order;
- in one micro-batch rows leave in the order of the epochs that they were routed by (`in_turn`), for an operator that
  was placed elsewhere meanwhile makes them come on another way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from godwit.ids import Epoch, RegionId
from godwit.model.plan import Plan
from godwit.protocol.watermarks import Mark, WatermarkTracker

R = TypeVar("R")
#: column of rows that came from another region: the epoch that they were routed by
ROUTED = "__routed"
#: (scan, source, session)
Session = tuple[int, str, int]


def keeps_order(plan: Plan) -> bool:
    """Whether results come as rows do, without a watermark, and in the order of each device's rows."""
    return plan.sink.ordered and not plan.stateful


def in_turn(found: Iterable[tuple[Epoch, R]]) -> list[tuple[Epoch, R]]:
    """What reaches a sink in one micro-batch, with the epoch that it was routed by, as it leaves: under each epoch rows
    of a device come on one way, and the way of an older one may be longer."""
    return sorted(found, key=lambda one: one[0])


class SessionOrder:
    """The sessions whose rows wait in one region, for one shape."""

    def __init__(
        self,
        plan: Plan,
        book: WatermarkTracker,
        held: Mapping[Session, Mark],
        behind: Mapping[tuple[RegionId, RegionId], int],
    ) -> None:
        self.applies = keeps_order(plan)
        #: whether there is no query
        self.idle = False
        self._book = book
        #: the sessions that wait -> what their source has said in the meantime
        self.held = dict(held)
        #: (receiver, peer) -> the peer's message that the receiver must take in before the next of ours
        self.behind = dict(behind)
        #: peer -> its commit that was heard of since our last one (`delivery_order.py`)
        self._heard: dict[RegionId, int] = {}

    def waits(self, scan: int, source: str, session: int) -> bool:
        """Whether an earlier session may have rows that are not processed."""
        oldest = self._book.mark(scan, source) if self.applies and not self.idle else None
        return oldest is not None and oldest.session < session and not oldest.over

    def due(self) -> list[Session]:
        """Sessions that have waited and may go on, older ones first."""
        return sorted((key for key in self.held if not self.waits(*key)), key=lambda key: key[2])

    def hold(self, scan: int, source: str, mark: Mark) -> None:
        key = (scan, source, mark.session)
        self.held[key] = self.held[key].joined(mark) if key in self.held else mark

    def ended(self, peer: RegionId, numbers: Mapping[RegionId, int]) -> None:
        """A session that goes on here is over in a peer, which told the others with these messages."""
        for receiver, number in numbers.items():
            self.behind[receiver, peer] = max(self.behind.get((receiver, peer), 0), number)

    def tell(self, receiver: RegionId) -> dict[RegionId, int]:
        """What a message to a receiver comes behind; what is sent later comes behind the message."""
        told = {peer: number for (to, peer), number in self.behind.items() if to == receiver}
        for peer in told:
            del self.behind[receiver, peer]
        return told

    def hear(self, commits: Mapping[RegionId, int]) -> None:
        """Messages of other regions' commits were taken in."""
        self._heard |= commits

    def committed(self) -> dict[RegionId, int]:
        """Which commits of others a sink must have before ours: not only what this micro-batch took in, for one that
        makes no commit has read on, too."""
        told, self._heard = self._heard, {}
        return told
