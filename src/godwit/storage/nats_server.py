"""A connection to a NATS server with JetStream, for callers of any thread. While it is away, callers wait for it.

nats://host:4222/FLEET       FLEET: the prefix of all streams, so that several fleets share a server
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from godwit.errors import ConfigError

log = logging.getLogger(__name__)
T = TypeVar("T")

#: how long one question may take; for how long it is asked again while the server is away; the pause (seconds)
TIMEOUT, PATIENCE, PAUSE = 5.0, 600.0, 0.1
#: a file with a user's JWT and key, if the server wants one; a certificate authority of one's own
CREDENTIALS = "GODWIT_NATS_CREDENTIALS"


class NatsServer:
    """`ask` is the only way to it."""

    def __init__(self, url: str, prefix: str, file: bool = True, patience: float = PATIENCE) -> None:
        """`prefix`: of the fleet's streams and subjects; not `file`: nothing survives the server (for tests)."""
        self.url, self.prefix, self.file, self._patience = url, prefix, file, patience
        #: raised whenever something may have been said that was not heard: the connection was lost
        self.doubts = 0
        self._repeated: list[Future[None]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="godwit-nats", daemon=True)
        self._thread.start()
        try:
            self._client = self._wait(_connected(url, self._lost))
        except Exception as fault:
            self._stop()
            msg = f"NATS at {url} cannot be reached ({fault}); start it with JetStream (`nats-server -js`)"
            raise ConfigError(msg) from fault
        self.js = self._client.jetstream(timeout=TIMEOUT)

    def ask(self, question: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Ask JetStream; again and again while the server is away. So a question must be one that may be asked twice.
        Errors of JetStream itself are the caller's; OSError: the server has not come back."""
        from nats.errors import Error as NatsError
        from nats.js.errors import APIError

        until, told = time.monotonic() + self._patience, False
        while True:
            try:
                answer = self._wait(question(self.js))
            except APIError as said:
                if said.code != 503:  # (JetStream is about to start, or to stop)
                    raise
                fault: Exception = said
            except (TimeoutError, NatsError, OSError) as away:
                fault = away
            else:
                if told:
                    log.warning("NATS at %s is back", self.url)
                return answer
            if time.monotonic() > until or self._client.is_closed:
                msg = f"NATS at {self.url} is away: {type(fault).__name__} {fault}"
                raise OSError(msg) from fault
            if not told:
                log.warning("NATS at %s is away (%s); waiting for it", self.url, type(fault).__name__)
                told = True
            time.sleep(PAUSE)

    async def _lost(self) -> None:
        self.doubts += 1

    def hear(self, subject: str, told: Callable[[bytes], None]) -> None:
        """Call `told`, which must not wait for anything, with what is said from now on."""

        async def heard(message: Any) -> None:
            told(message.data)

        self.ask(lambda _: self._client.subscribe(subject, cb=heard))

    async def say(self, subject: str, data: bytes) -> None:
        """To whoever hears it; nobody answers. For the loop's own thread."""
        await self._client.publish(subject, data)

    def every(self, seconds: float, work: Callable[[Any], Coroutine[Any, Any, object]]) -> None:
        """Work that is done now and then on the loop's own thread, so that nobody waits for it."""
        self._repeated.append(asyncio.run_coroutine_threadsafe(self._repeat(seconds, work), self._loop))

    async def _repeat(self, seconds: float, work: Callable[[Any], Coroutine[Any, Any, object]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            with contextlib.suppress(Exception):  # (the server is away; whoever asks it himself will say so)
                await work(self.js)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(4 * TIMEOUT)

    def close(self) -> None:
        for one in self._repeated:
            one.cancel()
        self._wait(self._client.close())
        self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _connected(url: str, lost: Callable[[], Coroutine[Any, Any, None]]) -> Any:
    import nats

    more: dict[str, Any] = {}
    if os.environ.get(CREDENTIALS):
        more["user_credentials"] = os.environ[CREDENTIALS]

    async def quiet(_: Exception) -> None:
        """What went wrong is told to whoever asked."""

    return await nats.connect(
        url, connect_timeout=5, max_reconnect_attempts=-1, reconnect_time_wait=0.1, error_cb=quiet,
        disconnected_cb=lost, **more,
    )  # fmt: skip
