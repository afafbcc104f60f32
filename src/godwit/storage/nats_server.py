"""A connection to a NATS server with JetStream, for callers of any thread. While it is away, callers wait for it.

nats://host:4222/FLEET                              FLEET: the prefix of all streams: several fleets share a server
nats://leaf:4222/FLEET?domain=edge-west&hub=hub     a leaf node: what this region writes stays in its JetStream domain;
                                                    the rest of the fleet lies in that of the hub (`nats_domains.py`)

A *near* domain is kept by the server that this process is connected to. Requests to it are repeated for ten minutes
while it is away. A *far* one is behind a leaf link. If that is cut, a request fails within seconds, and further ones at
once until the domain answers again: a region must not stand still because another one cannot be reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlparse

from godwit.errors import ConfigError, StoreAwayError

log = logging.getLogger(__name__)
T = TypeVar("T")

#: how long one request may take; for how long it is repeated while the server is away; the pause (seconds)
TIMEOUT, PATIENCE, PAUSE = 5.0, 600.0, 0.1
#: the same for a domain behind a leaf link (which a leaf node makes again within a second); how often one that is away
#: is tried
FAR_PATIENCE, PROBE_EVERY = 3.0, 0.5
#: how long a request may take once this process is about to end (seconds)
PARTING = 1.0
#: a file with a user's JWT and key, if the server wants one; a certificate authority of one's own
CREDENTIALS = "GODWIT_NATS_CREDENTIALS"
#: how the domain of the hub is written: the names of a fleet that belong to no region with a domain of its own
HUB = ""

#: what is requested: with the JetStream of a domain
Question = Callable[[Any], Coroutine[Any, Any, T]]


class ServerAwayError(StoreAwayError, OSError):
    """A server has not answered for too long; what it was needed for may be tried again."""


class NatsServer:
    """`request` is the only way to it."""

    def __init__(
        self,
        url: str,
        prefix: str,
        file: bool = True,
        patience: float = PATIENCE,
        *,
        domain: str | None = None,
        hub: str | None = None,
    ) -> None:
        """`prefix`: of the fleet's streams and subjects; not `file`: nothing survives the server (for tests). `domain`:
        of the server at `url`, if it is a leaf node; `hub`: that of the hub (None: `url` is the hub)."""
        #: without a password, for messages
        self.url = re.sub(r"//[^/@]*@", "//", url)
        self.prefix, self.file, self._patience = prefix, file, patience
        self.domain, self._hub = domain, hub
        #: raised whenever a message may have been published that was not delivered: the connection was lost
        self.interruptions = 0
        self._away: set[str] = set()
        self._parting = False
        self._repeated: list[Future[None]] = []
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="godwit-nats", daemon=True)
        self._thread.start()
        # Who forgets to close it: a loop that runs on while Python ends may take the process down with it.
        self._at_exit = weakref.finalize(self, _ended, self._loop, self._thread)
        try:
            self._client = self.run(_connected(url, self._on_disconnect))
            if (hub is None or domain) and not self._client._server_info.get("jetstream", False):
                msg = "runs without JetStream; start it with `nats-server -js`, or with `jetstream { ... }` in its file"
                raise ConfigError(msg)
        except Exception as fault:
            self._at_exit()
            msg = f"NATS at {self.url} {_why_not(fault)}"
            raise ConfigError(msg) from fault
        self._contexts: dict[str, Any] = {}
        self.repeat(PROBE_EVERY, self._probe)

    def is_far(self, domain: str) -> bool:
        """Whether requests to a domain cross a leaf link."""
        return self._hub is not None if domain == HUB else domain != self.domain

    def jetstream(self, domain: str) -> Any:
        if domain not in self._contexts:
            name = (self._hub if domain == HUB else domain) or None
            self._contexts[domain] = self._client.jetstream(timeout=TIMEOUT, domain=name)
        return self._contexts[domain]

    def part(self) -> None:
        """This process is about to end: from now on nobody waits for a server that is away."""
        self._parting = True

    def request(self, question: Question[T], domain: str = HUB) -> T:
        """A request to a JetStream, repeated while its server is away: so it must be one that may be sent twice.
        Errors of JetStream itself are the caller's; OSError: the server has not come back."""
        far = self.is_far(domain)
        if domain in self._away:
            raise self._unreachable(domain, "the leaf link is cut, or the server behind it is down")
        until, reported = time.monotonic() + (min(FAR_PATIENCE, self._patience) if far else self._patience), False
        while True:
            try:
                asked = question(self.jetstream(domain))
                answer = self.run(asyncio.wait_for(asked, PARTING) if self._parting else asked)
            except Exception as fault:
                if not is_away(fault):
                    raise
                failed = fault
            else:
                if reported:
                    log.warning("%s is back", self._named(domain))
                return answer
            if time.monotonic() > until or self._client.is_closed or self._parting:
                if (far or self._parting) and domain not in self._away:
                    log.warning("%s is away (%s); going on without it", self._named(domain), type(failed).__name__)
                    self._away.add(domain)
                raise self._unreachable(domain, f"{type(failed).__name__} {failed}") from failed
            if not far and not reported:
                log.warning("%s is away (%s); waiting for it", self._named(domain), type(failed).__name__)
                reported = True
            time.sleep(PAUSE)

    def _named(self, domain: str) -> str:
        if not self.is_far(domain):
            return f"NATS at {self.url}"
        return f"JetStream domain '{(self._hub if domain == HUB else domain) or ''}', behind NATS at {self.url},"

    def _unreachable(self, domain: str, why: str) -> ServerAwayError:
        return ServerAwayError(f"{self._named(domain)} is away: {why}")

    async def _on_disconnect(self) -> None:
        self.interruptions += 1

    async def _probe(self) -> None:
        """Whether domains that were away answer again."""
        for domain in list(self._away):
            with contextlib.suppress(Exception):
                await self.jetstream(domain).account_info()
                self._away.discard(domain)
                log.warning("%s is back", self._named(domain))

    def subscribe(self, subject: str, receive: Callable[[bytes], None]) -> None:
        """Call `receive`, which must not wait for anything, with what is published from now on."""

        async def deliver(message: Any) -> None:
            receive(message.data)

        try:
            self.run(self._client.subscribe(subject, cb=deliver))  # (repeated by the client when it connects again)
        except Exception as fault:
            if not is_away(fault):
                raise
            raise self._unreachable(self.domain or HUB, f"{type(fault).__name__} {fault}") from fault

    async def publish(self, subject: str, data: bytes) -> None:
        """To all subscribers, without an answer. For the loop's own thread."""
        await self._client.publish(subject, data)

    def repeat(self, seconds: float, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Work that is done now and then on the loop's own thread, so that nobody waits for it."""
        self._repeated.append(asyncio.run_coroutine_threadsafe(self._repeat(seconds, work), self._loop))

    async def _repeat(self, seconds: float, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            with contextlib.suppress(Exception):  # (the server is away; a request will say so)
                await work()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Something on the loop's thread, to its end."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(4 * TIMEOUT)

    def close(self) -> None:
        for one in self._repeated:
            one.cancel()
        with contextlib.suppress(Exception):  # (a server that is away: there is nobody to say goodbye to)
            self.run(asyncio.wait_for(self._client.close(), PARTING))
        self._at_exit()


async def _end_tasks() -> None:
    """All that still runs on this loop."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.wait(left or {asyncio.ensure_future(asyncio.sleep(0))}, timeout=1.0)


def is_away(fault: Exception) -> bool:
    """Whether an error says that the server cannot be reached, as opposed to what it has answered."""
    from nats.errors import Error as NatsError
    from nats.js.errors import APIError, ServiceUnavailableError

    if isinstance(fault, APIError):  # (503: JetStream is about to start, or to stop; or nobody serves the domain)
        return isinstance(fault, ServiceUnavailableError) or fault.code == 503
    # (uvloop, of a connection that was lost and is not made again yet)
    lost = isinstance(fault, RuntimeError) and "handler is closed" in str(fault)
    return lost or isinstance(fault, TimeoutError | NatsError | OSError)


def _ended(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    with contextlib.suppress(Exception):  # (or asyncio would say of each task that nobody has waited for it)
        asyncio.run_coroutine_threadsafe(_end_tasks(), loop).result(PARTING)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PARTING)
    if not thread.is_alive():
        loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is installed: an append takes a quarter less processor time with it."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    made: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return made


def _is_refused(fault: Exception) -> bool:
    """Whether a server that was reached will not have this user, or this client not its certificate: to try again
    does not help."""
    return isinstance(fault, ssl.SSLError) or "authoriz" in str(fault).lower()


def _why_not(fault: Exception) -> str:
    said = str(fault) or type(fault).__name__
    if isinstance(fault, ConfigError):
        return said
    if isinstance(fault, ssl.SSLError):
        return f"has a certificate that is not trusted ({said}); name the authority's file in SSL_CERT_FILE"
    if _is_refused(fault):
        return (
            f"refuses this user ({said}); give nats://USER:PASSWORD@host:4222/..., or name a file of credentials in "
            f"{CREDENTIALS}"
        )
    return f"cannot be reached ({said}); check the address, and start it with JetStream (`nats-server -js`)"


async def insist_on_tls(url: str) -> None:
    """ConfigError if a URL asks for TLS and its server wants none. Asked before the client connects, which would send
    its password in the clear then."""
    if not url.startswith("tls:"):
        return
    parts = urlparse(url)
    reader, writer = await asyncio.wait_for(asyncio.open_connection(parts.hostname, parts.port or 4222), TIMEOUT)
    try:
        told = await asyncio.wait_for(reader.readline(), TIMEOUT)
    finally:
        writer.close()
    if not (told.startswith(b"INFO ") and json.loads(told[5:]).get("tls_required")):
        msg = "offers no TLS; give it `tls { cert_file: ..., key_file: ... }`, or write nats:// if none is needed"
        raise ConfigError(msg)


async def connected_soon(url: str) -> Any:
    """For sources and sinks, which begin again by themselves: raises why there is no connection. (The client itself
    would log each attempt with its stack, and raise that there is no server.)"""
    import nats
    from nats.errors import NoServersError

    failed: list[Exception] = []

    async def note(fault: Exception) -> None:
        failed[:] = [fault]

    await insist_on_tls(url)
    try:
        return await nats.connect(url, max_reconnect_attempts=2, connect_timeout=5, error_cb=note)
    except NoServersError as none:
        raise (failed[0] if failed else none) from none


async def _connected(url: str, disconnected: Callable[[], Coroutine[Any, Any, None]]) -> Any:
    """Raises what went wrong last if there is no connection in time, or if there will be none."""
    import nats

    more: dict[str, Any] = {}
    if file := os.environ.get(CREDENTIALS):
        if not Path(file).is_file():
            msg = f"needs the file {file}, which {CREDENTIALS} names, and there is none; check the path"
            raise ConfigError(msg)
        more["user_credentials"] = file
    failed: list[Exception] = []
    refused = asyncio.Event()

    async def note(fault: Exception) -> None:
        """Later, what goes wrong is raised where it was requested."""
        failed[:] = [fault]
        if _is_refused(fault):
            refused.set()

    async def connect() -> Any:
        while True:
            try:
                await insist_on_tls(url)
                break
            except (OSError, TimeoutError, ValueError) as fault:
                await note(fault)
                await asyncio.sleep(PAUSE)
        return await nats.connect(
            url, connect_timeout=5, max_reconnect_attempts=-1, reconnect_time_wait=0.1, error_cb=note,
            disconnected_cb=disconnected, **more,
        )  # fmt: skip

    connecting = asyncio.ensure_future(connect())
    refusal, seconds = asyncio.ensure_future(refused.wait()), 3.5 * TIMEOUT  # (the server may be about to start, too)
    await asyncio.wait((connecting, refusal), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    refusal.cancel()
    if connecting.done():
        return connecting.result()
    connecting.cancel()  # (it would go on for ever)
    with contextlib.suppress(asyncio.CancelledError):
        await connecting
    raise failed[0] if failed else TimeoutError(f"no answer within {seconds:g} s")
