"""From what a user says of keys to a key set: patterns are resolved to the keys there are, types are checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from pyspark.sql import functions as F

from godwit.api.core import FleetCore
from godwit.api.key_names import COLUMN, in_words
from godwit.control.commands import MigrateKeys
from godwit.control.events import KeysAsked
from godwit.control.key_routes import check_migration, route_table
from godwit.engine import lazy_frame
from godwit.errors import DeploymentError
from godwit.ids import NodeId, QueryId, SiteId
from godwit.migration.phases import chosen, phases
from godwit.model.instances import instance_id
from godwit.model.keys import BUCKETS, KEY_SEPARATOR, HashRange, Key, KeySet, Listed
from godwit.model.plan import QUERY, Partial, Plan, Query, Scan
from godwit.model.signature import StateKey
from godwit.region.key_join import parted
from godwit.region.key_sql import key_text
from godwit.region.sql_text import text
from godwit.region.state import State

_WHOLE = re.compile(r"[+-]?\d+")
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "long", "short", "byte", "integer")


def asked_keys(fleet: FleetCore, command: MigrateKeys) -> KeysAsked:
    """The question for the control plane; DeploymentError says what cannot be meant. Nothing has changed then."""
    query, operator = _operator(fleet, _named(fleet, command.query), command.operator)
    check_migration(fleet.plane.planner, query.id, operator, HashRange(0, BUCKETS), SiteId(command.site))
    return KeysAsked(
        query.id, operator, _set(fleet, query, operator, command.keys), SiteId(command.site), command.strategy
    )


def _named(fleet: FleetCore, name: str) -> Query:
    """A query by its name, or a part that queries share."""
    shared = {part for query in fleet.queries for part in fleet.execution(QueryId(query)).parts}
    return fleet.execution(QueryId(name) if name in shared else fleet.known(name))


def _operator(fleet: FleetCore, query: Query, wanted: int | None) -> tuple[Query, int]:
    """The operator whose keys are meant, and the query that it is an operator of: this one, or a part that it reads."""
    if wanted is not None:
        return query, wanted
    reads = (query, *map(fleet.execution, query.parts))
    able = [
        (one, i, op)
        for one in reads
        for i, op in enumerate(one.shape.plan.operators)
        if i in one.executed and op.stateful and op.state[0].keys
    ]
    if len(able) == 1:
        return able[0][:2]
    if not able:
        msg = f"'{query.id.partition('~')[0]}' keeps no state by key, so it has no keys to move"
        raise DeploymentError(msg)
    which = ", ".join(f"{one.id}/{i} ({op.describe()})" for one, i, op in able)
    msg = f"'{query.id}' has {len(able)} operators that keep state by key; name one: {which}"
    raise DeploymentError(msg)


def _set(fleet: FleetCore, query: Query, operator: int, keys: tuple[str, ...]) -> KeySet:
    if keys == ("*",):
        return HashRange(0, BUCKETS)  # all that are not listed; new ones, too
    if keys and keys[0] == "buckets":
        return _range(keys[1:])
    patterns = [key for key in keys if "*" in key or "?" in key]
    types = key_types(query.shape.plan, operator, fleet)
    found = {_key(key, types, query.id, operator) for key in keys if key not in patterns}
    if patterns:
        there = known_keys(fleet, query, operator)
        found |= {key for key in there if any(fnmatchcase(COLUMN.join(key), one) for one in patterns)}
    if not found:
        msg = f"no key of {query.id}/{operator} is like {in_words(keys) or 'that'}; name keys one by one"
        raise DeploymentError(msg)
    return Listed(frozenset(found))


def _range(given: tuple[str, ...]) -> HashRange:
    if len(given) != 2 or not all(_WHOLE.fullmatch(one) for one in given):
        msg = f"write a range of buckets as buckets/LOW/HIGH, 0 <= LOW < HIGH <= {BUCKETS}, not {'/'.join(given)}"
        raise DeploymentError(msg)
    low, high = map(int, given)
    if not 0 <= low < high <= BUCKETS:
        msg = f"buckets {low} to {high} are not within 0 to {BUCKETS}; choose 0 <= LOW < HIGH <= {BUCKETS}"
        raise DeploymentError(msg)
    return HashRange(low, high)


def _key(given: str, types: Sequence[str | None], query: QueryId, operator: int) -> Key:
    key = tuple(given.split(COLUMN)) if len(types) > 1 else (given,)
    if len(key) != len(types):
        msg = f"key '{given}' has {len(key)} columns; those of {query}/{operator} have {len(types)}: write a/b/.."
        raise DeploymentError(msg)
    for part, kind in zip(key, types, strict=True):
        if kind in _NUMBERS and not _WHOLE.fullmatch(part):
            msg = f"key '{given}' of {query}/{operator} is not of type {kind}; give a whole number"
            raise DeploymentError(msg)
    return tuple(str(int(p)) if kind in _NUMBERS else p for p, kind in zip(key, types, strict=True))


def key_types(plan: Plan, operator: int, fleet: FleetCore) -> tuple[str | None, ...]:
    """The type of each column of an operator's key, where it is a stream's column; None: an expression's."""
    return tuple(_type(plan, operator, sql.strip("`"), fleet) for sql in plan.operators[operator].state[0].keys)


