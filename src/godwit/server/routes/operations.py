"""Status, history, commands, health and metrics."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from godwit.errors import GodwitError
from godwit.server.access import Caller, Role
from godwit.server.metrics import exposition
from godwit.server.problems import not_found
from godwit.server.service import needs, service_of

router = APIRouter(tags=["operations"])
Reader = Annotated[Caller, Depends(needs(Role.READ))]


@router.get("/v1/health")
def health(request: Request) -> dict[str, Any]:
    """The process answers. Open to everybody."""
    return {"status": "ok", "uptime_seconds": round(time.time() - service_of(request).started, 1)}


@router.get("/v1/ready")
def ready(request: Request, response: Response) -> dict[str, Any]:
    """Whether queries run and nothing has failed. Open to everybody; the reasons are in the status."""
    fleet = service_of(request).fleet
    try:
        fleet.check()
        fine = fleet.pool.running
    except GodwitError:
        fine = False
    response.status_code = 200 if fine else 503
    return {"ready": fine}


@router.get("/v1/status")
def status(request: Request, caller: Reader) -> dict[str, Any]:
    """What the fleet does and has done."""
    return service_of(request).fleet.status().to_json()


@router.get("/v1/history")
def history(
    request: Request,
    caller: Reader,
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 200,
) -> list[dict[str, Any]]:
    """Reconfigurations past a number; the newest of them, oldest first."""
    found = [record for record in service_of(request).fleet.history.read() if record["number"] > after]
    return found[-limit:]


@router.get("/v1/commands/{number}")
def command(request: Request, number: int, caller: Reader) -> dict[str, Any]:
    """What has become of a command."""
    control = service_of(request).fleet.control
    if not control.known(number):
        raise not_found(str(number), "command", [])
    answer = control.answer_of(number)
    if answer is None:
        return {"command": number, "state": "waiting"}
    told = {"command": number, "state": "done" if answer.taken else "refused", "epoch": answer.epoch}
    return told if answer.taken else {**told, "error": answer.error, "message": answer.message}


@router.get("/metrics")
def metrics(request: Request, caller: Reader) -> Response:
    """For Prometheus."""
    service = service_of(request)
    return Response(exposition(service.fleet.status(), service.hub.count), media_type=CONTENT_TYPE_LATEST)
