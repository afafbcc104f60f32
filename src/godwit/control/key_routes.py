"""One phase of a migration of keys, written into the planner's tables: an operator's routes, and what moves by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from godwit.control.plan_state import Planner
from godwit.errors import DeploymentError
from godwit.ids import Epoch, NodeId, QueryId, RegionId, SiteId
from godwit.migration.key_migrations import RouteKeys
from godwit.migration.phases import Cancel, Copy, Proceed, Release, Suspend, Switch
from godwit.model.instances import instance_id
from godwit.model.keys import HashRange, Key, KeySet, Listed, Rest, buckets_of, ranges
from godwit.model.plan import Operator
from godwit.model.routing import Route, RouteTable
from godwit.protocol.handover import Migration

SUSPENDED = "its keys are migrating"


def route_keys(planner: Planner, change: RouteKeys) -> None:
    """Where the keys are is looked up now: the operator may have moved since the migration was asked for."""
    table, key = route_table(planner, change.query, change.operator), (change.query, change.operator)
    if table is None or planner.rows.queries[change.query].until:
        return  # (a version that has ended leaves its state where it is)
    match change.phase:
        case Suspend():
            if not planner.has_no_place(change.query):  # (otherwise its rows wait as it is, until it has one)
                planner.journal.put(planner.suspended, change.query, None)
                planner.journal.put(planner.rows.parked, change.query, SUSPENDED)
            return
        case Proceed():
            planner.journal.drop(planner.suspended, change.query)
            if planner.rows.parked.get(change.query) == SUSPENDED:
                planner.journal.drop(planner.rows.parked, change.query)
            return
        case Copy(dual, refresh):
            away = [(route, part) for route, part in by_region(table, change.keys) if route.process != change.target]
            if len(away) != 1:
                return  # a copy has one source, and had when the migration began
            moves = [replace(_move(planner, change, *away[0]), copy=True, dual=dual, shadow=refresh)]
            for _, part in table.portions(away[0][1]) if isinstance(away[0][1], Listed) else away:
                table = table.copied(part, change.target, dual, change.number)
        case Switch() as switch:
            moves = list(_switched(planner, change, switch, table))
            table = table.moved(change.keys, change.target, change.site)
        case Release():
            # Nothing changes but the epoch.
            moves = [replace(_move(planner, change, table.rest, change.keys), cancel=True, release=True)]
        case Cancel():
            held = by_region(table, change.keys)
            moves = [replace(_move(planner, change, *one), copy=True, shadow=True, cancel=True) for one in held]
            table = table.uncopied(change.keys)
    planner.journal.put(planner.rows.key_routes, key, table)
    planner.pending_moves(moves)


def by_region(table: RouteTable, keys: KeySet) -> list[tuple[Route, KeySet]]:
    """Who processes which part of a key set; listed keys of one region are one part, whichever routes name them."""
    portions = table.portions(keys)
    if not isinstance(keys, Listed):
        return portions
    by: dict[RegionId, list[tuple[Route, frozenset[Key]]]] = {}
    for route, part in portions:
        assert isinstance(part, Listed)
        by.setdefault(route.process, []).append((route, part.keys))
    return [(some[0][0], Listed(frozenset[Key]().union(*(part for _, part in some)))) for some in by.values()]


def _switched(planner: Planner, change: RouteKeys, switch: Switch, table: RouteTable) -> Iterator[Migration]:
    for route, part in by_region(table, change.keys):
        if route.process == change.target:
            continue
        move = _move(planner, change, route, part)
        move = replace(
            move, wait=switch.wait, ordered=switch.ordered, paced=switch.paced, held=switch.held, dual=change.dual
        )
        for some in _single(part) if switch.paced else [part]:
            yield replace(move, keys=some, shadow=change.shadow)


def _single(keys: KeySet) -> Iterator[KeySet]:
    """What is fetched at once: a key, or a bucket."""
    match keys:
        case Listed(some):
            yield from (Listed(frozenset({key})) for key in sorted(some))
        case HashRange(but=but):
            yield from (part for bucket in sorted(buckets_of(keys)) for part in ranges([bucket], but))
        case Rest():
            yield keys


def _move(planner: Planner, change: RouteKeys, route: Route, part: KeySet) -> Migration:
    home = planner.rows.placement.get(instance_id(change.query, change.operator))
    ends = (route.process, change.target, route.site or str(home or ""), change.site)
    return Migration(Epoch(0), change.query, change.operator, *ends, part, change.number, since=change.since)


def route_table(planner: Planner, query: QueryId, operator: int) -> RouteTable | None:
    """The routes of an operator as they are; None: the query is gone, or has never had a place."""
    region = region_of(planner, planner.rows.placement.get(instance_id(query, operator)))
    if query not in planner.rows.queries or region is None:
        return None
    table = planner.rows.key_routes.get((query, operator))
    return RouteTable.undivided(region) if table is None else table.following(region)


def region_of(planner: Planner, node: NodeId | None) -> RegionId | None:
    return None if node is None else planner.rows.sites.get(SiteId(node))


def check_migration(
    planner: Planner, query: QueryId, operator: int, keys: KeySet, site: SiteId
) -> tuple[Operator, RegionId]:
    """The operator and the region that keys go to; DeploymentError says why they cannot."""
    known = planner.rows.queries.get(query)
    if known is None:
        msg = f"there is no query '{query}' whose keys could move; `godwit status` lists those that run"
        raise DeploymentError(msg)
    operators = known.shape.plan.operators
    if not 0 <= operator < len(operators):
        msg = f"'{query}' has no operator {operator}; `godwit explain {query}` shows those it has"
        raise DeploymentError(msg)
    node = operators[operator]
    if not node.stateful or not node.state[0].keys:
        able = ", ".join(f"{query}/{i}" for i, op in enumerate(operators) if op.stateful and op.state[0].keys)
        msg = f"{query}/{operator} ({type(node).__name__}) keeps no state by key; of this query: {able or 'none does'}"
        raise DeploymentError(msg)
    if isinstance(keys, Rest):
        msg = f"the rest of the keys is where {query}/{operator} is placed; move the operator, or name buckets 0 to 64"
        raise DeploymentError(msg)
    width = len(node.state[0].keys)
    wrong = [key for key in keys.keys if len(key) != width] if isinstance(keys, Listed) else []
    if wrong:
        msg = f"key {'/'.join(wrong[0])} has {len(wrong[0])} columns; the keys of {query}/{operator} have {width}"
        raise DeploymentError(msg)
    region = planner.topology.region_of(NodeId(site)) if site in planner.topology.sites else None
    if region is None:
        msg = f"keys cannot go to '{site}': there is no such site, or it is being removed; add it first"
        raise DeploymentError(msg)
    home = planner.rows.placement.get(instance_id(query, operator))
    if home is None or planner.topology.path(home, NodeId(site)) is None:
        msg = (
            f"keys cannot go to '{site}': no path leads there from {home or 'where the operator is'}; add a link first"
        )
        raise DeploymentError(msg)
    return node, region
