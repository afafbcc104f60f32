"""The page's files; and the answer to a path that is neither a file of the page nor a route."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI, HTTPException
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

INDEX = "GET /v1 lists what there is, /v1/openapi.json describes it"


class PageFiles(StaticFiles):
    """Comes after all routes: what arrives here no route has taken."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        allowed = _methods(scope)
        if allowed:
            body = {"error": "MethodNotAllowed", "message": f"this path takes {allowed}, not {scope['method']}"}
            raise HTTPException(405, body, headers={"Allow": allowed})
        try:
            return await super().get_response(path, scope)
        except AnyHTTPException as fault:
            if fault.status_code != 404:
                raise
            body = {"error": "NotFound", "message": f"there is nothing at {scope['path']}", "remedy": INDEX}
            raise HTTPException(404, body) from fault


def _methods(scope: Scope) -> str:
    """What a route of this path takes, if there is one."""
    for path, methods in scope["app"].openapi()["paths"].items():
        if re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", path), scope["path"]):
            return ", ".join(sorted(method.upper() for method in methods))
    return ""


def _about(operation: dict[str, Any]) -> str:
    return str(operation.get("description") or operation["summary"]).partition("\n")[0]


def add_index(app: FastAPI) -> None:
    """`GET /v1`: every path with its methods and what they do, for callers without a manual."""

    @app.get("/v1", include_in_schema=False)
    @app.get("/v1/", include_in_schema=False)
    def index() -> dict[str, Any]:
        paths = app.openapi()["paths"]
        listed = {path: {name.upper(): _about(one) for name, one in methods.items()} for path, methods in paths.items()}
        return {"godwit": app.version, "openapi": "/v1/openapi.json", "page": "/", "paths": listed}
