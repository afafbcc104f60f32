"""`godwit migrate --dry-run`: which keys of a fleet would move where, from its folder alone."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase

from godwit.control.commands import MigrateKeys
from godwit.errors import DeploymentError
from godwit.ids import NodeId, QueryId, SiteId
from godwit.migration.phases import chosen, phases
from godwit.model.instances import instance_id
from godwit.model.keys import BUCKETS, HashRange, Key, KeySet, Listed, contains
from godwit.model.routing import Route, RouteTable
from godwit.observe.key_usage import Held
from godwit.observe.status import Ledger
from godwit.storage.epoch_log import Control
from godwit.storage.open_store import open_store


def explained(folder: str, command: MigrateKeys) -> str:
    """From what the fleet's folder says, without asking the fleet."""
    store = open_store(folder)
    control = Control(store)
    deployment, topology = control.deployment_at(control.last), control.standing().topology
    known = deployment.queries.get(QueryId(command.query))
    if known is None:
        msg = f"there is no query '{command.query}'; running: {', '.join(deployment.queries) or 'none'}"
        raise DeploymentError(msg)
    able = [i for i, op in enumerate(known.shape.plan.operators) if op.stateful and op.state[0].keys]
    number = able[0] if command.operator is None and len(able) == 1 else command.operator
    if number not in able:
        msg = f"name the operator of '{command.query}' with --operator, one of {', '.join(map(str, able)) or 'none'}"
        raise DeploymentError(msg)
    region = topology.region_of(NodeId(command.site)) if SiteId(command.site) in topology.sites else None
    if region is None:
        msg = f"keys cannot go to '{command.site}': there is no such site; add it first"
        raise DeploymentError(msg)
    name = chosen(command.strategy, known.shape.plan.operators[number])
    table, home = deployment.routes(known, number), deployment.placement.get(instance_id(known.id, number))
    table = table or RouteTable.undivided(region)
    held = Ledger(store).keys_held(known.id, number)
    lines = [f"{known.id}/{number} by {name} ({', '.join(type(phase).__name__.lower() for phase in phases(name))})"]
    for route, part in table.portions(_keys(command.keys, {key for keys in (held or {}).values() for key in keys})):
        if route.process == region:
            lines.append(f"{part}: in {region} already")
            continue
        way = topology.path(NodeId(route.site or str(home)), NodeId(command.site)) or ()
        size = _weight(held, route, part, table)
        lines.append(f"{part}: {route.process} -> {region} over {' - '.join(way) or 'no link that is there'}: {size}")
    return "\n".join(lines)


def _weight(held: Held | None, route: Route, part: KeySet, table: RouteTable) -> str:
    """How much there is of these keys in the region that processes them."""
    if held is None:
        return "size not known (its keys are expressions; ask fleet.migrate(..., dry_run=True))"
    mine = [u for key, u in held.get(route.process, {}).items() if contains(part, key) and table.route_of(key) == route]
    return f"{len(mine)} keys, {sum(rows for rows, _ in mine)} rows, about {round(sum(size for _, size in mine))} bytes"


def _keys(keys: tuple[str, ...], there: Collection[Key]) -> KeySet:
    """As the fleet would take them: patterns stand for the keys that there is state of."""
    if keys == ("*",):
        return HashRange(0, BUCKETS)
    if keys[0] == "buckets" and len(keys) == 3:
        return HashRange(int(keys[1]), int(keys[2]))
    patterns = [key for key in keys if "*" in key or "?" in key]
    found = {key for key in there if any(fnmatchcase("/".join(key), one) for one in patterns)}
    named = {tuple(key.split("/")) for key in keys if key not in patterns}
    if not (found or named):
        msg = f"no key that there is state of is like {', '.join(keys)}; name keys one by one"
        raise DeploymentError(msg)
    return Listed(frozenset(found | named))
