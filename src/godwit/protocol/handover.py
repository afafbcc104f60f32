"""Handing state over: when a region may, what its new home waits for. Pure; the runtime and the simulator both run it.

Every commit of a region carries the epoch under which it was made, and that is the reconfiguration marker: after a
region's first commit under epoch e, everything it sends goes where epoch e says. An operator k is *drained* up to epoch
e in a region when the region works under e and every region's operators that feed k are drained up to e: no row that
was routed by an older epoch can still come out of k there.

An instance that moves at epoch e from region A to region B:
- B owns it from epoch e on, starts at once, and holds its clock until A's state has come;
- A sends the state when all that feeds the instance is drained up to e, and when everything that A itself was waiting
  for (an earlier move towards A) has come. So hand-overs follow the chain of owners, however fast an instance moves.

Every row of state carries its generation: the epoch since which its region owns the instance. A hand-over takes the
rows whose generation is older than the move, and the rows that arrive get the new owner's generation. Rows of one
generation have met each other; rows of two meet once, when the older ones arrive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from godwit.ids import Epoch, QueryId, RegionId
from godwit.model.codec import decode, encode
from godwit.model.deployment import Deployment
from godwit.model.instances import InstanceId, instance_id
from godwit.model.plan import Plan
from godwit.model.routing import REST, KeySet
from godwit.protocol.watermarks import FOREVER

#: what moves as one, and what the ledger's tables are keyed by: `Migration.instance` and `instance_of` make it
Instance = tuple[QueryId, int]


def instance_of(query: QueryId, operator: int) -> Instance:
    return query, operator


@dataclass(frozen=True)
class Migration:
    """A holistic instance changes region at an epoch."""

    epoch: Epoch
    query: QueryId
    operator: int
    source: RegionId
    target: RegionId
    #: the sites between which the state travels
    from_site: str = ""
    to_site: str = ""
    #: of which keys the state moves
    keys: KeySet = REST

    @property
    def instance(self) -> Instance:
        return instance_of(self.query, self.operator)

    def __lt__(self, other: Migration) -> bool:
        """Older moves first; key sets have no order of their own, their texts have."""
        return (*self._row(), str(self.keys)) < (*other._row(), str(other.keys))

    def to_json(self) -> list[Any]:
        return self._row() if self.keys == REST else [*self._row(), encode(self.keys)]

    @staticmethod
    def from_json(record: list[Any]) -> Migration:
        return Migration(*record[:7], *map(decode, record[7:]))

    def _row(self) -> list[Any]:
        return [self.epoch, self.query, self.operator, self.source, self.target, self.from_site, self.to_site]


@dataclass(frozen=True)
class EpochChange:
    """One epoch as a region reads it from the control log."""

    deployment: Deployment
    #: every stateful instance that changes region with it, of all shapes
    moves: tuple[Migration, ...] = ()
    #: regions that are declared lost under it: nobody waits for them, and nothing they still write counts
    fenced: frozenset[RegionId] = frozenset()

    def moves_of(self, shape: str) -> list[Migration]:
        """The moves of one shape's queries."""
        queries = self.deployment.queries
        return [move for move in self.moves if move.query in queries and queries[move.query].shape.key == shape]


def moves_between(old: Deployment, new: Deployment, shape: str) -> list[Migration]:
    """Which stateful instances of a shape's queries changed region; queries that are new or gone have none."""
    found = []
    for query in new.of_shape(shape):
        if query.id not in old.queries:
            continue
        for operator, node in enumerate(query.shape.plan.operators):
            # Without state there is nothing to wait for, and nobody would ever send it.
            if not node.stateful:
                continue
            instance = instance_id(query.id, operator)
            before, after = _region(old, instance), _region(new, instance)
            if before is not None and after is not None and before != after:
                sites = str(old.placement[instance]), str(new.placement[instance])
                found.append(Migration(new.epoch, query.id, operator, before, after, *sites))
    return found


def _region(deployment: Deployment, instance: InstanceId) -> RegionId | None:
    node = deployment.placement.get(instance)
    return None if node is None else deployment.region_of(node)


