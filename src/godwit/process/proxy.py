"""A TCP proxy of ours before a process: it can cut the link, or make it slow. For tests, where `tc` is not allowed."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time

#: pieces of 64 kB that are on their way at most; who sends more waits
MOST_PIECES = 256


class Proxy:
    """Listens at a free port and passes on to an address, both ways."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        #: where it passes on to
        self.target = ""
        self._cut, self._delay = False, 0.0
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        threading.Thread(target=self._run, name=f"proxy/{self.address}", daemon=True).start()

    def cut(self, on: bool) -> None:
        """Reset all connections, and refuse new ones."""
        self._cut = on
        if on:
            self._hang_up()

    def delay(self, seconds: float) -> None:
        self._delay = seconds

    def close(self) -> None:
        self._socket.close()
        self._hang_up()

    def _hang_up(self) -> None:
        with self._guard:
            opened, self._open = self._open, set()
        for one in opened:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _run(self) -> None:
        while True:
            try:
                caller, _ = self._socket.accept()
            except OSError:
                return
            try:
                if self._cut:
                    raise OSError
                host, _, port = self.target.rpartition(":")
                listener = socket.create_connection((host, int(port)), timeout=5)
            except (OSError, ValueError):
                caller.close()
                continue
            listener.settimeout(None)
            with self._guard:
                self._open |= {caller, listener}
            for source, target in ((caller, listener), (listener, caller)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        """A line of some length: what is on its way does not hold up what comes behind it."""
        line: queue.Queue[tuple[float, bytes]] = queue.Queue(MOST_PIECES)
        threading.Thread(target=self._arrive, args=(line, source, target), daemon=True).start()
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                line.put((time.monotonic() + self._delay, data))
        line.put((time.monotonic() + self._delay, b""))

    def _arrive(self, line: queue.Queue[tuple[float, bytes]], source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while (sent := line.get())[1]:
                time.sleep(max(sent[0] - time.monotonic(), 0.0))
                target.sendall(sent[1])
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
            with self._guard:
                self._open.discard(one)
