"""The control log: every epoch's record, in order, and now and then whole copies, so that a restart is quick.

Regions read deployments and moves from it. The control plane reads, besides, where it stood: `standing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from godwit.errors import StateError
from godwit.ids import QueryId, SiteId
from godwit.model.changes import Change, apply
from godwit.model.codec import decode, encode
from godwit.model.deployment import Deployment
from godwit.model.instances import InstanceId
from godwit.model.topology import Topology
from godwit.protocol.handover import Migration
from godwit.storage import names
from godwit.storage.log import Record
from godwit.storage.store import Store

#: epochs between two whole copies
SNAPSHOT_EVERY = 500


@dataclass(frozen=True)
class Standing:
    """Where the control plane stands after an epoch, beside the deployment."""

    topology: Topology = field(default_factory=Topology)
    #: the last command that was taken in
    command: int = 0
    #: changes that were accepted and that no epoch has brought yet
    waiting: tuple[Change, ...] = ()
    sinks: Mapping[QueryId, SiteId] = field(default_factory=dict)
    by_hand: Mapping[InstanceId, SiteId] = field(default_factory=dict)

    def after(self, record: Record, topologies: Mapping[int, Topology]) -> Standing:
        """`topologies`: of earlier epochs, for a record that takes some of them back."""
        own = replace(self, command=record["command"], waiting=decode(record["waiting"]))
        if "stable" in record:
            return replace(own, topology=topologies[record["stable"]])
        sinks = {**self.sinks, **record["hints"]["sinks"]}
        gone = {query for query, value in decode(record["delta"]).queries.items() if value is None}
        put = _instances(record["hints"]["by_hand"])
        by_hand = {n: s for n, s in self.by_hand.items() if n.query not in gone and n not in put}
        return replace(
            own,
            topology=apply(self.topology, decode(record["changes"])),
            sinks={query: site for query, site in sinks.items() if site is not None},
            by_hand={**by_hand, **put},  # in the order in which they were put: the last word counts
        )

    def to_json(self) -> Any:
        topology = (self.topology.sites, self.topology.links, self.topology.devices)
        parts = [encode(list(part.values())) for part in topology]
        return [
            parts,
            self.command,
            encode(list(self.waiting)),
            dict(self.sinks),
            {str(name): site for name, site in self.by_hand.items()},
        ]

    @staticmethod
    def from_json(value: Any) -> Standing:
        (sites, links, devices), command, waiting, sinks, by_hand = value
        topology = Topology.of(*(list(decode(part)) for part in (sites, links, devices)))
        return Standing(topology, command, decode(waiting), sinks, _instances(by_hand))


def _instances(by_hand: Mapping[str, SiteId]) -> dict[InstanceId, SiteId]:
    return {InstanceId.parse(name): site for name, site in by_hand.items()}


class Control:
    """Reads (any region) and writes (the fleet's one control plane) the deployment, epoch by epoch."""

    def __init__(self, store: Store) -> None:
        self._store, self._log = store, store.log(names.CONTROL, create=True)

    @property
    def last(self) -> int:
        return self._log.last

    @property
    def first(self) -> int:
        return self._log.first

    def publish(self, epoch: int, record: Record) -> None:
        """Append an epoch: the record's number is the epoch."""
        number = self._log.append(record)
        if number != epoch:
            where = self._store.where(self._log.name)
            msg = f"epoch {epoch} became record {number} of {where}: open the fleet in one process only"
            raise StateError(msg)

    def copy_if_due(self, stable: int) -> None:
        """Write whole copies of the newest epoch that will not be taken back, if the last ones are old."""
        if stable - max(self._store.document_numbers(names.STANDINGS), default=0) >= SNAPSHOT_EVERY:
            self._snapshot(stable, stable)

    def _snapshot(self, number: int, stable: int) -> None:
        """A revert goes back to a stable epoch or a later one, so that is where the control plane's copy must be of."""
        self._store.put_document(f"{names.STANDINGS}/{names.number(stable)}", self.standing(stable).to_json())
        self._store.put_document(f"{names.SNAPSHOTS}/{names.number(number)}", encode(self.deployment_at(number)))

    def forget(self, through: int) -> int:
        """Drop the epochs up to one that every region has passed, with a whole copy in their place; how many."""
        stable = self._stable()
        through = min(through, stable)
        count = through - self._log.first + 1
        if count > 0:
            self._snapshot(through, stable)
            self._log.truncate(through + 1)
            for folder, kept in ((names.SNAPSHOTS, through), (names.STANDINGS, stable)):
                for old in self._store.document_numbers(folder):
                    if old < kept:
                        self._store.delete_document(f"{folder}/{names.number(old)}")
        return max(count, 0)

    def _stable(self) -> int:
        """The epoch before the reconfiguration that was begun last."""
        number = self.last
        record = self._log.read(number)
        while record is not None and record.get("stage", [1])[0] > 1:
            number -= 1
            record = self._log.read(number)
        return number - 1 if record is None else int(record.get("stable", number - 1))

    def oldest(self) -> tuple[int, Deployment]:
        """The first epoch that is still known whole: a region that is new begins to read after it."""
        number = min(self._store.document_numbers(names.SNAPSHOTS), default=0)
        if self._log.read(1) is not None:
            return 0, Deployment()
        return number, self.deployment_at(number)

    def deployment_at(self, number: int) -> Deployment:
        """The deployment after the epoch of that number."""
        nearest = max((n for n in self._store.document_numbers(names.SNAPSHOTS) if n <= number), default=0)
        deployment = Deployment()
        if nearest:
            deployment = decode(self._store.get_document(f"{names.SNAPSHOTS}/{names.number(nearest)}"))
        for at, after, _ in self.after(nearest, deployment):
            if at > number:
                break
            deployment = after
        return deployment

    def standing(self, number: int | None = None) -> Standing:
        """Where the control plane stood after an epoch (None: the last one)."""
        number = self.last if number is None else number
        nearest = max((n for n in self._store.document_numbers(names.STANDINGS) if n <= number), default=0)
        standing = Standing()
        if nearest:
            standing = Standing.from_json(self._store.get_document(f"{names.STANDINGS}/{names.number(nearest)}"))
        topologies = {nearest: standing.topology}
        for at, record in self._log.after(nearest):
            if at > number:
                break
            standing = standing.after(record, topologies)
            topologies[at] = standing.topology
        return standing

    def held(self) -> tuple[Migration, ...]:
        """What the last epoch has regions hold back until another one comes."""
        record = self._log.newest()
        return () if record is None else tuple(move for move in moves_of(record) if move.held)

    def after(self, number: int, deployment: Deployment) -> Iterator[tuple[int, Deployment, Record]]:
        """(number, deployment, record) of every epoch past `number`, whose deployment is given."""
        for at, record in self._log.after(number):
            deployment = deployment.apply(decode(record["delta"]))
            yield at, deployment, record

    def start(self, number: int, source: str) -> int:
        """Where a source log ("region/stream") stood when an epoch past `number` first needed it."""
        found = (record["starts"][source] for _, record in self._log.after(number) if source in record["starts"])
        return next(found, 0)

    def exists(self, number: int) -> bool:
        return self._log.exists(number)


def moves_of(record: Record) -> tuple[Migration, ...]:
    """The instances of all shapes that change region with an epoch."""
    return tuple(map(Migration.from_json, record["moves"]))
