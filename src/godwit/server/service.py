"""The fleet as the routes see it: who may, what is there, and live news. One per server."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from fastapi import Request, WebSocket
from starlette.requests import HTTPConnection

from godwit.delivery.json_rows import json_rows
from godwit.errors import DeploymentError
from godwit.ids import QueryId, RegionId, StreamId
from godwit.ingest.device_locator import DeviceLocator, PositionColumns
from godwit.model.plan import Stream
from godwit.server.access import Access, Caller, Role
from godwit.server.backend import Backend, table_of
from godwit.server.hub import Hub, News
from godwit.server.inlet import Inlet
from godwit.server.jobs import Jobs
from godwit.server.limits import RateLimiter, ServerLimits
from godwit.server.problems import not_found, refused
from godwit.server.result_pages import rows_of
from godwit.storage.log import Segment

log = logging.getLogger("godwit.server")

#: how often it is looked how far readers are behind (seconds)
UNREAD_EVERY = 0.02
#: topic of reconfigurations
EVENTS = "events"


def results_topic(query: str) -> str:
    return f"results:{query}"


class Service:
    def __init__(
        self, fleet: Backend, access: Access, limits: ServerLimits, positions: PositionColumns | None = None
    ) -> None:
        """`positions`: columns of rows that say where their device is."""
        self.fleet, self.access, self.limits, self.positions = fleet, access, limits, positions
        self.locator = DeviceLocator(lambda: fleet.topology, positions)
        self.jobs = Jobs()
        self.hub = Hub(limits.subscribers, limits.waiting)
        self.inlet = Inlet(fleet)
        self._rates = RateLimiter(limits.rate, limits.burst)
        #: stream -> (how far its slowest reader is behind, as of when)
        self._unread: dict[str, tuple[int, float]] = {}
        self.started = time.time()
        #: also told of every record of the history
        self.tracing: Callable[[dict[str, Any]], None] | None = None
        fleet.follow(self.committed, self._happened, lambda: self.hub.count > 0 or self.tracing is not None)

    # --- callers

    def caller(self, connection: HTTPConnection, need: Role) -> Caller:
        """The caller, if it has the right; otherwise 401, 403 or 429, logged."""
        caller = self.access.caller(None if self.access.open else _token(connection))
        if caller is None:
            self.refuse_log(connection, "no valid token")
            why = (
                "this token is not known here; `godwit token` makes one"
                if _token(connection)
                else "send a token: Authorization: Bearer TOKEN"
            )
            raise refused(401, why, **{"WWW-Authenticate": "Bearer"})
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

    def table(self, name: str) -> Stream:
        known = self.fleet.deployment.streams
        found = table_of(known, name)
        if found is None:
            raise not_found(name, "reference table", sorted(n for n, stream in known.items() if stream.key))
        return found

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

    def unread(self, stream: str) -> int:
        """How many entries of a stream its slowest reader is behind, as of a moment ago."""
        behind, at = self._unread.get(stream, (0, 0.0))
        if time.monotonic() - at > UNREAD_EVERY:
            behind = self.fleet.unread(stream)
            self._unread[stream] = (behind, time.monotonic())
        return behind

    # --- live

    def _happened(self, record: dict[str, Any]) -> None:
        self.hub.publish(EVENTS, lambda: News("reconfiguration", record))
        if self.tracing is not None:
            self.tracing(record)

    def committed(self, region: RegionId, shape: str, results: Sequence[Segment]) -> None:
        """A region has committed results: they go to those who listen."""
        at = time.time()
        for name in self.fleet.queries:
            topic = results_topic(name)
            if not self.hub.listened(topic):
                continue
            versions = self.fleet.executions(name)
            if not any(version.shape.key == shape for version in versions):
                continue
            rows = rows_of(results, versions[-1], {version.id for version in versions})
            if rows:
                listed = [one for table in rows for one in json_rows(table)]
                message = {"query": name, "region": region, "rows": listed, "at": at}
                self.hub.publish(topic, partial(News, "rows", message))


def _token(connection: HTTPConnection) -> str | None:
    header = connection.headers.get("authorization", "")
    return header[7:] if header[:7].lower() == "bearer " else connection.query_params.get("token")


def service_of(connection: HTTPConnection) -> Service:
    found: Service = connection.app.state.service
    return found


def needs(role: Role) -> Callable[[Request], Awaitable[Caller]]:
    """A dependency: the caller, if it has a role."""

    async def check(request: Request) -> Caller:  # (quick, so not worth a thread)
        return service_of(request).caller(request, role)

    return check


def check_socket(socket: WebSocket, role: Role) -> Caller:
    return service_of(socket).caller(socket, role)


def described(stream: Stream) -> dict[str, Any]:
    return {
        "name": stream.id,
        "columns": [{"name": c.name, "type": c.type} for c in stream.columns if not c.name.startswith("__")],
        "time": stream.time,
        "device": stream.device,
        "disorder_seconds": stream.disorder_us / 1e6,
        "idle_seconds": stream.idle_seconds,
        "key": list(stream.key),
    }
