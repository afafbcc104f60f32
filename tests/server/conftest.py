"""A fleet behind a real server on a free loopback port."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
import uvicorn

from godwit.api.fleet import Fleet
from godwit.ingest.device_locator import PositionColumns
from godwit.server.access import Access, Token, digest_of
from godwit.server.app import create_app
from godwit.server.backend import Backend
from godwit.server.background import LiveServer
from godwit.server.limits import ServerLimits

TOPOLOGY = """
sites: [{id: west, region: edge-west}, {id: east, region: edge-east}, {id: cloud, region: cloud}]
links: [{from: west, to: cloud}, {from: east, to: cloud}]
"""
ROLES = ("read", "feed", "operate", "admin")


def tokens() -> Access:
    """A token for each role, called as the role; and one of a device."""
    made = [Token(name=role, sha256=digest_of(role), role=role) for role in ROLES]  # type: ignore[arg-type]
    device = Token(name="t1", sha256=digest_of("t1"), role="feed", streams=("passengers",), device="t1")  # type: ignore[arg-type]
    return Access([*made, device])


class Running:
    """A server in this process."""

    def __init__(
        self,
        fleet: Fleet | Backend,
        access: Access,
        limits: ServerLimits | None,
        positions: PositionColumns | None = None,
        port: int = 0,
    ) -> None:
        app = create_app(fleet, access, limits, positions)
        config = uvicorn.Config(
            app, host="127.0.0.1", port=port, log_level="critical", lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = LiveServer(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        until = time.monotonic() + 20
        while not self._server.started and time.monotonic() < until:
            time.sleep(0.01)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def client(self, token: str | None = "admin") -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(20)


@pytest.fixture
def serve(open_fleet: Callable[..., Fleet]) -> Iterator[Callable[..., Running]]:
    """Start the fleet of this test behind a server."""
    running: list[Running] = []

    def start(access: Access | None = None, limits: ServerLimits | None = None) -> Running:
        fleet = open_fleet()
        fleet.topology.load(TOPOLOGY)
        fleet.start()
        running.append(Running(fleet, access or tokens(), limits))
        return running[-1]

    yield start
    for one in running:
        one.stop()
