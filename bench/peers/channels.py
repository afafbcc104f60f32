"""Sockets between the bench and Flink or Spark: one that sends every row to whoever has connected, one that listens."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress


class Broadcast:
    """Sends text to all who have connected."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._clients: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._server.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._clients.append(client)

    def wait(self, count: int, seconds: float = 60.0) -> None:
        until = time.monotonic() + seconds
        while len(self._clients) < count:
            if time.monotonic() > until:
                msg = f"{len(self._clients)} of {count} readers have connected within {seconds:g} s"
                raise TimeoutError(msg)
            time.sleep(0.02)

    def send(self, text: str) -> None:
        data = text.encode()
        for client in self._clients:
            with suppress(OSError):  # it has stopped
                client.sendall(data)

    def close(self) -> None:
        for one in (self._server, *self._clients):
            one.close()


class Listener:
    """Hands on every line that anybody sends."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._read, args=(client,), daemon=True).start()

    def _read(self, client: socket.socket) -> None:
        with suppress(OSError):
            for line in client.makefile():
                self._take(line)

    def close(self) -> None:
        self._server.close()
