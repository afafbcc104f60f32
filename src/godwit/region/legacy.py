"""What a version of a query leaves to the next one, under another plan: the state of each of its operators.

The old version's runner puts it here with the commit that lets go of it (again after a crash), under paths that nobody
else deletes; the new version's runners take it when all of it is there. It goes when the old version is withdrawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from godwit.engine import segments
from godwit.ids import QueryId
from godwit.model.deployment import Deployment
from godwit.model.plan import Query
from godwit.protocol.handover import Migration
from godwit.protocol.kernel import RegionKernel
from godwit.replan.change_progress import RunnerView, under_way
from godwit.replan.family import left_name, left_states
from godwit.replan.tracks import answers, of_new, runs_both
from godwit.storage import names
from godwit.storage.log import Record, Segment
from godwit.storage.place import Place
from godwit.storage.store import Store


@dataclass(frozen=True)
class Left:
    """What an operator left."""

    #: the state of each of its inputs
    parts: Mapping[int, list[Segment]]
    #: how far it had released the watermark
    clock: int
    #: rows of earlier classes are those of queries that began before (`LeftState.since`)
    since: int = 0
    #: whose rows are meant, where there may be those of other queries; None: there are none
    of: QueryId | None = None


#: what versions have left, by their names, where all of it is there; limit of versions
_complete: WeakKeyDictionary[Store, dict[QueryId, dict[int, Left]]] = WeakKeyDictionary()
KNOWN = 4


def leave(store: Store, record: Record, queries: Mapping[QueryId, Query]) -> None:
    """Keep what a commit says that versions leave; once is enough. `queries`: those that run."""
    for parcel in record.get("left", ()):
        move = Migration.from_json(parcel["move"])
        divided = move.query in queries and move.operator in queries[move.query].left_in
        folder, part = names.legacy(move.query), left_name(move.operator, move.source if divided else None)
        if store.get_document(f"{folder}/{part}") is not None:
            continue
        store.disk.make_folder(folder)
        place = Place(store, folder)
        parts = {
            side: [_kept(Segment.from_json(s, store), place, f"{part}-{side}-{n}") for n, s in enumerate(found)]
            for side, found in parcel["parts"].items()
        }
        store.put_document(f"{folder}/{part}", {"parts": parts, "clock": parcel["clock"]})


@dataclass(frozen=True)
class PlanReport:
    """What a commit says of changes of plan, to whoever takes their next steps."""

    shape: str
    view: RunnerView
    #: (version, rows, bytes) of each operator's state that the commit leaves to the next version
    left: tuple[tuple[QueryId, int, int], ...]
    #: rows in and out
    metrics: Record

    def to_json(self) -> Record:
        return {"plan": self.shape, "view": self.view.to_json(), "left": self.left, "metrics": self.metrics}

    @staticmethod
    def from_json(told: Record) -> PlanReport:
        left = tuple((QueryId(version), rows, size) for version, rows, size in told["left"])
        return PlanReport(told["plan"], RunnerView.from_json(told["view"]), left, told["metrics"])


def reported(shape: str, kernel: RegionKernel, record: Record) -> PlanReport | None:
    """None: no query of the shape changes its plan."""
    parcels, known = record.get("left", ()), kernel.deployment
    if not parcels and not any(under_way(query, known) for query in list(kernel.queries.values())):
        return None
    left = []
    for parcel in parcels:
        rows = [segment for part in parcel["parts"].values() for segment in part]
        sizes = sum(s["rows"] for s in rows), sum(s["bytes"] for s in rows)
        left.append((QueryId(parcel["move"][1]), *sizes))
    metrics = {name: record["metrics"][name] for name in ("rows_in", "rows_out")}
    return PlanReport(shape, RunnerView.of(kernel), tuple(left), metrics)


def _kept(segment: Segment, folder: Place, name: str) -> dict[str, Any]:
    """A segment in files of its own, as a document can name it."""
    mine = segments.filed(segment, folder / name) if segment.inline else segments.linked(segment, folder, name)
    return {**mine.to_json(), "schema": mine.schema}


def announced(store: Store, deployment: Deployment, move: Migration) -> dict[str, Any] | None:
    """The parcel of a move, if all that it can be made of has been left; None: not yet."""
    new = deployment.queries.get(move.query)
    old = None if new is None or new.inherits is None else deployment.queries.get(new.inherits)
    if new is None or old is None or not may_take(store, new, move):
        return None
    left = left_by(store, old, deployment.queries)
    if left is None:
        return None
    clock = min((one.clock for one in left.values()), default=0)
    return {"move": move.to_json(), "parts": {}, "clock": clock, "replay": None, "sessions": []}


def may_take(store: Store, new: Query, move: Migration) -> bool:
    """Where windows run out, rows wait in front of the new box until they have."""
    plan = new.shape.plan
    waits = runs_both(plan) and answers(plan) == "later" and move.operator in of_new(plan)
    return not waits or released(store, new.id)


def released(store: Store, version: QueryId) -> bool:
    return store.get_document(_released(version)) is not None


def release(store: Store, version: QueryId) -> None:
    """The old box has no old row left: rows may go into the new one."""
    store.disk.make_folder(names.legacy(version))
    store.put_document(_released(version), True)


def _released(version: QueryId) -> str:
    return f"{names.legacy(version)}/released"


def left_by(store: Store, query: Query, queries: Mapping[QueryId, Query]) -> dict[int, Left] | None:
    """Operator -> what it left, also where another query has executed it; None: not all have. Read once: what was left
    does not change. `queries`: all that run."""
    known = _complete.setdefault(store, {})
    if query.id in known:
        return known[query.id]
    found: dict[int, Left] = {}
    for one in left_states(query, queries):
        parts: dict[int, list[Segment]] = {}
        clocks = []
        for part in one.names:
            told = store.get_document(f"{names.legacy(one.executor)}/{part}")
            if told is None:
                return None
            clocks.append(told["clock"])
            for side, rows in told["parts"].items():
                parts.setdefault(int(side), []).extend(Segment.from_json(s, store) for s in rows)
        found[one.operator] = Left(parts, min(clocks), one.since)
    while len(known) > KNOWN:
        known.pop(next(iter(known)), None)
    known[query.id] = found
    return found


def forget(store: Store, query: QueryId) -> None:
    """The next version has taken all of it."""
    _complete.get(store, {}).pop(query, None)
    store.disk.delete_folder(names.legacy(query))
