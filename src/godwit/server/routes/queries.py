"""Queries: submit, alter, replan, migrate, withdraw; each with a dry run. Explain, and the oracle's verdict."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi import Query as Parameter

from godwit.api.key_names import as_keys
from godwit.control.commands import Alter, MigrateKeys, Replace, Replan, Submit, Withdraw
from godwit.ids import QueryId
from godwit.model.change_text import parse_changes
from godwit.model.explain import explain as explained
from godwit.model.explain import parted
from godwit.model.plan import Query
from godwit.replan.wishes import PlanWish
from godwit.server.access import Caller, Role
from godwit.server.bodies import KeysToMove, MovedKey, NewQuery, NewText, PlanOrder, Question
from godwit.server.commands import CommandSent, Wait, send
from godwit.server.service import Service, needs, service_of
from godwit.sql import compile_query
from godwit.sql.hinted import hinted
from godwit.sql.parameters import assigned, assignments

router = APIRouter(prefix="/v1", tags=["queries"])
Reader = Annotated[Caller, Depends(needs(Role.READ))]
Operator = Annotated[Caller, Depends(needs(Role.OPERATE))]


@router.get("/queries")
def queries(request: Request, caller: Reader) -> list[dict[str, Any]]:
    """All queries: what was asked for, and what is so."""
    service = service_of(request)
    return [_query(service, name) for name in service.fleet.queries]


@router.get("/queries/{name}")
def query(request: Request, name: str, caller: Reader) -> dict[str, Any]:
    """One query: what was asked for (`desired`), and what is so (`current`)."""
    service = service_of(request)
    return _query(service, service.query(name))


@router.post("/queries", status_code=201)
def submit(
    request: Request, body: NewQuery, caller: Operator, wait: Wait = True, dry_run: bool = False
) -> CommandSent | dict[str, Any]:
    """Check a query, place it and start it; with `dry_run`, say what it would become."""
    sql = hinted(body.sql, body.emit, body.order)
    if dry_run:
        return _explained(service_of(request), sql, body.name)
    return send(request, Submit(body.name, sql, body.sink, body.joins), wait)


@router.patch("/queries/{name}")
def alter(
    request: Request, name: str, body: NewText, caller: Operator, wait: Wait = True, dry_run: bool = False
) -> CommandSent | dict[str, Any]:
    """Give a running query other parameters: the same SQL with other literals, or SET name = value."""
    service = service_of(request)
    found = service.query(name)
    if dry_run:
        return _altered(service, found, body.sql)
    return send(request, Alter(found, body.sql), wait)


@router.post("/queries/{name}/replan")
def replan(
    request: Request, name: str, body: PlanOrder, caller: Operator, wait: Wait = True, dry_run: bool = False
) -> CommandSent | dict[str, str]:
    """Give a running query another plan from now on; with `dry_run`, say what would be done."""
    service = service_of(request)
    found = service.query(name)
    wish = PlanWish(body.order, body.partial, tuple(body.filters_up), tuple(body.filters_down))
    if dry_run:
        return {"explanation": service.fleet.explain_replan(found, wish)}
    asked = Replan(found, wish.order, body.strategy, body.run_out, wish.partial, wish.up, wish.down, body.alone)
    return send(request, asked, wait)


@router.post("/queries/{name}/replace")
def replace(
    request: Request, name: str, body: NewText, caller: Operator, wait: Wait = True, dry_run: bool = False
) -> CommandSent | dict[str, str]:
    """Give a running query another text: what both texts have goes on with its state. With `dry_run`, say what begins
    again."""
    service = service_of(request)
    found = service.query(name)
    if dry_run:
        return {"explanation": service.fleet.explain_replace(found, body.sql)}
    return send(request, Replace(found, body.sql), wait)


@router.delete("/queries/{name}")
def withdraw(
    request: Request, name: str, caller: Operator, wait: Wait = True, dry_run: bool = False
) -> CommandSent | dict[str, Any]:
    """Stop a query; its results stay readable. With `dry_run`, say what would end."""
    service = service_of(request)
    found = service.query(name)
    if dry_run:
        ends = service.fleet.execution(found)
        readers = [other for other in service.fleet.queries if found in service.fleet.execution(other).taps.values()]
        return {"ends": ends.id, "instances": _placement(service, ends), "goes_on_for": readers}
    return send(request, Withdraw(found), wait)


@router.post("/queries/{name}/migrate")
def migrate(
    request: Request, name: str, body: KeysToMove, caller: Operator, wait: Wait = True, dry_run: bool = False
) -> CommandSent | dict[str, str]:
    """Move keys of a running query to another site; with `dry_run`, say what would move."""
    service = service_of(request)
    found = service.query(name)
    keys = body.keys[0] if len(body.keys) == 1 and isinstance(body.keys[0], str) else tuple(map(_key, body.keys))
    command = MigrateKeys(found, as_keys(keys), body.to, body.strategy, body.operator)
    return {"explanation": service.fleet.explain_command(command)} if dry_run else send(request, command, wait)


def _key(key: MovedKey) -> Any:
    return tuple(key) if isinstance(key, list) else key


@router.get("/queries/{name}/explain")
def explain(request: Request, name: str, caller: Reader) -> dict[str, Any]:
    """Its plan, operator by operator, where each of its instances is, and what its rows wait for."""
    service = service_of(request)
    found = service.query(name)
    runs = service.fleet.execution(found)
    operators = [
        {"number": number, "kind": type(one).__name__, "text": str(one), "inputs": list(one.inputs)}
        for number, one in enumerate(runs.shape.plan.operators)
    ]
    return {
        "query": found,
        "plan": service.fleet.explain(found),
        "operators": operators,
        "placement": _placement(service, runs),
        "waits_for": service.fleet.waits(found),
        "regions": {str(site): str(region) for site, region in service.fleet.deployment.sites.items()},
    }


@router.post("/queries/{name}/verdict", status_code=202)
def verdict(request: Request, name: str, caller: Operator) -> dict[str, Any]:
    """Compare the results so far with the same SQL as a batch over everything that was sent; follow it as a job."""
    service = service_of(request)
    found = service.query(name)
    return {"job": service.jobs.start(f"verdict on '{found}'", lambda: service.fleet.verdict(found))}


@router.get("/queries/{name}/late")
def late(
    request: Request, name: str, caller: Reader, limit: Annotated[int, Parameter(ge=1, le=10_000)] = 1000
) -> dict[str, Any]:
    """Rows that came too late to be in a result; they are not lost."""
    service = service_of(request)
    return {"query": name, "rows": service.fleet.late(service.query(name), limit)}


@router.post("/explain")
def ask(request: Request, body: Question, caller: Reader) -> dict[str, Any]:
    """What a query would become, or what changes of the topology would do; nothing happens."""
    service = service_of(request)
    found: dict[str, Any] = {}
    if body.sql is not None:
        found |= _explained(service, body.sql, "query")
    if body.changes:
        found["change"] = service.fleet.explain_change(parse_changes(body.changes))
    return found


def _explained(service: Service, sql: str, name: str) -> dict[str, Any]:
    fleet = service.fleet
    compiled = compile_query(sql, fleet.deployment.streams, QueryId(name), (), fleet.functions)
    output = [{"name": c.name, "type": c.type} for c in fleet.output(compiled)]
    reason = parted(compiled, fleet.deployment, fleet.topology)
    return {"plan": explained(compiled, reason), "shape": compiled.shape.key, "columns": output}


def _altered(service: Service, name: QueryId, sql: str) -> dict[str, Any]:
    """What the query would be with other parameters, if it may have them."""
    now = service.fleet.execution(name)
    values = assignments(sql)
    explained = _explained(service, sql if values is None else assigned(now.sql, values), name)
    same = explained["shape"] == now.shape.key
    return {**explained, "possible": same, "reason": None if same else "it is another shape: withdraw and submit it"}


def _placement(service: Service, runs: Query) -> dict[str, str]:
    placement = service.fleet.deployment.placement
    return {str(i): str(site) for i, site in sorted(placement.items()) if i.query == runs.id}


def _query(service: Service, name: QueryId) -> dict[str, Any]:
    """What was asked for (`desired`), and what is so (`current`)."""
    fleet = service.fleet
    runs, now = fleet.execution(name), fleet.deployment
    sinks, by_hand = fleet.hints()
    placed = {str(instance): str(site) for instance, site in by_hand.items() if instance.query in (name, runs.id)}
    suspended = now.parked.get(runs.id)
    return {
        "name": name,
        "sql": runs.sql,
        "shape": runs.shape.key,
        "runs_as": runs.id,
        "columns": list(runs.shape.plan.sink.columns),
        "key": runs.shape.plan.sink.key,
        "suspended": suspended,
        "desired": {"sql": runs.sql, "sink": sinks.get(runs.id), "placement": placed},
        "current": {
            "state": "running" if suspended is None else "suspended",
            "reason": suspended,
            "placement": _placement(service, runs),
            "begins": runs.begins,
        },
    }
