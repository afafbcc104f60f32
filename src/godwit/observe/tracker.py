"""The chronicle: what the regions' commits add to the stories of reconfigurations that the control plane tells.

    acknowledge   from the first row published until every region works under the last epoch of the reconfiguration
    state         until the last of the moved state is part of its new owner's commit, with the bytes of each

A story is written when the control plane tells it, and once more when it is complete; readers take the newest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from godwit.control.reconfigurations import StateMoved, Story
from godwit.ids import Epoch, OperatorId
from godwit.model.deployment import Deployment, instance_id
from godwit.observe.history import History
from godwit.protocol.handover import Move
from godwit.storage.log import Record

if TYPE_CHECKING:
    from godwit.region.runner import Runner

#: stories that wait for a region for ever (it may be gone) are given up when so many newer ones are there
MOST = 1000


@dataclass(frozen=True)
class _Published:
    """One epoch of a reconfiguration: its number in the control plane, and what it changed."""

    epoch: Epoch
    before: Deployment
    after: Deployment
    wall: float

    def moves(self, instance: OperatorId) -> bool:
        """Whether the instance goes to another region."""
        regions = []
        for deployment in (self.before, self.after):
            node = deployment.placement.get(instance)
            regions.append(None if node is None else deployment.region_of(node))
        return None not in regions and regions[0] != regions[1]


@dataclass
class _Open:
    story: Story
    #: the control log's epochs -> the control plane's
    epochs: dict[int, Epoch]
    published: float
    #: instances whose state has not come yet
    due: set[OperatorId] = field(default_factory=set)
    acknowledged: bool = False


class ReconfigurationTracker:
    """Told of every story and of every commit, from any thread."""

    def __init__(
        self,
        history: History,
        runners: Callable[[], Iterable[Runner]],
        handed_over: Callable[[OperatorId, Epoch], None],
    ) -> None:
        self._history, self._runners, self._handed_over = history, runners, handed_over
        self._before = max((record["number"] for record in history.read()), default=0)
        self._published: list[_Published] = []
        self._open: dict[int, _Open] = {}
        #: (epoch, instance) -> bytes that its old owner sent
        self._sent: dict[tuple[int, OperatorId], int] = {}
        self._lock = threading.Lock()

    def published(self, epoch: Epoch, before: Deployment, after: Deployment) -> None:
        """The control log has an epoch of the reconfiguration that is under way."""
        self._published.append(_Published(epoch, before, after, time.time()))

    def tell(self, story: Story) -> None:
        """The control plane is done with a reconfiguration; state that changes region is still to come."""
        published, self._published = self._published, []
        story = replace(story, number=self._before + story.number)  # this process has counted from 1 again
        due = {m.instance for m in story.migrations if any(one.moves(m.instance) for one in published)}
        here = [m.instance for m in story.migrations if m.instance not in due]
        for instance in here:  # the region's log is as good at one of its sites as at another
            story = story.with_state(instance, 0, 0.0)
        story = replace(story, migrations=tuple(map(_survived, story.migrations)))
        self._history.add(story)
        if not published:
            return
        epochs = {int(one.after.epoch): one.epoch for one in published}
        with self._lock:
            self._open[story.number] = _Open(story, epochs, published[0].wall, due)
            for number in sorted(self._open)[:-MOST]:
                del self._open[number]
        for instance in here:
            self._handed_over(instance, published[-1].epoch)

    def committed(self, runner: Runner, number: int, record: Record) -> None:
        """A region has committed."""
        if not self._open:
            return
        for parcel in record["handovers"]:
            move = Move.from_json(parcel["move"])
            size = sum(s["bytes"] for part in parcel["parts"].values() for s in part)
            self._sent[int(move.epoch), instance_id(move.query, move.operator)] = size
        for told in record["arrived"]:
            self._arrived(Move.from_json(told), record["metrics"]["wall"])
        self.look()

    def look(self) -> None:
        """Complete the stories whose regions have all acknowledged and whose state has all come."""
        with self._lock:
            for number, one in list(self._open.items()):
                if not one.acknowledged:
                    self._acknowledge(one)
                if one.acknowledged and not one.due:
                    del self._open[number]
                    self._history.add(one.story)

    def _acknowledge(self, one: _Open) -> None:
        last = max(one.epochs, default=0)
        since = [runner.working_since(last) for runner in self._runners()]
        if all(moment is not None for moment in since):
            at = max((moment for moment in since if moment is not None), default=one.published)
            one.story = one.story.timed("acknowledge", max(at - one.published, 0.0))
            one.acknowledged = True

    def _arrived(self, move: Move, wall: float) -> None:
        instance, epoch = instance_id(move.query, move.operator), int(move.epoch)
        with self._lock:
            found = next((one for one in self._open.values() if epoch in one.epochs and instance in one.due), None)
            if found is None:
                return
            took = max(wall - found.published, 0.0)
            story = found.story.with_state(instance, self._sent.pop((epoch, instance), 0), took)
            found.due.discard(instance)
            found.story = story.timed("state", max(took - story.phases.get("state", 0.0), 0.0))
        self._handed_over(instance, found.epochs[epoch])


def _survived(moved: StateMoved) -> StateMoved:
    """A failed site takes no state with it: its region's log has it, and hands it over."""
    return moved if moved.source is not None else replace(moved, step="from its region's log, site")
