"""The application: routes, errors as refusals, limits on bodies, and security headers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles

from godwit.api.fleet import Fleet
from godwit.errors import GodwitError
from godwit.server.access import Access
from godwit.server.limits import ServerLimits
from godwit.server.problems import problem, status_of
from godwit.server.routes import operations, queries, results, streams, topology
from godwit.server.service import Service

log = logging.getLogger("godwit.server")
PAGE = Path(__file__).parent / "page"


def create_app(fleet: Fleet, access: Access | None = None, limits: ServerLimits | None = None) -> FastAPI:
    """The server's application over a fleet; whoever makes it starts and stops the fleet."""
    # No documentation page: FastAPI's loads its scripts from elsewhere, and this must work offline.
    app = FastAPI(title="godwit", version="1", docs_url=None, redoc_url=None, openapi_url="/v1/openapi.json")
    service = Service(fleet, access or Access(), limits or ServerLimits())
    app.state.service = service
    for part in (topology, streams, queries, results, operations):
        app.include_router(part.router)
    app.add_exception_handler(GodwitError, _godwit_error)
    app.add_exception_handler(RequestValidationError, _bad_request)
    app.add_exception_handler(Exception, _bug)
    app.middleware("http")(_guarded)
    if PAGE.is_dir():
        app.mount("/", StaticFiles(directory=PAGE, html=True), name="page")
    return app


async def _guarded(request: Request, handle: Callable[[Request], Awaitable[Response]]) -> Response:
    limits: ServerLimits = request.app.state.service.limits
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > limits.body or "chunked" in request.headers.get("transfer-encoding", ""):
        message = f"a body may have up to {limits.body} bytes, and must say its length"
        return JSONResponse({"error": "TooLarge", "message": message}, 413)
    response = await handle(request)
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Content-Security-Policy"] = "default-src 'self'; style-src 'self' 'unsafe-inline'"
    return response


async def _godwit_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, GodwitError)
    return JSONResponse(problem(error), status_of(error))


async def _bad_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return JSONResponse({"error": "BadRequest", "message": f"{place}: {first['msg']}", "place": place}, 422)


async def _bug(request: Request, error: Exception) -> JSONResponse:
    log.error("a bug: %s %s", request.method, request.url.path, exc_info=error)
    return JSONResponse({"error": "InternalError", "message": "an error of ours; the server's log has it"}, 500)
