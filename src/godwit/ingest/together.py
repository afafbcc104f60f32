"""Rows that arrive together are taken in together: one entry of a source log for many senders, and one durable write.

A parcel is what one sender sent at once. Parcels of one stream become one table; what cannot go with the others (a
device that is not attached, a body that lacks a column) is given back, to be pushed alone and refused alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from godwit.api.core import FleetCore
from godwit.errors import GodwitError
from godwit.ids import DeviceId, StreamId
from godwit.ingest.gateway import Gateway
from godwit.ingest.schema import Conformed, Dead


@dataclass(frozen=True)
class Parcel:
    """Rows that one sender sent at once."""

    stream: StreamId
    #: dicts, or an Arrow table
    rows: list[Any] | pa.Table
    device: DeviceId | None = None
    #: a repeat has the same number, or a smaller one
    sequence: int | None = None
    #: the feeder that sends the device's rows and counts the numbers, if there is one
    feeder: str | None = None
    #: those of its rows that did not fit, each with the reason; told once it is taken
    dead: Dead = field(default_factory=list, compare=False)
    #: columns of its rows that the stream has not -> what to say of each; told once it is taken
    unknown: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def sender(self) -> str:
        return str(self.device) if self.feeder is None else f"{self.feeder}|{self.device}"

    def told(self, conformed: Conformed, gateway: Gateway) -> None:
        """It was taken: its sender may know what became of it."""
        self.dead.extend(conformed.dead)
        self.unknown.update(gateway.said_of(self.stream, conformed.unknown))


def push_together(fleet: FleetCore, parcels: Sequence[Parcel]) -> list[bool | None]:
    """Of each parcel: whether it was taken (False: its sequence number is known); None: it must be pushed alone."""
    outcomes: list[bool | None] = [None] * len(parcels)
    for (stream, device), places in _groups(fleet.gateway, parcels).items():
        try:
            conformed = _conformed(fleet.gateway, stream, device, [parcels[place] for place in places])
            if conformed.dead and len(places) > 1:  # rare: whose they are is found out one by one
                for place in places:
                    outcomes[place] = push_together(fleet, [parcels[place]])[0]
                continue
            with fleet.lock:
                if any(is_known(fleet.gateway, parcels[place]) for place in places):
                    continue  # rare: a repeat is told apart alone
                numbers: dict[str, int] = {}
                for one in (parcels[place] for place in places):
                    if one.sequence is not None:
                        numbers[one.sender] = one.sequence
                fleet.gateway.push_numbered(stream, conformed, fleet.deployment, device, numbers)
        except (GodwitError, pa.ArrowException):
            continue
        for place in places:
            outcomes[place] = True
            if conformed.unknown:
                mine = fleet.gateway.schema(stream).unknown(parcels[place].rows)
                parcels[place].unknown.update(fleet.gateway.said_of(stream, mine))
        parcels[places[0]].dead.extend(conformed.dead)
    return outcomes


def push_alone(fleet: FleetCore, one: Parcel) -> bool:
    """A single parcel; False: its sequence number is known. A GodwitError says what is wrong with it."""
    conformed = fleet.gateway.conform(one.stream, one.rows, one.device)
    with fleet.lock:
        if is_known(fleet.gateway, one):
            return False
        numbers = {} if one.sequence is None else {one.sender: one.sequence}
        fleet.gateway.push_numbered(one.stream, conformed, fleet.deployment, one.device, numbers)
    one.told(conformed, fleet.gateway)
    return True


def _groups(gateway: Gateway, parcels: Sequence[Parcel]) -> dict[tuple[StreamId, DeviceId | None], list[int]]:
    """What can be one table: rows of a stream, by device where no column names the device."""
    found: dict[tuple[StreamId, DeviceId | None], list[int]] = {}
    last: dict[tuple[StreamId, str], int] = {}
    for place, one in enumerate(parcels):
        if one.sequence is not None:
            if one.device is None or last.get((one.stream, one.sender), 0) >= one.sequence:
                continue  # a repeat within the group, or a number that is not counted
            last[one.stream, one.sender] = one.sequence
        named = gateway.schema(one.stream).stream.device is not None
        found.setdefault((one.stream, None if named else one.device), []).append(place)
    return found


def is_known(gateway: Gateway, one: Parcel) -> bool:
    """Whether a parcel has come through before."""
    return one.sequence is not None and one.sequence <= gateway.sequence(one.stream, one.sender)


def _conformed(gateway: Gateway, stream: StreamId, device: DeviceId | None, parcels: Sequence[Parcel]) -> Conformed:
    """All rows as the stream has them: dicts at once, and tables too if they are alike."""
    column = gateway.schema(stream).stream.device
    dicts = [row for one in parcels if isinstance(one.rows, list) for row in _signed(one, column)]
    tables = [one for one in parcels if not isinstance(one.rows, list)]
    parts = [gateway.conform(stream, dicts, device)] if dicts or not tables else []
    if len(tables) > 1 and _are_alike(tables, column):
        parts.append(gateway.conform(stream, pa.concat_tables([one.rows for one in tables]), device))
    else:
        parts += [gateway.conform(stream, one.rows, one.device) for one in tables]
    if len(parts) == 1:
        return parts[0]
    dead, unknown = [row for part in parts for row in part.dead], Counter[str]()
    for part in parts:
        unknown.update(part.unknown)
    return Conformed(pa.concat_tables([part.table for part in parts]), dead, unknown)


def _are_alike(parcels: Sequence[Parcel], column: str | None) -> bool:
    """Whether tables have one schema, and each only rows of its sender."""
    first = parcels[0].rows.schema  # type: ignore[union-attr]
    if column is None or not all(one.rows.schema.equals(first) for one in parcels) or column not in first.names:  # type: ignore[union-attr]
        return False
    return pa.types.is_string(first.field(column).type) and all(
        pc.all(pc.equal(one.rows.column(column), str(one.device)), skip_nulls=False).as_py()  # type: ignore[union-attr]
        for one in parcels
        if one.device is not None
    )


def _signed(one: Parcel, column: str | None) -> list[Any]:
    """Rows that a device sent without saying whose they are, are its own; another's are not for it to send."""
    if one.device is None or column is None:
        return one.rows
    for row in one.rows:
        if isinstance(row, dict) and row.setdefault(column, one.device) != one.device:
            msg = f"{column} names another device than '{one.device}', which sent it"
            raise GodwitError(msg)  # (alone, the row becomes a dead letter with the reason)
    return one.rows
