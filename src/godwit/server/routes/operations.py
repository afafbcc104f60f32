"""Status, history, commands, jobs, health and metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from godwit.errors import GodwitError
from godwit.server.access import Caller, Role
from godwit.server.metrics import exposition
from godwit.server.problems import not_found
from godwit.server.service import needs, service_of

router = APIRouter(tags=["operations"])
Reader = Annotated[Caller, Depends(needs(Role.READ))]
Operator = Annotated[Caller, Depends(needs(Role.OPERATE))]
Patience = Annotated[
    float, Query(ge=0, le=60, description="Answer later, once there is news, but not later than this.")
]
#: seconds between two checks for a caller that waits
LOOK_EVERY = 0.02
T = TypeVar("T")


@router.get("/v1/health")
def health(request: Request) -> dict[str, Any]:
    """The process answers. Needs no token."""
    return {"status": "ok", "uptime_seconds": round(time.time() - service_of(request).started, 1)}


@router.get("/v1/ready")
def ready(request: Request, response: Response) -> dict[str, Any]:
    """Whether queries run and nothing has failed. Needs no token; the reasons are in the status."""
    try:
        service_of(request).fleet.check()
        fine = True
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
    found = [record for record in service_of(request).fleet.history() if record["number"] > after]
    return found[-limit:]


@router.get("/v1/history/{number}")
def story(request: Request, number: int, caller: Reader) -> dict[str, Any]:
    """One reconfiguration, with what was where before it and after; `moved` is null if that is not kept any more."""
    fleet = service_of(request).fleet
    found = next((record for record in fleet.history() if record["number"] == number), None)
    if found is None:
        raise not_found(str(number), "reconfiguration")
    return {**found, "moved": fleet.moved(found["epochs"])}


@router.get("/v1/state")
def state(request: Request, caller: Reader) -> dict[str, Any]:
    """How far the fleet is behind what was asked of it: commands that wait, epochs that are not adopted."""
    progress = service_of(request).fleet.progress()
    return {
        "desired": {"command": progress.command, "epoch": progress.published},
        "current": {"waiting": list(progress.waiting), "epoch": progress.in_force, "regions": dict(progress.regions)},
        "settled": not progress.waiting and progress.published == progress.in_force,
    }


@router.get("/v1/commands/{number}")
async def command(request: Request, number: int, caller: Reader, seconds: Patience = 0.0) -> dict[str, Any]:
    """What has become of a command; with `seconds`, as soon as it is answered, or then."""
    fleet = service_of(request).fleet
    if not fleet.known_command(number):
        raise not_found(str(number), "command")
    answer = await _later(lambda: fleet.answer_of(number), seconds)
    if answer is None:
        return {"command": number, "state": "waiting"}
    body = {"command": number, "state": "done" if answer.taken else "refused", "epoch": answer.epoch}
    return body if answer.taken else {**body, "error": answer.error, "message": answer.message}


@router.get("/v1/jobs/{number}")
async def job(request: Request, number: int, caller: Reader, seconds: Patience = 0.0) -> dict[str, Any]:
    """What has become of a long operation that is no command."""
    jobs = service_of(request).jobs
    if not jobs.known(number):
        raise not_found(str(number), "job")
    await _later(lambda: jobs.done(number) or None, seconds)
    return jobs.state(number)


@router.post("/v1/sources/close")
def close_sources(request: Request, caller: Operator) -> dict[str, Any]:
    """No device sends more: every window closes. A device that sends later begins again."""
    service_of(request).fleet.close_sources()
    return {"closed": True}


@router.post("/v1/drain", status_code=202)
def drain(request: Request, caller: Operator) -> dict[str, Any]:
    """Wait until everything that was sent has been answered; follow it as a job."""
    service = service_of(request)
    return {"job": service.jobs.start("drain", service.fleet.process_available)}


@router.get("/v1/dead-letters")
def dead_letters(
    request: Request, caller: Reader, limit: Annotated[int, Query(ge=1, le=10_000)] = 1000
) -> list[dict[str, Any]]:
    """Rows that did not fit their stream, each with the reason; the newest of them, oldest first."""
    return service_of(request).fleet.dead_letters()[-limit:]


async def _later(look: Callable[[], T | None], seconds: float) -> T | None:
    """What a look finds, as soon as it finds something; None: nothing in time."""
    until = time.monotonic() + seconds
    while (found := look()) is None and time.monotonic() < until:
        await asyncio.sleep(LOOK_EVERY)
    return found


@router.get("/metrics")
def metrics(request: Request, caller: Reader) -> Response:
    """For Prometheus."""
    service = service_of(request)
    return Response(exposition(service.fleet.status(), service.hub.count), media_type=CONTENT_TYPE_LATEST)
