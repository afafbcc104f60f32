"""What a region remembers of the protocol: whole, or as the difference from an earlier moment.

A commit must not cost more the more devices there are. So most commits hold a `MemoryDelta`, which names only the
rows that changed, and now and then one holds the whole `Snapshot`. A restart reads the last whole one and the deltas
after it.

Every field is a table: a mapping from keys to values that are never changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from godwit.ids import Epoch, QueryId, RegionId
from godwit.protocol.handover import Answered, Instance, Migration, answered_from_json, answered_to_json
from godwit.protocol.ownership import History, history_from_json, history_to_json
from godwit.protocol.shadows import Shadow, ShadowKey, shadow_from_json
from godwit.protocol.watermarks import Mark

Table = Mapping[Any, Any]


@dataclass(frozen=True)
class Failure:
    """Why a query was stopped, and the epoch under which that was found out."""

    epoch: int
    reason: str


@dataclass(frozen=True)
class Snapshot:
    """The whole memory of a kernel."""

    #: log -> the last record taken in
    positions: Mapping[str, int] = field(default_factory=dict)
    #: operator -> how far it is drained here, as last published
    published: Mapping[int, Epoch] = field(default_factory=dict)
    drained: Mapping[tuple[RegionId, int], Epoch] = field(default_factory=dict)
    outgoing: Mapping[Migration, bool] = field(default_factory=dict)
    incoming: Mapping[Migration, bool] = field(default_factory=dict)
    owners: Mapping[Instance, History] = field(default_factory=dict)
    resumed: Mapping[QueryId, Epoch] = field(default_factory=dict)
    #: (operator, source) -> the marks that were heard
    marks: Mapping[tuple[int, str], tuple[Mark, ...]] = field(default_factory=dict)
    #: (scan, source, session) -> the newest mark that came in here at first hand
    own_marks: Mapping[tuple[int, str, int], Mark] = field(default_factory=dict)
    #: (operator, query) -> how far its watermark is released
    released: Mapping[tuple[int, QueryId], int] = field(default_factory=dict)
    #: query -> the positions at which it began here
    starts: Mapping[QueryId, Mapping[str, int]] = field(default_factory=dict)
    #: regions that are lost
    fenced: Mapping[RegionId, bool] = field(default_factory=dict)
    #: queries that cannot be run, and why
    failed: Mapping[QueryId, Failure] = field(default_factory=dict)
    #: receiver -> the number of the last message for it
    outbox: Mapping[RegionId, int] = field(default_factory=dict)
    #: copies of other regions' state that are built up here
    shadows: Mapping[ShadowKey, Shadow] = field(default_factory=dict)
    #: (scan, source, session) that waits for the one before -> what was said in it; see `session_order.py`
    held: Mapping[tuple[int, str, int], Mark] = field(default_factory=dict)
    #: (receiver, peer) -> the peer's message that the receiver must take in before our next one
    behind: Mapping[tuple[RegionId, RegionId], int] = field(default_factory=dict)
    #: keys whose rows are answered further than the watermark says
    answered: Mapping[Instance, Answered] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(len(getattr(self, name)) for name in _TABLES)

    def to_json(self) -> dict[str, list[Any]]:
        tables = ((name, getattr(self, name)) for name in _TABLES)
        return {name: _CODECS[name].rows(table) for name, table in tables if table}

    @staticmethod
    def from_json(record: Mapping[str, Iterable[Any]]) -> Snapshot:
        return Snapshot(**{name: _CODECS[name].table(rows) for name, rows in record.items()})


_TABLES = tuple(one.name for one in fields(Snapshot))


@dataclass(frozen=True)
class MemoryDelta:
    """What changed from one snapshot to a later one."""

    changed: Snapshot = field(default_factory=Snapshot)
    #: table -> the keys that are gone
    removed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        removed = {name: [_CODECS[name].key_to(key) for key in keys] for name, keys in self.removed.items()}
        return {"changed": self.changed.to_json(), "removed": removed}

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> MemoryDelta:
        removed = {name: tuple(_CODECS[name].key_of(key) for key in keys) for name, keys in record["removed"].items()}
        return MemoryDelta(Snapshot.from_json(record["changed"]), removed)


def difference(before: Snapshot, after: Snapshot) -> MemoryDelta:
    """The delta that leads from one snapshot to another."""
    changed: dict[str, Table] = {}
    removed: dict[str, tuple[Any, ...]] = {}
    for name in _TABLES:
        old, new = getattr(before, name), getattr(after, name)
        if old == new:
            continue
        changed[name] = {k: v for k, v in new.items() if (was := old.get(k)) is not v and was != v}
        if gone := () if old.keys() <= new.keys() else tuple(k for k in old if k not in new):
            removed[name] = gone
    return MemoryDelta(Snapshot(**changed), removed)


def apply_delta(snapshot: Snapshot, delta: MemoryDelta) -> Snapshot:
    """The snapshot that a delta leads to."""
    tables: dict[str, Table] = {}
    for one in fields(Snapshot):
        gone = set(delta.removed.get(one.name, ()))
        kept = {k: v for k, v in getattr(snapshot, one.name).items() if k not in gone}
        tables[one.name] = {**kept, **getattr(delta.changed, one.name)}
    return Snapshot(**tables)


@dataclass(frozen=True)
class _Codec:
    """How a table's keys and values are written as JSON."""

    key_to: Callable[[Any], Any] = lambda key: key
    key_of: Callable[[Any], Any] = lambda key: key
    value_to: Callable[[Any], Any] = lambda value: value
    value_of: Callable[[Any], Any] = lambda value: value

    def rows(self, table: Table) -> list[Any]:
        return [[self.key_to(key), self.value_to(value)] for key, value in table.items()]

    def table(self, rows: Iterable[Any]) -> Table:
        return {self.key_of(key): self.value_of(value) for key, value in rows}


class _ShadowCodec(_Codec):
    """A shadow is named by its key."""

    def table(self, rows: Iterable[Any]) -> Table:
        return {tuple(key): shadow_from_json((key[0], key[1], key[2]), value) for key, value in rows}


_PLAIN, _PAIR, _MOVE = _Codec(), _Codec(list, tuple), _Codec(Migration.to_json, Migration.from_json)
_CODECS: dict[str, _Codec] = {
    "positions": _PLAIN,
    "published": _PLAIN,
    "drained": _PAIR,
    "outgoing": _MOVE,
    "incoming": _MOVE,
    "owners": _Codec(list, tuple, history_to_json, history_from_json),
    "resumed": _PLAIN,
    "marks": _Codec(list, tuple, lambda m: [one.to_json() for one in m], lambda m: tuple(map(Mark.from_json, m))),
    "own_marks": _Codec(list, tuple, Mark.to_json, Mark.from_json),
    "released": _PAIR,
    "starts": _Codec(value_to=dict),
    "fenced": _PLAIN,
    "failed": _Codec(value_to=lambda f: [f.epoch, f.reason], value_of=lambda f: Failure(*f)),
    "outbox": _PLAIN,
    "shadows": _ShadowCodec(list, tuple, Shadow.to_json),
    "held": _Codec(list, tuple, Mark.to_json, Mark.from_json),
    "behind": _PAIR,
    "answered": _Codec(list, tuple, answered_to_json, answered_from_json),
}
