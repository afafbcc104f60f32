"""What a region's engine remembers from one micro-batch to the next: whole in some commits, in others what changed.

The same commits have it whole that have the protocol's memory whole (`godwit.protocol.commit`, `snapshot`). In between,
a commit names the segments that came to a state and the places in the list of those that went.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from godwit.errors import StateError
from godwit.storage.base import SegmentStore
from godwit.storage.inline import plain
from godwit.storage.log import Log, Record
from godwit.storage.segment import Segment

#: name -> segments, in order
Segments = Mapping[str, tuple[Segment, ...]]


@dataclass(frozen=True)
class StateMemory:
    """The live segments of all states, and what else a restart of the engine needs."""

    states: Segments = field(default_factory=dict)
    #: rows that wait to be let in, by the JSON text of their room
    rooms: Segments = field(default_factory=dict)
    #: name -> any JSON value: replaced as a whole
    rest: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> Record:
        return {"states": _to_json(self.states), "rooms": _to_json(self.rooms), "rest": dict(self.rest)}

    @staticmethod
    def from_json(record: Record, store: SegmentStore | None) -> StateMemory:
        return StateMemory(_of_json(record["states"], store), _of_json(record["rooms"], store), record["rest"])

    def segments(self) -> Iterator[Segment]:
        """Every live segment of state, and of rows that wait."""
        for segments in (*self.states.values(), *self.rooms.values()):
            yield from segments


def difference(before: StateMemory, after: StateMemory) -> Record:
    """As JSON: what leads from one memory to another."""
    return {
        "states": _changes(before.states, after.states),
        "rooms": _changes(before.rooms, after.rooms),
        "rest": {name: value for name, value in after.rest.items() if before.rest.get(name) != value},
    }


def remembered(
    known: StateMemory | None, records: Iterable[Record], store: SegmentStore | None = None
) -> StateMemory | None:
    """The memory after some commits, in order; None: none of them has it whole."""
    for memory in (record["memory"] for record in records):
        if "whole" in memory:
            known = StateMemory.from_json(memory["whole"], store)
        elif known is not None:
            known = _apply(known, memory["delta"], store)
    return known


def since_snapshot(log: Log) -> list[Record]:
    """The commits that a restart needs, from the last one that has the memories whole; empty: there is none at all."""
    last = log.read(log.last) if log.last else None
    if last is None:
        return []
    numbers = range(last["protocol"]["snapshot"], log.last)
    records = [record for record in map(log.read, numbers) if record is not None]
    if len(records) < len(numbers):
        msg = f"{log.name} lacks commits from {numbers[0]} on, which a restart needs; restore them from a copy"
        raise StateError(msg)
    return [*records, last]


def _changes(before: Segments, after: Segments) -> Record:
    changed = {name: _edit(before.get(name, ()), now) for name, now in after.items() if before.get(name) != now}
    return {"changed": changed, "removed": [name for name in before if name not in after]}


def _edit(before: tuple[Segment, ...], after: tuple[Segment, ...]) -> Record:
    """Which places of the list to leave out, and what to put behind the rest."""
    kept, gone = 0, []
    for place, segment in enumerate(before):
        if kept < len(after) and (after[kept] is segment or after[kept] == segment):
            kept += 1
        else:
            gone.append(place)
    return {"gone": gone, "new": [segment.to_json() for segment in after[kept:]]}


def _apply(known: StateMemory, delta: Record, store: SegmentStore | None) -> StateMemory:
    return StateMemory(
        _edited(known.states, delta["states"], store),
        _edited(known.rooms, delta["rooms"], store),
        {**known.rest, **delta["rest"]},
    )


def _edited(before: Segments, delta: Record, store: SegmentStore | None) -> Segments:
    found = {name: segments for name, segments in before.items() if name not in delta["removed"]}
    for name, edit in delta["changed"].items():
        gone = set(edit["gone"])
        kept = (segment for place, segment in enumerate(before.get(name, ())) if place not in gone)
        found[name] = (*kept, *(Segment.from_json(one, store) for one in edit["new"]))
    return found


def _to_json(table: Segments) -> Record:
    return {name: [segment.to_json() for segment in segments] for name, segments in table.items()}


def _of_json(table: Record, store: SegmentStore | None) -> Segments:
    return {name: tuple(Segment.from_json(one, store) for one in segments) for name, segments in table.items()}


def frozen(value: Any) -> Any:
    """A value of a record as it would be read back: later changes to the original do not reach it."""
    return plain(value) if value else value
