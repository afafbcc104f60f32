"""Queries: submit, alter, withdraw, explain."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from godwit.api.migrating import as_keys
from godwit.control.commands import Alter, MigrateKeys, Submit, Withdraw
from godwit.ids import QueryId
from godwit.model.change_text import parse_changes
from godwit.model.explain import explain as explained
from godwit.server.access import Caller, Role
from godwit.server.bodies import KeysToMove, MovedKey, NewPlan, NewQuery, NewText, Question
from godwit.server.commands import CommandSent, Wait, send
from godwit.server.service import Service, needs, service_of
from godwit.sql import compile_query

router = APIRouter(prefix="/v1", tags=["queries"])
Reader = Annotated[Caller, Depends(needs(Role.READ))]
Operator = Annotated[Caller, Depends(needs(Role.OPERATE))]


@router.get("/queries")
def queries(request: Request, caller: Reader) -> list[dict[str, Any]]:
    service = service_of(request)
    return [_query(service, name) for name in service.fleet.queries]


@router.get("/queries/{name}")
def query(request: Request, name: str, caller: Reader) -> dict[str, Any]:
    service = service_of(request)
    return _query(service, service.query(name))


@router.post("/queries", status_code=201)
def submit(
    request: Request, body: NewQuery, caller: Operator, wait: Wait = True, dry_run: bool = False
) -> CommandSent | dict[str, Any]:
    """Check a query, place it and start it; with `dry_run`, say what it would become."""
    if dry_run:
        return _explained(service_of(request), body.sql, body.name)
    return send(request, Submit(body.name, body.sql, body.sink), wait)


@router.patch("/queries/{name}")
def alter(request: Request, name: str, body: NewText, caller: Operator, wait: Wait = True) -> CommandSent:
    """Give a running query other parameters: the same SQL with other literals."""
    return send(request, Alter(service_of(request).query(name), body.sql), wait)


@router.delete("/queries/{name}")
def withdraw(request: Request, name: str, caller: Operator, wait: Wait = True) -> CommandSent:
    """Stop a query; its results stay readable."""
    return send(request, Withdraw(service_of(request).query(name)), wait)


@router.post("/queries/{name}/replace")
def replace(request: Request, name: str, body: NewText, caller: Operator, dry_run: bool = False) -> dict[str, str]:
    """Give a running query another text; says what of it goes on and what begins again. With `dry_run`: only that."""
    service = service_of(request)
    return {"explanation": service.fleet.replace(service.query(name), body.sql, dry_run=dry_run)}


@router.post("/queries/{name}/replan")
def replan(request: Request, name: str, body: NewPlan, caller: Operator, dry_run: bool = False) -> dict[str, str]:
    """Give a running query another plan; with `dry_run`, say what that would do."""
    service = service_of(request)
    return {"explanation": service.fleet.replan(service.query(name), **body.model_dump(), dry_run=dry_run)}


@router.post("/queries/{name}/migrate")
def migrate(
    request: Request, name: str, body: KeysToMove, caller: Operator, wait: Wait = True, dry_run: bool = False
) -> CommandSent | dict[str, str]:
    """Move keys of a running query to another site; with `dry_run`, say what would move."""
    service = service_of(request)
    found = service.query(name)
    keys = body.keys[0] if len(body.keys) == 1 and isinstance(body.keys[0], str) else tuple(map(_key, body.keys))
    if dry_run:
        told = service.fleet.migrate(
            found, keys=keys, to=body.to, strategy=body.strategy, operator=body.operator, dry_run=True
        )
        return {"explanation": told}
    return send(request, MigrateKeys(found, as_keys(keys), body.to, body.strategy, body.operator), wait)


def _key(told: MovedKey) -> Any:
    return tuple(told) if isinstance(told, list) else told


@router.get("/queries/{name}/explain")
def explain(request: Request, name: str, caller: Reader) -> dict[str, Any]:
    """Its plan, and where each of its instances is."""
    service = service_of(request)
    found = service.query(name)
    placement = service.fleet.plane.deployment.placement
    mine = {str(i): str(site) for i, site in sorted(placement.items()) if str(i).startswith(f"{found}/")}
    return {"query": found, "plan": service.fleet.query(name).explain(), "placement": mine}


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
    compiled = compile_query(sql, fleet.deployment.streams, QueryId(name), (), fleet.functions.names)
    output = [{"name": c.name, "type": c.type} for c in fleet.analyst.output(compiled)]
    return {"plan": explained(compiled), "shape": compiled.shape.key, "columns": output}


def _query(service: Service, name: QueryId) -> dict[str, Any]:
    fleet = service.fleet
    runs = fleet.execution(name)
    return {
        "name": name,
        "sql": runs.sql,
        "shape": runs.shape.key,
        "runs_as": runs.id,
        "columns": list(runs.shape.plan.sink.columns),
        "key": runs.shape.plan.sink.key,
        "suspended": fleet.parked.get(runs.id),
    }
