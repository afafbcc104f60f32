"""Requests to a server: its refusals become the errors that a fleet here would raise, and busy ones are tried again."""

from __future__ import annotations

import logging
import time
from typing import Any

import httpx

from godwit import errors
from godwit.errors import ConfigError, DeploymentError, GodwitError, SqlError

#: a server that is busy (429, 503) is asked again for so long (seconds)
PATIENCE = 60.0


log = logging.getLogger("godwit.client")


def taken(answer: dict[str, Any]) -> bool:
    """Whether rows were taken; columns that their stream has not are logged, as where the fleet runs."""
    for text in answer.get("unknown_columns", {}).values():
        log.warning("%s", text)
    return bool(answer["taken"])


class Http:
    """One connection pool, one token."""

    def __init__(self, url: str, token: str | None, timeout: float = 120.0) -> None:
        if not url.startswith(("http://", "https://")):
            msg = f"'{url}' is not a server's address; write http://HOST:PORT or https://HOST:PORT"
            raise ConfigError(msg)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.url = url.rstrip("/")
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=timeout)

    def ask(self, method: str, path: str, any_status: bool = False, **more: Any) -> Any:
        """The response's JSON; a GodwitError says what the server refuses (unless `any_status` will do), or that it
        cannot be reached."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                response = self.client.request(method, path, **more)
            except httpx.TransportError as error:
                msg = f"the server {self.url} cannot be reached ({error}); is it running, and the address right?"
                raise ConfigError(msg) from error
            if response.is_success or any_status:
                return response.json()
            wait = _seconds(response)
            if wait is None or time.monotonic() + wait > until:
                raise refusal(response)
            time.sleep(wait)


def _seconds(response: httpx.Response) -> float | None:
    """How long to wait before the same request may be taken; None: it will not."""
    wait = response.headers.get("retry-after", "")
    try:
        return max(float(wait), 0.05) if response.status_code in (429, 503) else None
    except ValueError:
        return None


def refusal(response: httpx.Response) -> GodwitError:
    """A response that is not success, as the error it stands for."""
    try:
        body = response.json()
    except ValueError:
        body = {}
    body = body.get("detail", body) if isinstance(body, dict) else {}
    body = body if isinstance(body, dict) else {}
    kind = getattr(errors, str(body.get("error", "")), None)
    message = str(body.get("message") or f"the server has answered {response.status_code}")
    if isinstance(kind, type) and issubclass(kind, SqlError):
        return kind(message, place=str(body.get("place") or ""), remedy=str(body.get("remedy") or ""))
    if isinstance(kind, type) and issubclass(kind, GodwitError):
        return kind(message)
    return (DeploymentError if response.status_code in (404, 409) else ConfigError)(message)
