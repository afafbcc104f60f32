"""The proxy that stands for a link: what it does to bytes that pass."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from godwit.process.proxy import Proxy


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """Before a server that says everything again."""

    def echo() -> None:
        while True:
            try:
                caller, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=_again, args=(caller,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=echo, daemon=True).start()
        made = Proxy()
        made.target = f"127.0.0.1:{server.getsockname()[1]}"
        yield made
        made.close()


def _again(caller: socket.socket) -> None:
    while data := caller.recv(1024):
        caller.sendall(data)
    caller.close()


def _call(proxy: Proxy) -> socket.socket:
    host, _, port = proxy.address.rpartition(":")
    called = socket.create_connection((host, int(port)), timeout=5)
    called.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return called


def test_a_slow_link_is_a_line_not_a_queue(proxy: Proxy) -> None:
    """Ten messages that follow each other take one round trip and the time of their sending, not ten round trips."""
    proxy.delay(0.2)
    with _call(proxy) as called:
        began, got = time.monotonic(), b""
        for n in range(10):
            called.sendall(b"%d" % n)
            time.sleep(0.01)
        while len(got) < 10:
            got += called.recv(100)
        took = time.monotonic() - began
    assert got == b"0123456789"
    assert 0.4 < took < 1.5


def test_a_cut_link_answers_nobody_until_it_is_back(proxy: Proxy) -> None:
    with _call(proxy) as called:
        called.sendall(b"a")
        assert called.recv(10) == b"a"
        proxy.cut(True)
        assert called.recv(10) == b""
    with _call(proxy) as refused:
        assert refused.recv(10) == b""
    proxy.cut(False)
    with _call(proxy) as again:
        again.sendall(b"b")
        assert again.recv(10) == b"b"
