"""Errors as responses: 4xx with what is wrong, where and what helps; never a stack trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import HTTPException
from starlette.exceptions import HTTPException as AnyHTTPException

from godwit.errors import (
    AdmissionError,
    ConfigError,
    DeploymentError,
    GodwitError,
    NotAttachedError,
    PlacementError,
    SourceError,
    SqlError,
    StateError,
    TopologyError,
)
from godwit.process.wire import WireError

#: the first class that fits decides
STATUS: tuple[tuple[type[GodwitError], int], ...] = (
    (SqlError, 422),
    (NotAttachedError, 409),
    (SourceError, 422),
    (TopologyError, 422),
    (AdmissionError, 409),
    (PlacementError, 409),
    (DeploymentError, 409),
    (ConfigError, 422),
    (WireError, 503),
    (StateError, 503),
)


def status_of(error: GodwitError) -> int:
    return next((status for kind, status in STATUS if isinstance(error, kind)), 400)


def problem(error: GodwitError) -> dict[str, Any]:
    """The body of a refusal."""
    body = {"error": type(error).__name__, "message": str(error)}
    if isinstance(error, SqlError):
        body |= {"message": error.problem, "place": error.place, "remedy": error.remedy}
    return body


def refusal(fault: AnyHTTPException) -> dict[str, Any]:
    """The body of one that is no error of the fleet's; all refusals look alike."""
    detail: Any = fault.detail
    return detail if isinstance(detail, dict) else {"error": "Refused", "message": str(detail)}


def refused(status: int, message: str, **headers: str) -> HTTPException:
    return HTTPException(status, {"error": "Refused", "message": message}, headers=headers or None)


def not_found(name: str, kind: str, known: Sequence[str] | None = None) -> HTTPException:
    """`known`: what there is instead, where it can be listed."""
    there = "" if known is None else f"; known: {', '.join(known[:20]) or 'none'}"
    return HTTPException(404, {"error": "NotFound", "message": f"there is no {kind} '{name}'{there}"})
