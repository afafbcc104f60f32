"""Follows reconfigurations from their publication to the last of their state, and writes their records.

    acknowledge   from the first row published until every region works under the last epoch of the reconfiguration
    state         until the last of the moved state is part of its new owner's commit, with the bytes of each

A record is written when its reconfiguration is published, when it ends, and once more when its state has come; readers
take the newest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from godwit.control.events import Publish, Revert
from godwit.control.reconfigurations import ReconfigurationRecord, StateMoved
from godwit.ids import Epoch, QueryId
from godwit.model.instances import InstanceId, instance_id
from godwit.observe.history import History
from godwit.observe.key_phases import phases_of, with_phases, with_state
from godwit.protocol.handover import Migration
from godwit.storage.log import Record

if TYPE_CHECKING:
    from godwit.region.runner import Runner

#: records that wait for state for ever (a region may be gone) are given up once there are this number of newer ones
MOST = 1000


@dataclass
class _Open:
    """A reconfiguration that is not complete."""

    story: ReconfigurationRecord
    #: when it was first published (wall clock)
    published: float
    #: instances whose state has not come yet, and with which epoch they moved
    due: dict[InstanceId, Epoch] = field(default_factory=dict)
    ended: bool = False
    #: state of keys that is on its way for one of its phases
    keys_due: set[Migration] = field(default_factory=set)

    @property
    def waits(self) -> bool:
        return bool(self.due or self.keys_due)


class ReconfigurationTracker:
    """Told of every epoch, of every reconfiguration that ends, and of every commit, from any thread."""

    def __init__(self, history: History, handed_over: Callable[[InstanceId, Epoch], None]) -> None:
        self._history, self._handed_over = history, handed_over
        #: called when state of keys that migrate has come
        self.keys_arrived: Callable[[Migration], None] = lambda move: None
        known = history.read()
        self._before = self._newest = max((record["number"] for record in known), default=0)
        #: query -> the epoch under which it was last found that it cannot be run
        self._failed = {r["queries"][0]: r["epochs"][0] for r in known if r["outcome"] == "failed"}
        self._open: dict[int, _Open] = {}
        #: (epoch, instance) -> bytes that its old owner sent
        self._sent: dict[tuple[int, InstanceId], int] = {}
        #: the same of keys that migrate
        self._key_bytes: dict[Migration, int] = {}
        self._lock = threading.Lock()

    def published(self, told: Publish | Revert, story: ReconfigurationRecord, planned: float, took: float) -> None:
        """An epoch of a reconfiguration is in the control log; the seconds that deciding and publishing it took."""
        moving = {instance_id(move.query, move.operator): told.epoch for move in told.moves if not move.number}
        coming = {move for move in told.moves if move.number and not move.cancel}
        here = [step.instance for step in told.steps if step.instance not in moving]
        with self._lock:
            known = self._open.get(story.number)
            phases = {} if known is None else known.story.phases
            began = time.time() if known is None else known.published
            due = moving if known is None else {**known.due, **moving}
            story = replace(story, phases=phases, migrations=tuple(map(_survived, story.migrations)))
            for instance in here:  # the region's log is as good at one of its sites as at another
                story = story.with_state(instance, 0, 0.0)
                due.pop(instance, None)
            for moved in () if known is None else known.story.migrations:
                if moved.bytes is not None and moved.seconds is not None:
                    story = story.with_state(moved.instance, moved.bytes, moved.seconds)
            earlier = () if known is None else known.story.keys
            story = replace(story, keys=(*earlier, *phases_of(told)))
            one = _Open(story.timed("plan", planned).timed("publish", took), began, due)
            one.keys_due = coming if known is None else known.keys_due | coming
            self._open[story.number] = one
            self._write(self._open[story.number].story)
            for number in sorted(self._open)[:-MOST]:
                del self._open[number]
        for instance in here:
            self._handed_over(instance, told.epoch)

    def ended(self, story: ReconfigurationRecord) -> None:
        """All regions have acknowledged, or it was taken back; state that changes region may still be to come."""
        with self._lock:
            one = self._open.get(story.number)
            if one is None:
                return
            one.story = replace(one.story, outcome=story.outcome, reason=story.reason, parked=story.parked)
            took = max(time.time() - one.published, 0.0)
            one.story = with_phases(one.story.timed("acknowledge", took), took)
            one.ended = True
            self._write(one.story)
            if not one.waits:
                del self._open[story.number]

    def committed(self, runner: Runner, number: int, record: Record) -> None:
        """A region has committed."""
        for query, (epoch, reason) in record["failed"].items():
            self._note_failure(query, epoch, reason)
        for move in map(Migration.from_json, record["arrived"]):
            if move.number:
                self.keys_arrived(move)
        if not self._open:
            return
        for parcel in record["handovers"]:
            move = Migration.from_json(parcel["move"])
            size = sum(s["bytes"] for part in parcel["parts"].values() for s in part)
            if move.number:
                self._key_bytes[move] = size
            else:
                self._sent[int(move.epoch), instance_id(move.query, move.operator)] = size
        for told in record["arrived"]:
            self._arrived(Migration.from_json(told), record["metrics"]["wall"])

    def _note_failure(self, query: QueryId, epoch: int, reason: str) -> None:
        """A query that cannot be run is part of the history, once, whichever region found out."""
        with self._lock:
            if self._failed.get(query) == epoch:
                return
            self._failed[query] = epoch
            cause = f"query '{query}' cannot be run"
            self._history.add(
                ReconfigurationRecord(self._newest, cause, (query,), (Epoch(epoch),), outcome="failed", reason=reason)
            )

    def _arrived(self, move: Migration, wall: float) -> None:
        instance = instance_id(move.query, move.operator)
        with self._lock:
            self._keys_came(move, wall)
            found = next((one for one in self._open.values() if one.due.get(instance) == move.epoch), None)
            if found is not None:
                took = max(wall - found.published, 0.0)
                size = self._sent.pop((int(move.epoch), instance), 0)
                del found.due[instance]
                story = found.story.with_state(instance, size, took)
                found.story = story.timed("state", max(took - story.phases.get("state", 0.0), 0.0))
                if found.ended and not found.waits:
                    del self._open[found.story.number]
                    self._write(found.story)
        self._handed_over(instance, move.epoch)

    def _keys_came(self, move: Migration, wall: float) -> None:
        one = next((one for one in self._open.values() if move in one.keys_due), None)
        if one is None:
            return
        one.keys_due.discard(move)
        more = any(other.number == move.number for other in one.keys_due)
        took = None if more else max(wall - one.published, 0.0)
        one.story = with_state(one.story, move, self._key_bytes.pop(move, 0), took)
        if one.ended and not one.waits:
            del self._open[one.story.number]
            self._write(one.story)

    def _write(self, story: ReconfigurationRecord) -> None:
        # This process has counted from 1 again.
        self._newest = self._before + story.number
        self._history.add(replace(story, number=self._newest))


def _survived(moved: StateMoved) -> StateMoved:
    """A failed site takes no state with it: its region's log has it, and hands it over."""
    return moved if moved.source is not None else replace(moved, step="from its region's log, site")