def _type(plan: Plan, operator: int, sql: str, fleet: FleetCore) -> str | None:
    for child in plan.operators[operator].inputs:
        node = plan.operators[child]
        if isinstance(node, Partial):
            sql = next((key.sql for key in node.keys if key.name == sql), sql)
        if isinstance(node, Scan):
            columns = fleet.deployment.streams[node.stream].columns
            return next((c.type for c in columns if f"{node.alias}__{c.name}" == sql), None)
        if (found := _type(plan, child, sql, fleet)) is not None:
            return found
    return None


def known_keys(fleet: FleetCore, query: Query, operator: int) -> set[Key]:
    """The keys that an operator holds state of now, in any region."""
    found: set[Key] = set()
    for state in _states(fleet, query, operator):
        rows = state.read(fleet.spark)
        if rows is not None:
            sql = query.shape.plan.operators[operator].state[0].keys
            mine = lazy_frame.made(rows).where(F.col(QUERY) == query.id).selectExpr(f"{key_text(sql)} AS k").distinct()
            found |= {tuple(row["k"].split(KEY_SEPARATOR)) for row in mine.collect()}
    return found


def _states(fleet: FleetCore, query: Query, operator: int) -> Iterable[State]:
    key = StateKey(query.shape.signatures[operator], 0)
    for runner in fleet.runners_of(query.shape.key):
        yield State(list(runner.memory.states.get(key, State()).live))


def explain_keys(fleet: FleetCore, asked: KeysAsked) -> str:
    """What a migration would move: from where, over which links, how much."""
    node, region = check_migration(fleet.plane.planner, asked.query, asked.operator, asked.keys, asked.site)
    strategy = chosen(asked.strategy, node)
    table = route_table(fleet.plane.planner, asked.query, asked.operator)
    lines = []
    for route, part in table.portions(asked.keys) if table is not None else ():
        source = route.site or str(_home(fleet, asked))
        way = fleet.path(NodeId(source), NodeId(asked.site)) or ()
        if route.process == region:
            lines.append(f"{part}: in {region} already")
            continue
        size, rows = _weight(fleet, asked, part)
        lines.append(f"{part}: {route.process} -> {region} over {' - '.join(way)}: {rows} rows, about {size} bytes")
    steps = ", ".join(type(phase).__name__.lower() for phase in phases(strategy))
    return "\n".join([f"{asked.query}/{asked.operator} by {strategy} ({steps})", *(lines or ["nothing to move"])])


def _home(fleet: FleetCore, asked: KeysAsked) -> NodeId:
    return fleet.deployment.placement[instance_id(asked.query, asked.operator)]


def _weight(fleet: FleetCore, asked: KeysAsked, part: KeySet) -> tuple[int, int]:
    """(bytes, rows) of the state of some keys; bytes as their share of the rows would have it."""
    query, size, count = fleet.deployment.queries[asked.query], 0.0, 0
    sql = query.shape.plan.operators[asked.operator].state[0].keys
    for state in _states(fleet, query, asked.operator):
        rows = state.read(fleet.spark)
        if rows is not None:
            mine = lazy_frame.made(parted(rows, f"{QUERY} = {text(query.id)}", part, sql)[0]).count()
            count += mine
            size += state.bytes * mine / max(state.rows, 1)
    return round(size), count
