"""States of a version to come, made beside the version that runs, of its segments as they lie (`replan/ahead.py`).

A region makes those whose sources it has, as a whole; the files it reads are linked, so that the running version may
drop them. What is made is known to this process alone: after a crash it is made again, or at the switch.
"""

from __future__ import annotations

import logging
import uuid
from concurrent.futures import Future
from dataclasses import dataclass

from godwit.engine import segments
from godwit.ids import QueryId, RegionId
from godwit.model.plan import Query
from godwit.model.signature import StateKey
from godwit.protocol.watermarks import NEVER
from godwit.region.batch import Memory
from godwit.region.beside import given_a_moment, started
from godwit.region.inherit import Heir, MadeAhead
from godwit.region.legacy import Left
from godwit.region.recompute import RecomputeTarget
from godwit.region.seen import marked
from godwit.replan.ahead import makeable
from godwit.storage.place import Place
from godwit.storage.store import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Making:
    new: QueryId
    folder: Place
    job: Future[MadeAhead]


class StatesAhead:
    """One per process."""

    def __init__(self, store: Store, folder: Place) -> None:
        self._store, self._folder = store, folder
        #: (the version that runs, region) -> what is made of its states there
        self._known: dict[tuple[QueryId, RegionId], _Making] = {}

    def begin(self, old: Query, new: Query, to: RecomputeTarget, memory: Memory) -> bool:
        """Whether anything is to be made here. The running version's states are marked as they are now."""
        self.forget(old.id, to.region)
        found = makeable(old, new, to.deployment, to.region, to.deployment.streams)
        if not found.steps:
            return False
        mark = uuid.uuid4().hex
        folder, weights = self._folder / f"ahead-{mark}", dict[StateKey, int]()
        self._store.disk.make_folder(folder.reference)
        there: dict[int, Left] = {}
        for key, one in found.sources.items():
            live, clock = memory.state(key), memory.let_go.get(one.operator, {}).get(one.executor, NEVER)
            live.live = [marked(segment, mark) for segment in live.live]
            weights[key] = len(live.live)
            names = (f"{one.operator}-{key.side}-{n}" for n in range(len(live.live)))
            pinned = [segments.linked(segment, folder, name) for segment, name in zip(live.live, names, strict=True)]
            others = there[one.operator].parts if one.operator in there else {}
            there[one.operator] = Left({**others, key.side: pinned}, clock, one.since, one.executor)

        def made() -> MadeAhead:
            heir = Heir(new, old, there, to)
            states = {step.new: heir.segments(step.new, folder / f"made-{n}") for n, step in enumerate(found.steps)}
            return MadeAhead(mark, new.shape.key, states, weights)

        job = started(made, f"ahead-{new.id}")
        self._known[old.id, to.region] = _Making(new.id, folder, job)
        given_a_moment(job, (s for one in there.values() for part in one.parts.values() for s in part))
        return True

    def told(self, old: QueryId, region: RegionId) -> str | None:
        """Why states cannot be made, "" if they are there; None: it takes its time."""
        known = self._known[old, region]
        if not known.job.done():
            return None
        fault = known.job.exception()
        if fault is not None:
            log.warning("states of '%s' cannot be made in %s", known.new, region, exc_info=fault)
        return "" if fault is None else (str(fault) or type(fault).__name__).splitlines()[0]

    def made_for(self, new: QueryId) -> list[MadeAhead]:
        """What is there for a version, by whatever region it was made."""
        jobs = [one.job for one in list(self._known.values()) if one.new == new and one.job.done()]
        return [job.result() for job in jobs if job.exception() is None]

    def forget(self, old: QueryId, region: RegionId) -> None:
        """The version has gone, or goes on."""
        known = self._known.pop((old, region), None)
        if known is not None:
            known.job.add_done_callback(lambda _: self._store.disk.delete_folder(known.folder.reference))
