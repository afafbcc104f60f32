"""What brokers deliver becomes rows: batches of messages, each of a device, perhaps from a site, perhaps numbered.

A message that names another site than its device is attached to is a hand-over: what came before it is taken in first,
where the device was, then the device moves. A message that cannot be taken is a dead letter with the reason; `take`
returns when everything is durable, and only then may a source acknowledge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from godwit import names
from godwit.api.core import FleetCore
from godwit.control.commands import Connect
from godwit.errors import GodwitError, SourceError
from godwit.ids import DeviceId, SiteId, StreamId
from godwit.ingest.device_locator import DeviceLocator, PositionColumns
from godwit.ingest.row_formats import parse
from godwit.ingest.together import Parcel, is_known, push_alone, push_together


@dataclass(frozen=True)
class Message:
    """What a broker delivers."""

    stream: str
    body: bytes
    #: None: the rows' device column says it
    device: str | None = None
    site: str | None = None
    sequence: int | None = None
    content_type: str = "application/json"


class Intake:
    """Takes in messages of one source. `feeder`: who counts the numbers; None: each device its own."""

    def __init__(
        self,
        fleet: FleetCore,
        feeder: str | None = None,
        *,
        site: str | None = None,
        positions: PositionColumns | None = None,
    ) -> None:
        self._fleet, self._feeder, self._site = fleet, feeder, site
        self._locator = DeviceLocator(lambda: fleet.plane.topology, positions)
        self.rows = 0

    def take(self, messages: Sequence[Message]) -> None:
        waiting: list[Parcel] = []
        for message in messages:
            try:
                # (a repeat also says where its device was then: that is no hand-over)
                parcels = [one for one in self._parcels(message) if not is_known(self._fleet.gateway, one)]
                for one in parcels:
                    assert one.device is not None
                    site = self._locator.moved_to(one.device, one.rows, message.site, self._site)
                    if site is not None or self._feeds_anew(one):
                        self._push(waiting)
                        waiting = []
                        self._connect(one, site)
            except GodwitError as error:
                self._dead(message.stream, message.body.decode(errors="replace"), error)
                continue
            waiting += parcels
        self._push(waiting)

    # --- rows

    def _parcels(self, message: Message) -> list[Parcel]:
        """The message's rows, device by device."""
        stream = StreamId(message.stream)
        schema = self._fleet.schema(stream).stream
        rows = parse(message.body, message.content_type, schema)
        if message.device is not None or schema.device is None:
            device = DeviceId(message.device or stream)
            return [Parcel(stream, rows, device, message.sequence, self._feeder)]
        listed = rows.to_pylist() if isinstance(rows, pa.Table) else rows
        column = schema.device
        if not all(isinstance(row, dict) and row.get(column) is not None for row in listed):
            msg = f"{column} is missing: every row needs its sender's name, or the topic a {{device}}"
            raise SourceError(msg)
        told = sorted(listed, key=lambda row: str(row[column]))  # (stable: a device's rows keep their order)
        return [
            Parcel(stream, list(mine), DeviceId(name), message.sequence, self._feeder)
            for name, mine in groupby(told, key=lambda row: str(row[column]))
        ]

    def _push(self, parcels: list[Parcel]) -> None:
        for one, outcome in zip(parcels, push_together(self._fleet, parcels), strict=True):
            try:
                taken = push_alone(self._fleet, one) if outcome is None else outcome
            except (GodwitError, pa.ArrowException) as error:
                rows = one.rows if isinstance(one.rows, list) else one.rows.to_pylist()
                for row in rows:
                    self._dead(one.stream, row, error)
            else:
                self.rows += len(one.rows) - len(one.dead) if taken else 0

    def _dead(self, stream: str, row: Any, error: Exception) -> None:
        with self._fleet.lock:
            self._fleet.gateway.dead.add(stream, [{"row": row, "reason": str(error)}])

    # --- where devices are

    def _feeds_anew(self, one: Parcel) -> bool:
        return one.device not in self._fleet.deployment.feeds.get(one.stream, ())

    def _connect(self, one: Parcel, site: SiteId | None) -> None:
        name = names.check("device", str(one.device), SourceError)
        self._fleet.control.execute(Connect(name, site, (one.stream,)))
