"""The page and the API beside a fleet that runs in this process: on a port of this machine only, while a block runs."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from godwit.api.fleet import Fleet
from godwit.errors import ConfigError
from godwit.server.app import create_app


class LiveServer(uvicorn.Server):
    """Lets those go who follow results or events before it stops: each would be broken off with a stack trace."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.app.state.service.hub.end()  # type: ignore[union-attr]
        await super().shutdown(sockets)


#: where `godwit serve` listens unless it is told otherwise
PORT = 8321


@contextmanager
def page_of(fleet: Fleet, port: int = PORT) -> Iterator[str]:
    """Serve a fleet; its address. If the port is taken: on any free one."""
    listening = _bound(port)
    config = uvicorn.Config(create_app(fleet), log_level="error", lifespan="off", timeout_graceful_shutdown=2)
    server = LiveServer(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="godwit-page", daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not server.started and thread.is_alive() and time.monotonic() < until:
        time.sleep(0.01)
    try:
        if not server.started:
            msg = "the page did not start within 20 s"
            raise ConfigError(msg)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()


def _bound(port: int) -> socket.socket:
    for wanted in (port, 0):
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind(("127.0.0.1", wanted))
        except OSError:
            made.close()
            if wanted == 0:
                raise
        else:
            return made
    raise AssertionError
