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

A version of a query that ends at epoch e *leaves* its state in the same way: when all that feeds the operator is
drained. The version that begins at e, under another plan, *inherits* it like state from another region.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from godwit.ids import Epoch, QueryId, RegionId
from godwit.model.codec import decode, encode
from godwit.model.deployment import Deployment
from godwit.model.instances import InstanceId, instance_id
from godwit.model.keys import REST, KeySet, Listed
from godwit.model.plan import Operator

#: what moves as one, and what the ledger's tables are keyed by: `Migration.instance` and `instance_of` make it
Instance = tuple[QueryId, int]
#: keys of an instance, and the watermark up to which every row of them has been answered, wherever it is
Answered = tuple[tuple[KeySet, int], ...]


def instance_of(query: QueryId, operator: int) -> Instance:
    return query, operator


@dataclass(frozen=True)
class Migration:
    """Keys of a holistic instance (all of them, if none are named) change region at an epoch."""

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
    #: the migration of keys that it is a phase of; 0: the instance was placed elsewhere
    number: int = 0
    #: the source goes on processing; a copy of its state goes into a shadow at the target
    copy: bool = False
    #: there is a shadow of the same migration, which it continues, completes or cancels
    shadow: bool = False
    #: generations before this one are in the shadow already
    since: int = 0
    #: rows are sent to both while the copy lasts: the shadow has them, and nothing is left to send in the end
    dual: bool = False
    #: the copy is of no use any more
    cancel: bool = False
    #: rows wait at the target until the state is there
    wait: bool = False
    #: the target's first output comes after the source's last, also to whoever reads both
    ordered: bool = True
    #: the state is sent when it is asked for, or when there is nothing else to send
    paced: bool = False
    #: the state is not sent under the epoch that says so, but under the next: every region has stopped the keys then
    held: bool = False
    #: nothing moves: held state may go
    release: bool = False
    #: the state leaves its query, for another version of it that has another plan: no target waits for it as it is
    leaves: bool = False
    #: the state is made of what the query's version before has left
    inherits: bool = False
    #: there is no state: results leave at the target from now on, behind the last of the source's (`session_order.py`)
    sink: bool = False

    @property
    def instance(self) -> Instance:
        return instance_of(self.query, self.operator)

    @property
    def goes_before(self) -> int:
        """Rows of generations before this one go with it. A query that its state leaves takes in none any more, so all
        of them do, also those that moved here in the same epoch."""
        return int(self.epoch) + self.leaves

    def __lt__(self, other: Migration) -> bool:
        """Older moves first; key sets have no order of their own, their texts have."""
        return (*self._row(), _text(self.keys)) < (*other._row(), _text(other.keys))

    def to_json(self) -> list[Any]:
        flags = {f.name: getattr(self, f.name) for f in fields(self)[8:] if getattr(self, f.name) != f.default}
        if flags:
            return [*self._row(), encode(self.keys), flags]
        return self._row() if self.keys == REST else [*self._row(), encode(self.keys)]

    @staticmethod
    def from_json(record: list[Any]) -> Migration:
        keys = decode(record[7]) if len(record) > 7 else REST
        epoch, query, operator, source, target, from_site, to_site = record[:7]
        flags = record[8] if len(record) > 8 else {}
        return Migration(epoch, query, operator, source, target, from_site, to_site, keys, **flags)

    def _row(self) -> list[Any]:
        return [self.epoch, self.query, self.operator, self.source, self.target, self.from_site, self.to_site]


def _text(keys: KeySet) -> str:
    return keys.digest if isinstance(keys, Listed) else str(encode(keys))


def stands_apart(move: Migration, operator: Operator) -> bool:
    """Whether rows of keys that migrate wait for their state apart, and all other keys go on.

    That is so where results come with the watermark: there is none before the state anyway. The watermark passes by
    what waits; when the state comes, both are taken in together, and what was passed by is answered at once.
    """
    return bool(move.number) and not move.copy and operator.emits == "watermark"


def rows_wait(move: Migration, operator: Operator) -> bool:
    """Whether rows wait at the target until the state of a move has come: where it was asked for, where state cannot be
    merged later, or where others need not wait for them."""
    return not move.copy and (move.wait or operator.late_state != "merge" or stands_apart(move, operator))


def answered_to_json(answered: Answered) -> list[Any]:
    return [[encode(keys), clock] for keys, clock in answered]


def answered_from_json(record: Iterable[Any]) -> Answered:
    return tuple((decode(keys), clock) for keys, clock in record)


@dataclass(frozen=True)
class EpochChange:
    """One epoch as a region reads it from the control log."""

    deployment: Deployment
    #: every stateful instance that changes region with it, of all shapes
    moves: tuple[Migration, ...] = ()
    #: regions that are declared lost under it: nobody waits for them, and nothing they still write counts
    fenced: frozenset[RegionId] = frozenset()

    def moves_of(self, shape: str) -> list[Migration]:
        """The moves of one shape's queries. The rest of divided keys is all but those that other routes name."""
        queries = self.deployment.queries
        mine = [move for move in self.moves if move.query in queries and queries[move.query].shape.key == shape]
        tables = self.deployment.key_routes
        return [
            replace(move, keys=tables[move.instance].effective(REST))
            if move.keys == REST and move.instance in tables
            else move
            for move in mine
        ]


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


def sinks_between(old: Deployment, new: Deployment, shape: str) -> list[Migration]:
    """Of which of a shape's queries the results leave in another region from now on."""
    found = []
    for query in new.of_shape(shape):
        sink = len(query.shape.plan.operators) - 1
        instance = instance_id(query.id, sink)
        before, after = _region(old, instance), _region(new, instance)
        known = query.id in old.queries and not query.scattered
        if known and before is not None and after is not None and before != after:
            found.append(Migration(new.epoch, query.id, sink, before, after, wait=True, sink=True))
    return found


def _region(deployment: Deployment, instance: InstanceId) -> RegionId | None:
    node = deployment.placement.get(instance)
    return None if node is None else deployment.region_of(node)
