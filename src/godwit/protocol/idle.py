"""Idle sources: a device that is attached and silent for too long no longer holds watermarks back.

Only the region where it is attached can say so, from its own clock; the others hear it as a mark. When each source was
last heard from is not remembered over a restart: a restart waits once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from godwit.ids import DeviceId
from godwit.model.deployment import Deployment
from godwit.model.plan import Shape
from godwit.protocol.inputs import Heard, Inputs
from godwit.protocol.watermarks import Mark, split_source

OwnMarks = Mapping[tuple[int, str, int], Mark]


class IdleSources:
    """When the sources that are attached here were last heard from."""

    def __init__(self, shape: Shape) -> None:
        self._scans = dict(shape.plan.scans)
        self._heard: dict[str, float] = {}
        self._due: float | None = None
        self._stale = True

    def mark(self, inputs: Inputs[Any], own_marks: OwnMarks, deployment: Deployment, now: float) -> None:
        """Add a mark for each source that has become idle.

        If several have, the one that was heard from last follows in the next micro-batch. Idle sources hold nothing
        back unless all are idle: then nothing moves, so what the last one allows must be released before.
        """
        self._stale = True
        if not any(limit_of(deployment, scan.stream) is not None for scan in self._scans.values()):
            return
        here = {source for _, source, _ in own_marks}
        self._heard = {source: at for source, at in self._heard.items() if source in here}
        self._heard |= {source: now for _, source, _ in inputs.own_marks}
        spoke = {(scan, source) for scan, source, _ in inputs.own_marks}
        silent = [
            (due, scan, source, mark)
            for (scan, source, _), mark, due in self._waiting(own_marks, deployment, now)
            if due <= now and (scan, source) not in spoke
        ]
        dues = {due for due, *_ in silent}
        idle: list[Heard] = [
            (scan, source, replace(mark, idle=True))
            for due, scan, source, mark in silent
            if len(dues) == 1 or due < max(dues)
        ]
        inputs.marks += idle
        inputs.own_marks += idle

    def next_due(self, own_marks: OwnMarks, deployment: Deployment, now: float) -> float | None:
        """When the next source becomes idle, as things stand; asked often, so worked out once a micro-batch."""
        if self._stale:
            self._due = min((due for _, _, due in self._waiting(own_marks, deployment, now)), default=None)
            self._stale = False
        return self._due

    def _waiting(
        self, own_marks: OwnMarks, deployment: Deployment, now: float
    ) -> Iterator[tuple[tuple[int, str, int], Mark, float]]:
        """The sources that may become idle, and when each does."""
        limits = {i: limit_of(deployment, scan.stream) for i, scan in self._scans.items()}
        if not any(limit is not None for limit in limits.values()):
            return
        for key, mark in list(own_marks.items()):  # others may ask while a micro-batch is under way
            limit = limits[key[0]]
            attached = deployment.devices.get(DeviceId(split_source(key[1])[1])) is not None
            if limit is not None and attached and not (mark.idle or mark.over or mark.closed):
                yield key, mark, self._heard.setdefault(key[1], now) + limit


def limit_of(deployment: Deployment, stream: Any) -> float | None:
    known = deployment.streams.get(stream)
    return None if known is None else known.idle_seconds
