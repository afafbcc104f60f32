"""The fleet as the routes see it: who may, what is there, and live news. One per server."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from fastapi import Request, WebSocket
from starlette.requests import HTTPConnection

from godwit.api.fleet import Fleet
from godwit.delivery.json_rows import json_rows
from godwit.errors import DeploymentError
from godwit.ids import QueryId, StreamId
from godwit.model.plan import Stream
from godwit.observe.rollup import results_of
from godwit.region.runner import Runner
from godwit.server.access import Access, Caller, Role
from godwit.server.hub import Hub
from godwit.server.limits import RateLimiter, ServerLimits
from godwit.server.problems import not_found, refused
from godwit.server.result_pages import rows_of
from godwit.storage.log import Record

log = logging.getLogger("godwit.server")

#: topic of reconfigurations
EVENTS = "events"


def results_topic(query: str) -> str:
    return f"results:{query}"


class Service:
    def __init__(self, fleet: Fleet, access: Access, limits: ServerLimits) -> None:
        self.fleet, self.access, self.limits = fleet, access, limits
        self.hub = Hub(limits.subscribers, limits.waiting)
        self._rates = RateLimiter(limits.rate, limits.burst)
        self.started = time.time()
        fleet.pool.follow(self.committed)
        fleet.history.follow(lambda record: self.hub.publish(EVENTS, lambda: record))

    # --- callers

    def caller(self, connection: HTTPConnection, need: Role) -> Caller:
        """Whoever calls, if they may; 401, 403 or 429 otherwise, logged."""
        header = connection.headers.get("authorization", "")
        token = header[7:] if header[:7].lower() == "bearer " else connection.query_params.get("token")
        caller = self.access.caller(token)
        if caller is None:
            self.refuse_log(connection, "no valid token")
            raise refused(401, "send a token: Authorization: Bearer TOKEN", **{"WWW-Authenticate": "Bearer"})
        if (wrong := caller.refusal(need)) is not None:
            self.refuse_log(connection, wrong)
            raise refused(403, wrong)
        if (seconds := self._rates.wait(caller.name, time.monotonic())) > 0:
            self.refuse_log(connection, "too many requests")
            raise refused(429, f"too many requests of '{caller.name}'", **{"Retry-After": f"{seconds:.3f}"})
        return caller

    @staticmethod
    def refuse_log(connection: HTTPConnection, why: str) -> None:
        client = connection.client.host if connection.client else "?"
        log.warning("refused %s for %s: %s", connection.url.path, client, why)

    # --- what is there

    def stream(self, name: str) -> Stream:
        known = self.fleet.deployment.streams
        if StreamId(name) not in known:
            raise not_found(name, "stream", sorted(known))
        return known[StreamId(name)]

    def query(self, name: str) -> QueryId:
        """A query that runs."""
        if name not in self.fleet.queries:
            raise not_found(name, "query", self.fleet.queries)
        return QueryId(name)

    def known_query(self, name: str) -> QueryId:
        """A query that runs, or has left results."""
        try:
            self.fleet.execution(QueryId(name))
        except DeploymentError:
            raise not_found(name, "query", self.fleet.queries) from None
        return QueryId(name)

    # --- live

    def committed(self, runner: Runner, number: int, record: Record) -> None:
        """A region has committed: its results go to those who listen."""
        if not (record["results"] and self.hub.count):
            return
        for name in self.fleet.queries:
            topic = results_topic(name)
            if not self.hub.listened(topic):
                continue
            query = self.fleet.execution(name)
            if query.shape.key == runner.shape.key:
                rows = rows_of(results_of(record, runner.store), query)
                if rows:
                    message = {
                        "query": name,
                        "region": runner.region,
                        "rows": [one for table in rows for one in json_rows(table)],
                    }
                    self.hub.publish(topic, lambda message=message: message)  # type: ignore[misc]


def service_of(connection: HTTPConnection) -> Service:
    found: Service = connection.app.state.service
    return found


def needs(role: Role) -> Callable[[Request], Caller]:
    """A dependency: the caller, if it has a role."""

    def check(request: Request) -> Caller:
        return service_of(request).caller(request, role)

    return check


def check_socket(socket: WebSocket, role: Role) -> Caller:
    return service_of(socket).caller(socket, role)


def described(stream: Stream) -> dict[str, Any]:
    return {
        "name": stream.id,
        "columns": [{"name": c.name, "type": c.type} for c in stream.columns],
        "time": stream.time,
        "device": stream.device,
        "disorder_seconds": stream.disorder_us / 1e6,
    }
