"""From what the planner wrote to a stage: rows, contexts, migrations and what the marker needs."""

from __future__ import annotations

from dataclasses import replace

from godwit.control.diff import diff
from godwit.control.pending import Pending
from godwit.control.plan_state import Planner
from godwit.control.stage import Stage
from godwit.ids import Epoch, NodeId, QueryId, RegionId, SiteId
from godwit.migration.base import Moved, steps
from godwit.model.deployment import Delta
from godwit.model.instances import InstanceId
from godwit.protocol.handover import Migration


def finish(planner: Planner, since: int, cause: str) -> Stage:
    """Everything that was written since the mark, as one stage."""
    pending = planner.take_pending()
    was = planner.journal.changed(planner.ground.placement, since)
    edits = planner.subplans.update(was, pending.cut, pending.joined)
    _sync_rows(planner, pending, was)
    _drop_departed(planner)
    rows = planner.journal.changed(planner.rows.placement, since)
    moved = _moved(planner, pending, rows)
    delta = _declared(planner, planner.rows.delta(planner.journal, since, pending.sessions, pending.forgotten, cause))
    all_steps = tuple(step for one in moved for step in steps(planner.state, one))
    return Stage(
        delta,
        _undo(planner, since, cause),
        tuple(edits),
        moved,
        all_steps,
        frozenset(i for i, node in was.items() if node is not None and _stateful(planner, i)),
        _queries(planner, was, delta),
        tuple(name for name in sorted(rows) if _is_stateful(planner, name)),
        tuple(sorted(pending.lost)),
        diff(was, {instance: planner.ground.placement.get(instance) for instance in was}),
        frozenset(edit.node for edit in edits if edit.after is not None) | {n for m in moved for n in m.path},
        (*_moves(planner, rows, planner.journal.changed(planner.rows.sites, since)), *pending.key_moves),
    )


def _declared(planner: Planner, delta: Delta) -> Delta:
    """With the streams that were not published yet."""
    streams, planner.undeclared = planner.undeclared, {}
    if not streams:
        return delta
    return replace(delta, streams=streams, feeds={**delta.feeds, **{s: planner.rows.feeds[s] for s in streams}})


def _sync_rows(planner: Planner, pending: Pending, was: dict[InstanceId, NodeId | None]) -> None:
    """Write the queries' own rows of all instances that changed; an instance without a place keeps its last row."""
    names = set(pending.names)
    for instance in was:
        names.update(planner.plan.names.get(instance, ()))
    for name in names:
        query = name.query
        uses = planner.plan.uses(query) if query in planner.rows.queries else {}
        shared = uses.get(name)
        node = None if shared is None else planner.ground.placement.get(shared, planner.left.get(shared))
        if node is None:
            planner.journal.drop(planner.rows.placement, name)
        elif planner.rows.placement.get(name) != node:
            planner.journal.put(planner.rows.placement, name, node)


def _drop_departed(planner: Planner) -> None:
    """A site that left keeps its row as long as an instance, parked or not yet redeployed, is said to be there."""
    for site in list(planner.departed_sites):
        if NodeId(site) not in planner.left_at and NodeId(site) not in planner.ground.hosted:
            planner.journal.drop(planner.departed_sites, site)
            planner.journal.drop(planner.rows.sites, site)


def _moved(planner: Planner, pending: Pending, rows: dict[InstanceId, NodeId | None]) -> tuple[Moved, ...]:
    """The stateful instances, by their queries' names, whose state is not where they are now."""
    found = []
    lost = pending.lost | planner.custody.lost
    for name in sorted({*rows, *lost}):
        target = planner.rows.placement.get(name)
        if target is None or not _is_stateful(planner, name) or not _has_place(planner, name):
            continue
        if name in lost:
            if not planner.custody.replaying(name, target) or name in pending.lost:
                found.append(Moved(name, None, target, (), _scans(planner, name)))
        elif (source := rows.get(name)) is not None:
            found.append(Moved(name, source, target, planner.path_of_state(source, target), _scans(planner, name)))
    return tuple(found)


def _moves(
    planner: Planner, rows: dict[InstanceId, NodeId | None], sites: dict[SiteId, RegionId | None]
) -> tuple[Migration, ...]:
    """The stateful instances that change region; `rows` and `sites` are what was there before, where it differs."""
    placed = dict(rows)
    for site, region in sites.items():
        if region is not None and planner.rows.sites.get(site, region) != region:
            hosted = planner.ground.hosted.get(NodeId(site), {})
            placed |= {name: NodeId(site) for i in hosted for name in planner.plan.names.get(i, ()) if name not in rows}
    found = []
    for name, source in sorted(placed.items()):
        target = planner.rows.placement.get(name)
        if source is None or target is None or not _is_stateful(planner, name):
            continue
        before = sites[SiteId(source)] if SiteId(source) in sites else planner.rows.sites.get(SiteId(source))
        after = planner.rows.sites.get(SiteId(target))
        if before is not None and after is not None and before != after:
            found.append(Migration(Epoch(0), name.query, name.operator, before, after, str(source), str(target)))
    return tuple(found)


def _has_place(planner: Planner, name: InstanceId) -> bool:
    """Whether an instance is on a node. It may be on one for a query that taps the one it is named after, and that has
    no place itself."""
    return planner.plan.uses(name.query)[name] in planner.ground.placement


def _is_stateful(planner: Planner, name: InstanceId) -> bool:
    known = planner.rows.queries.get(name.query)
    return known is not None and known.shape.plan.operators[name.operator].stateful


def _scans(planner: Planner, name: InstanceId) -> tuple[InstanceId, ...]:
    """The operators (not one by one for each device) whose rows make the state."""
    plan = planner.plan.query(name.query).shape.plan
    return tuple(InstanceId(name.query, scan) for scan in plan.scans_below(name.operator))


def _stateful(planner: Planner, instance: InstanceId) -> bool:
    known = planner.plan.instances.get(instance)
    return known is not None and known.stateful


def _undo(planner: Planner, since: int, cause: str) -> Delta:
    journal, rows = planner.journal, planner.rows
    devices = journal.changed(rows.devices, since)
    return Delta(
        journal.changed(rows.queries, since),
        journal.changed(rows.placement, since),
        {d: s for d, s in devices.items() if not journal.was_absent(rows.devices, d, since)},
        journal.changed(rows.sites, since),
        feeds={s: old or () for s, old in journal.changed(rows.feeds, since).items()},
        gone=frozenset(d for d in devices if journal.was_absent(rows.devices, d, since)),
        cause=cause,
        parked=journal.changed(rows.parked, since),
        key_routes=journal.changed(rows.key_routes, since),
    )


def _queries(planner: Planner, was: dict[InstanceId, NodeId | None], delta: Delta) -> tuple[QueryId, ...]:
    """All regions that the stage touches."""
    users = {query for i in was for query in planner.plan.names.get(i, {}).values()}
    divided = (query for query, _ in delta.key_routes)
    return tuple(sorted({*users, *delta.queries, *delta.parked, *(n.query for n in delta.placement), *divided}))