@dataclass
class MigrationLedger:
    """What one region knows of the moves of one shape's instances."""

    region: RegionId
    plan: Plan
    #: the epoch this region works under
    epoch: Epoch
    #: (region, operator) -> up to which epoch that operator is drained there
    drained: dict[tuple[RegionId, int], Epoch] = field(default_factory=dict)
    #: this region has to send these
    outgoing: list[Migration] = field(default_factory=list)
    #: this region waits for these
    incoming: list[Migration] = field(default_factory=list)
    #: where an instance lives and lived: (epoch, region), oldest first; only instances that ever moved, and no more of
    #: their past than rows that may still come can ask for (`cut`)
    owners: dict[Instance, tuple[tuple[Epoch, RegionId], ...]] = field(default_factory=dict)
    #: since when queries that had been parked go on: until everybody has let out their rows, their clocks are held
    resumed: dict[QueryId, Epoch] = field(default_factory=dict)

    def adopt(self, epoch: Epoch, moves: Iterable[Migration]) -> None:
        """Work under a new epoch from now on."""
        for move in sorted(moves):
            history = self.owners.get(move.instance, ((Epoch(0), move.source),))
            self.owners[move.instance] = (*history, (move.epoch, move.target))
            if move.source == self.region:
                self.outgoing.append(move)
            if move.target == self.region:
                self.incoming.append(move)
        self.epoch = epoch

    def hear(self, region: RegionId, markers: Mapping[int, Epoch]) -> None:
        """Another region's (or our own) commit says how far its operators are drained."""
        for operator, epoch in markers.items():
            key = (region, operator)
            self.drained[key] = max(self.drained.get(key, Epoch(0)), epoch)

    def markers(self, regions: Iterable[RegionId]) -> dict[int, Epoch]:
        """How far each operator is drained here; goes into the next commit. `regions`: all that may still send rows."""
        regions = set(regions) | {self.region}
        own: dict[int, Epoch] = {}
        for index, operator in enumerate(self.plan.operators):
            feeds = [
                own[child] if region == self.region else self.drained.get((region, child), Epoch(0))
                for child in operator.inputs
                for region in regions
            ]
            own[index] = min([self.epoch, *feeds])
        return own

    def ready(self, markers: Mapping[int, Epoch]) -> list[Migration]:
        """The moves whose state can be sent now, oldest first. `markers`: our own, after this micro-batch."""
        found: list[Migration] = []
        blocked: set[Instance] = set()
        for move in self.outgoing:
            waiting = any(m.instance == move.instance and m.epoch < move.epoch for m in self.incoming)
            if move.instance in blocked or waiting or markers[move.operator] < move.epoch:
                blocked.add(move.instance)
            else:
                found.append(move)
        return found

    def sent(self, move: Migration) -> None:
        self.outgoing.remove(move)

    def arrived(self, move: Migration) -> None:
        if move in self.incoming:
            self.incoming.remove(move)

    def held(self, query: QueryId, operator: int, markers: Mapping[int, Epoch]) -> bool:
        """Whether the instance must not let its clock go on: state is on its way, or old rows may still be."""
        if any(m.instance == instance_of(query, operator) for m in self.incoming):
            return True
        return markers[operator] < self.latest(query)

    def dead_before(self, operator: int, clocks: Mapping[QueryId, int], now: Deployment) -> int:
        """The clock of an operator's state here: the least of the queries that may have rows in it.

        Those are the ones that live here or are still to be handed over. The others' rows have gone, and their clocks,
        which stand still here, must not keep what is left.
        """
        leaving = {m.query for m in self.outgoing if m.operator == operator}
        lives_here = {q for q in clocks if self.region in now.owners(now.queries[q], operator)}
        return min((clocks[q] for q in lives_here | (leaving & clocks.keys())), default=FOREVER)

    def latest(self, query: QueryId | None = None) -> Epoch:
        """The newest epoch at which an instance of the query (None: of any) moved, or at which it went on."""
        moved = [history[-1][0] for (q, _), history in self.owners.items() if query in (None, q)]
        return max([*moved, *(epoch for q, epoch in self.resumed.items() if query in (None, q))], default=Epoch(0))

    def owned_since(self, query: QueryId, operator: int, epoch: Epoch) -> Epoch:
        """The generation of rows that reach the instance here under an epoch: since when this region owns it."""
        since = Epoch(0)
        for start, region in self.owners.get(instance_of(query, operator), ()):
            if start <= epoch and region == self.region:
                since = start
        return since

    def forget(self, query: QueryId) -> None:
        """The query is gone."""
        self.outgoing[:] = [m for m in self.outgoing if m.query != query]
        self.incoming[:] = [m for m in self.incoming if m.query != query]
        for instance in [instance for instance in self.owners if instance[0] == query]:
            del self.owners[instance]
        self.resumed.pop(query, None)

    def fence(self, region: RegionId, announced: Collection[Migration] = ()) -> list[Migration]:
        """The region is lost: its word is not waited for, nor its state, but what it has `announced` already.

        Returns the moves whose state is lost.
        """
        lost = [move for move in self.incoming if move.source == region and move not in announced]
        self.incoming[:] = [move for move in self.incoming if move not in lost]
        for key in [key for key in self.drained if key[0] == region]:
            del self.drained[key]
        return lost

    def cut(self, markers: Mapping[int, Epoch]) -> None:
        """Forget what no row can ask for any more. `markers`: our own, as the commit that is being made publishes them.

        Rows that reach an operator from now on were routed by an epoch at or after its marker. For them it matters
        when this region last became the owner, and everything since the marker.
        """
        for instance, history in self.owners.items():
            drained = markers[instance[1]]
            passed = [start for start, region in history[:-1] if region == self.region and start <= drained]
            last = max(passed, default=None)
            kept = tuple(e for e in history[:-1] if e[0] > drained or (e[0] == last and e[1] == self.region))
            if len(kept) + 1 < len(history):
                self.owners[instance] = (*kept, history[-1])
        everywhere = min(markers.values(), default=Epoch(0))
        for query in [query for query, epoch in self.resumed.items() if epoch <= everywhere]:
            del self.resumed[query]
