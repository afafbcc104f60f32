"""Phases of migrations of keys in the records of reconfigurations: what was sent and how long it took. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from godwit.control.events import Publish, Revert
from godwit.control.reconfigurations import KeyPhase, ReconfigurationRecord
from godwit.migration.key_migrations import RouteKeys
from godwit.model.instances import instance_id
from godwit.protocol.handover import Migration


def phases_of(told: Publish | Revert) -> tuple[KeyPhase, ...]:
    """What an epoch does for keys that migrate."""
    changes = [one for one in told.requests if isinstance(one, RouteKeys)] if isinstance(told, Publish) else []
    return tuple(_phase(change, told.moves) for change in changes)


def _phase(change: RouteKeys, moves: Iterable[Migration]) -> KeyPhase:
    mine = [move for move in moves if move.number == change.number]
    source = ", ".join(sorted({move.source for move in mine}))
    waits = any(not move.cancel for move in mine)
    name = "refresh" if getattr(change.phase, "refresh", False) else type(change.phase).__name__.lower()
    instance = str(instance_id(change.query, change.operator))
    return KeyPhase(change.number, instance, str(change.keys), name, source, change.target, None if waits else 0)


def with_state(
    story: ReconfigurationRecord, move: Migration, size: int, seconds: float | None
) -> ReconfigurationRecord:
    """State of a phase has come; `seconds`: it was the last of it."""
    return replace(story, keys=tuple(_came(k, move.number, size, seconds) for k in story.keys))


def _came(phase: KeyPhase, number: int, size: int, seconds: float | None) -> KeyPhase:
    if phase.migration != number or not phase.source:
        return phase
    return replace(phase, bytes=(phase.bytes or 0) + size, seconds=seconds)


def with_phases(story: ReconfigurationRecord, seconds: float) -> ReconfigurationRecord:
    """All regions work under the epoch: phases that send nothing are over."""
    done = (replace(k, seconds=seconds) if k.bytes is not None and k.seconds is None else k for k in story.keys)
    return replace(story, keys=tuple(done))


def whole(records: Iterable[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    """All phases of one migration of keys, from all records of a history, each with its epoch and the time of day."""
    return [
        {**phase, "reconfiguration": record["number"], "at": record["at"]}
        for record in records
        for phase in record.get("keys", ())
        if phase["migration"] == number
    ]
