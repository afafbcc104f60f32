"""The application: routes, errors as refusals, limits on bodies, and security headers."""

from __future__ import annotations

import logging
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from godwit.api.fleet import Fleet
from godwit.errors import GodwitError
from godwit.ingest.device_locator import PositionColumns
from godwit.server.access import Access
from godwit.server.backend import Backend
from godwit.server.embedded import EmbeddedBackend
from godwit.server.guard import Guard
from godwit.server.limits import ServerLimits
from godwit.server.page_files import PageFiles, add_index
from godwit.server.problems import problem, refusal, status_of
from godwit.server.routes import devices, operations, queries, results, streams, tables, topology
from godwit.server.rows_endpoint import RowsEndpoint
from godwit.server.service import Service
from godwit.validation import worded

log = logging.getLogger("godwit.server")
PAGE = Path(__file__).parent / "page"


def create_app(
    fleet: Fleet | Backend,
    access: Access | None = None,
    limits: ServerLimits | None = None,
    positions: PositionColumns | None = None,
) -> FastAPI:
    """The server's application over a fleet; the caller starts and stops the fleet. `positions`: columns of rows
    that say where their device is, so that it is attached to the nearest site."""
    # No documentation page: FastAPI's loads its scripts from elsewhere, and this must work offline.
    app = FastAPI(title="godwit", version="1", docs_url=None, redoc_url=None, openapi_url="/v1/openapi.json")
    backend = fleet if isinstance(fleet, Backend) else EmbeddedBackend(fleet)
    service = Service(backend, access or Access(), limits or ServerLimits(), positions)
    app.state.service = service
    for part in (
        streams,
        devices,
        tables,
        topology,
        queries,
        results,
        operations,
    ):  # (rows first: they come most often)
        app.include_router(part.router)
    add_index(app)
    app.add_exception_handler(GodwitError, _godwit_error)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _bad_request)
    app.add_exception_handler(Exception, _bug)
    app.add_middleware(RowsEndpoint, service=service)
    app.add_middleware(Guard, body=service.limits.body)
    if PAGE.is_dir():
        app.mount("/", PageFiles(directory=PAGE, html=True), name="page")
    return app


async def _godwit_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, GodwitError)
    return JSONResponse(problem(error), status_of(error))


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return JSONResponse(refusal(error), error.status_code, error.headers)


async def _bad_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    body = getattr(request.scope.get("route"), "body_field", None)
    message = worded(error.errors(), body and body.field_info.annotation)[0]
    return JSONResponse({"error": "BadRequest", "message": message, "place": message.partition(": ")[0]}, 422)


async def _bug(request: Request, error: Exception) -> JSONResponse:
    log.error("a bug: %s %s", request.method, request.url.path, exc_info=error)
    return JSONResponse({"error": "InternalError", "message": "an error of ours; the server's log has it"}, 500)
