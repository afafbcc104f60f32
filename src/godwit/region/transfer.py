"""StateTransfer: how the state of a moved instance gets to its new home, as the state strategy of the fleet says.

    delta          the new instance runs meanwhile; the state comes at once, or in pieces over emulated links
    adhoc-query    in pieces over the links, hop by hop; the new instance waits
    transfer       whole, stored at every hop before it goes on; the new instance waits
    recreate-*     not at all: it is made again from the sources' logs (`recompute.py`); the new instance waits

What a strategy means stands in `godwit.migration`, one file each; here its step is carried out. State on its way is no
part of a micro-batch: a job beside the runners brings it, and the commit that announced it says so (`underway`), so
that a restart brings it again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from godwit.engine.segments import filed
from godwit.ids import NodeId, QueryId
from godwit.migration.base import HandOver, Moved, ReplayState, Step, known, steps
from godwit.model.instances import instance_id
from godwit.model.plan import Operator
from godwit.protocol.handover import Answered, Migration, answered_from_json, rows_wait
from godwit.region.ahead import StatesAhead
from godwit.region.beside import given_a_moment, started
from godwit.region.inherit import Heir, heir_of
from godwit.region.keyed import part_of
from godwit.region.link_emulator import Links, forward, stream
from godwit.region.poll import Arrived, Parts
from godwit.region.recompute import RecomputeTarget, rebuild
from godwit.storage.log import Segment
from godwit.storage.place import Place
from godwit.storage.store import Store

Parcel = Mapping[str, Any]
#: from one node to another over links, both included
Path_ = Callable[[NodeId, NodeId], tuple[NodeId, ...] | None]


class StateTransfer:
    """One per fleet; runners ask it for the state that others announced."""

    def __init__(
        self,
        store: Store,
        strategy: str = "delta",
        links: Links | None = None,
        path: Path_ = lambda source, target: (source, target),
        landing: str = "landing",
    ) -> None:
        """`landing`: a folder of this process alone."""
        self.strategy, self.links, self._path = known(strategy), links, path
        self._store, self._folder = store, Place(store, f"{landing}/{uuid.uuid4().hex}")
        self._jobs: dict[Migration, Future[Parts]] = {}
        #: states of versions to come
        self.ahead = StatesAhead(store, self._folder)
        #: of versions whose state is asked for lately
        self._heirs: dict[QueryId, Heir] = {}
        store.disk.delete_folder(landing)  # of a process that is no more

    def step(self, move: Migration) -> Step:
        """What the strategy does for a move."""
        source, target = NodeId(move.from_site), NodeId(move.to_site)
        path = self._path(source, target) or (source, target)
        (step,) = steps(self.strategy, Moved(instance_id(move.query, move.operator), source, target, path))
        return step

    def waits(self, move: Migration, operator: Operator) -> bool:
        """Whether the new instance takes no rows until its state is there: the operator is asked first, for it may not
        be able to merge late state; then the strategy. A copy goes beside."""
        if move.copy or rows_wait(move, operator):
            return not move.copy
        if move.inherits:
            return False
        step = self.step(move)
        return isinstance(step, ReplayState) or step.wait

    @property
    def replays(self) -> bool:
        """Whether state is made again from what the sources still have, so that they must keep it."""
        return self.strategy.startswith("recreate")

    def bring(self, parcel: Parcel, to: RecomputeTarget) -> Arrived | None:
        """The announced state, if it is here; otherwise see to it that it comes."""
        move, step = Migration.from_json(parcel["move"]), self.step(Migration.from_json(parcel["move"]))
        direct = isinstance(step, HandOver) and not step.wait and (self.links is None or not self.links.carries)
        if direct and not move.inherits:
            return Arrived(move, self._parts(parcel), *_told(parcel))
        if move.inherits and move not in self._jobs and (parts := self._inherited(move, to, None)) is not None:
            return Arrived(move, parts, *_told(parcel))  # by reference: nobody need wait for it
        if move not in self._jobs:
            self._jobs[move] = self._begun(parcel, move, step, to)
        job = self._jobs[move]
        return Arrived(move, job.result(), *_told(parcel)) if job.done() else None

    def due(self, parcel: Parcel) -> bool:
        """Whether asking for it again would do something."""
        job = self._jobs.get(Migration.from_json(parcel["move"]))
        return job is None or job.done()

    def delivered(self, move: Migration) -> None:
        """A commit names the state as its own: what was landed may go."""
        if self._jobs.pop(move, None) is not None:
            self._store.disk.delete_folder(self._landing(move).reference)
        if move.inherits and all(other.query != move.query for other in list(self._jobs)):
            self._heirs.pop(move.query, None)

    def _begun(self, parcel: Parcel, move: Migration, step: Step, to: RecomputeTarget) -> Future[Parts]:
        job = started(lambda: self._job(parcel, move, step, to), f"transfer-{move.query}-{move.operator}")
        heir = self._heir(move, to) if move.inherits else None
        if heir is not None and heir.was_made_ahead:
            given_a_moment(job, heir.sources)
        return job

    def _job(self, parcel: Parcel, move: Migration, step: Step, to: RecomputeTarget) -> Parts:
        if move.query not in to.deployment.queries:
            return {}  # withdrawn meanwhile
        landing = self._landing(move)
        self._store.disk.make_folder(landing.reference)
        if move.inherits:
            return self._inherited(move, to, landing) or {}
        if parcel.get("replay") is not None:
            case = step.share if isinstance(step, ReplayState) else "best"
            return rebuild(parcel, to, landing, case, lambda rows: self._carried(rows, move, step, "rows"))
        parts = self._parts(parcel)
        carried = iter(self._carried([s for part in parts.values() for s in part], move, step, "state"))
        return {side: [next(carried) for _ in part] for side, part in parts.items()}

    def _inherited(self, move: Migration, to: RecomputeTarget, landing: Place | None) -> Parts | None:
        heir = self._heir(move, to)
        return {} if heir is None else heir.parts(move, landing)

    def _heir(self, move: Migration, to: RecomputeTarget) -> Heir | None:
        """One for all operators of a version: what was left is read once, and a state that others are made of made
        once. None: the version was withdrawn meanwhile."""
        if move.query not in self._heirs:
            found = heir_of(self._store, move.query, to, self.ahead.made_for(move.query))
            if found is None:
                return None
            self._heirs[move.query] = found
        return self._heirs[move.query]

    def _carried(self, found: Sequence[Segment], move: Migration, step: Step, name: str) -> list[Segment]:
        """The segments, their files copied over the links between the two sites, in one go."""
        path = self._path(NodeId(move.from_site), NodeId(move.to_site))
        hops = max(len(path) - 1, 1) if path else 1
        landing = self._landing(move)
        found = [filed(segment, landing / f"{name}-sent-{k}") for k, segment in enumerate(found)]
        files = [Path(file) for segment in found for file in segment.paths]
        targets = [Path(landing.path) / f"{name}-{k}.parquet" for k in range(len(files))]
        whole = isinstance(step, HandOver) and not step.chunked
        (forward if whole else stream)(files, targets, hops, self.links or Links())
        landed = iter(f"{landing.reference}/{target.name}" for target in targets)
        return [replace(segment, files=tuple(next(landed) for _ in segment.files)) for segment in found]

    def _landing(self, move: Migration) -> Place:
        what = f"{move.epoch}-{move.query}-{move.operator}-{move.target}-{part_of(move)}"
        return self._folder / what.replace("/", "_")

    def _parts(self, parcel: Parcel) -> Parts:
        return {int(side): [Segment.from_json(s, self._store) for s in p] for side, p in parcel["parts"].items()}


def _told(parcel: Parcel) -> tuple[int, dict[tuple[int, str], int], Answered]:
    """What comes with the state: the sender's watermark, the sessions that it knows of, and whose rows it answered."""
    sessions = {(operator, source): session for operator, source, session in parcel.get("sessions", ())}
    return parcel["clock"], sessions, answered_from_json(parcel.get("answered", ()))
