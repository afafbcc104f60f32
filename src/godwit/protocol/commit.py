"""The protocol's part of a commit record: what other regions are sent (`outbox.py`), and what a restart needs.

    epoch, markers    the reconfiguration marker: what this region sends from here on goes where the epoch says
    positions         how far it has read: others may forget what lies before
    marks             how far the sources and stateful operators that live here have come; only what changed since the
                      commit before, or everything where a receiver has to know
    messages          receiver -> the number of the message that this commit makes for it
    memory            whole, or as the delta from the commit before; `snapshot`: the last commit that has it whole

Whoever removes old commits keeps them from `snapshot` on: a restart begins there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from godwit.ids import Epoch, QueryId, RegionId
from godwit.protocol.handover import Migration
from godwit.protocol.inputs import Heard
from godwit.protocol.memory import Failure, MemoryDelta, Snapshot, apply_delta
from godwit.protocol.watermarks import Mark

#: commits between two snapshots of a large memory; a small memory has fewer between
SNAPSHOT_EVERY, MANY_ROWS = 64, 256


def is_due(commits: int, memory: Snapshot) -> bool:
    """Whether a commit is a snapshot of this memory, given the number of commits since the last one."""
    return commits >= SNAPSHOT_EVERY // 4 and (commits >= SNAPSHOT_EVERY or memory.rows <= MANY_ROWS)


@dataclass(frozen=True)
class ProtocolCommit:
    """One commit, as far as the protocol is concerned."""

    epoch: Epoch
    positions: Mapping[str, int]
    markers: Mapping[int, Epoch]
    marks: tuple[Heard, ...]
    #: number of the last commit that holds the memory whole; this one, if `whole` is there
    snapshot: int
    whole: Snapshot | None = None
    delta: MemoryDelta = field(default_factory=MemoryDelta)
    #: queries that ended with this commit -> the positions at which they had begun here
    ended: Mapping[QueryId, Mapping[str, int]] = field(default_factory=dict)
    #: queries that cannot be run: all of them, so that a region that begins to read knows
    failed: Mapping[QueryId, Failure] = field(default_factory=dict)
    messages: Mapping[RegionId, int] = field(default_factory=dict)
    #: moves to here whose state is wanted now
    wanted: tuple[Migration, ...] = ()
    #: receiver -> peer -> its message to the receiver that is to be taken in before ours
    behind: Mapping[RegionId, Mapping[RegionId, int]] = field(default_factory=dict)
    #: peer -> its commit that sinks must have before this one (`delivery_order.py`)
    after: Mapping[RegionId, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        memory = {"delta": self.delta.to_json()} if self.whole is None else {"whole": self.whole.to_json()}
        return {
            "epoch": int(self.epoch),
            "positions": dict(self.positions),
            "markers": {str(k): int(e) for k, e in self.markers.items()},
            "marks": marks_to_json(self.marks),
            "ended": {query: dict(start) for query, start in self.ended.items()},
            "failed": {query: [why.epoch, why.reason] for query, why in self.failed.items()},
            "messages": dict(self.messages),
            "wanted": [move.to_json() for move in self.wanted],
            **({"behind": {to: dict(told) for to, told in self.behind.items()}} if self.behind else {}),
            **({"after": dict(self.after)} if self.after else {}),
            "protocol": {"snapshot": self.snapshot, **memory},
        }

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> ProtocolCommit:
        memory = record["protocol"]
        return ProtocolCommit(
            Epoch(record["epoch"]),
            record["positions"],
            markers_from_json(record["markers"]),
            tuple(marks_from_json(record["marks"])),
            memory["snapshot"],
            Snapshot.from_json(memory["whole"]) if "whole" in memory else None,
            MemoryDelta.from_json(memory["delta"]) if "delta" in memory else MemoryDelta(),
            record["ended"],
            {QueryId(query): Failure(*why) for query, why in record["failed"].items()},
            record["messages"],
            tuple(map(Migration.from_json, record.get("wanted", ()))),
            record.get("behind", {}),
            record.get("after", {}),
        )


def recall(known: Snapshot | None, memories: Iterable[Mapping[str, Any]]) -> Snapshot | None:
    """The memory after some commits (`record["protocol"]` of each, in order); None: none of them has it whole."""
    for memory in memories:
        if "whole" in memory:
            known = Snapshot.from_json(memory["whole"])
        elif known is not None:
            known = apply_delta(known, MemoryDelta.from_json(memory["delta"]))
    return known


def markers_from_json(record: Mapping[str, int]) -> dict[int, Epoch]:
    return {int(operator): Epoch(epoch) for operator, epoch in record.items()}


def marks_from_json(record: Mapping[str, Mapping[str, Iterable[list[Any]]]]) -> Iterator[Heard]:
    for operator, sources in record.items():
        for source, marks in sources.items():
            yield from ((int(operator), source, Mark.from_json(mark)) for mark in marks)


def marks_to_json(marks: Iterable[Heard]) -> dict[str, dict[str, list[Any]]]:
    found: dict[str, dict[str, list[Any]]] = {}
    for operator, source, mark in marks:
        found.setdefault(str(operator), {}).setdefault(source, []).append(mark.to_json())
    return found
