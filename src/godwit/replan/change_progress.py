"""What a change of plan that is under way can do next, as the regions' kernels say. Pure; runtime and simulator ask.

one switch      the new version takes rows and state over ── RETIRE the old one
side by side    a version that runs both plans takes over ── RETIRE the old one ── SWITCH to the new plan alone
                (background: at once; parallel-track: when no old row is left) ── RETIRE the one with both
windows run out as side by side, but rows wait in front of the new box: when no old row is left, RELEASE them first
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum

from godwit.ids import Epoch
from godwit.model.deployment import Deployment
from godwit.model.plan import Query
from godwit.protocol.kernel import RegionKernel
from godwit.protocol.watermarks import NEVER
from godwit.replan.tracks import answers, old_root, reach_us, runs_both


class NextStep(Enum):
    RELEASE = "release"
    RETIRE = "retire"
    SWITCH = "switch"


@dataclass(frozen=True)
class ChangeProgress:
    deployment: Deployment
    #: of a shape, by its key: those that run it
    kernels: Callable[[str], Collection[RegionKernel]]
    #: of a version that runs both plans: the time of the newest row that the old one had when it began; None: unknown
    newest_us: Callable[[Query], int | None]
    #: of a version that lets windows run out: whether rows go into the new box by now
    released: Callable[[Query], bool]

    def next(self, version: Query) -> NextStep | None:
        """What can be done for a version; None: nothing now."""
        old = self.before(version)
        both = runs_both(version.shape.plan)
        if old is not None:
            if both and answers(version.shape.plan) == "later" and not self.released(version):
                return NextStep.RELEASE if self._only_new_rows(version) else None
            return NextStep.RETIRE if old.until and self._taken_over(old, version) else None
        if not both or version.until or self.deployment.suspended(version.id):
            return None
        if answers(version.shape.plan) == "by age" and not self._only_new_rows(version):
            return None
        return NextStep.SWITCH

    def before(self, version: Query) -> Query | None:
        """The version that another one goes on with, as long as it is there."""
        return None if version.inherits is None else self.deployment.queries.get(version.inherits)

    def _taken_over(self, old: Query, new: Query) -> bool:
        """Whether the new version has all state, and the old one's last results are committed."""
        since = Epoch(old.until)
        ours, theirs = list(self.kernels(new.shape.key)), list(self.kernels(old.shape.key))
        if not ours or any(kernel.deployment.epoch < since for kernel in (*ours, *theirs)):
            return False
        if any(move.query == new.id and move.inherits for kernel in ours for move in list(kernel.moves.incoming)):
            return False
        sink = len(old.shape.plan.operators) - 1
        return all(kernel.published.get(sink, Epoch(0)) >= since for kernel in theirs)

    def _only_new_rows(self, version: Query) -> bool:
        """Whether no result to come can have a row from before the two plans ran side by side: rows to come are past
        the newest of those by more than any result spans."""
        newest = self.newest_us(version)
        root = old_root(version.shape.plan)
        clocks = [k.released.get(root, {}).get(version.id, NEVER) for k in self.kernels(version.shape.key)]
        return newest is not None and max(clocks, default=NEVER) > newest + 2 * reach_us(version.shape.plan)
