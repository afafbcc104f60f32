"""Posts that arrive together are taken in together: one thread, one entry of the source log for all that wait.

While a group is written, the next one gathers: under load groups grow, alone a post goes at once. A post that cannot go
with the others is answered None, and pushed alone by its sender.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque

from godwit.ingest.together import Parcel
from godwit.server.backend import Backend

log = logging.getLogger("godwit.server")

#: posts of one group, so that the first of many does not wait for all
MOST = 512

Waiting = tuple[Parcel, "asyncio.Future[bool | None]"]


class Inlet:
    """One per server; `push` is called on its event loop."""

    def __init__(self, fleet: Backend) -> None:
        self._fleet = fleet
        self._waiting = deque[Waiting]()
        self._news = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def push(self, parcel: Parcel) -> bool | None:
        """Whether it was taken, once it is durable; None: push it alone."""
        loop = asyncio.get_running_loop()
        if self._thread is None or self._loop is not loop:
            self._loop = loop
            self._thread = threading.Thread(target=self._run, args=(loop,), name="godwit-inlet", daemon=True)
            self._thread.start()
        answer: asyncio.Future[bool | None] = loop.create_future()
        self._waiting.append((parcel, answer))
        if not self._news.is_set():  # (once per group: to wake a thread costs more than a post)
            self._news.set()
        return await answer

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._loop is loop and not loop.is_closed():
            if not self._waiting and not self._news.wait(timeout=1.0):
                continue
            self._news.clear()  # before the look: an entry that comes later sets it again
            group: list[Waiting] = []
            while self._waiting and len(group) < MOST:
                group.append(self._waiting.popleft())
            if not group:
                continue
            try:
                outcomes = self._fleet.push_together([parcel for parcel, _ in group])
            except Exception:  # whatever it is, each post finds out for itself
                log.exception("a group of %d posts could not be taken in together", len(group))
                outcomes = [None] * len(group)
            if not loop.is_closed():
                loop.call_soon_threadsafe(_answer, group, outcomes)


def _answer(group: list[Waiting], outcomes: list[bool | None]) -> None:
    for (_, answer), outcome in zip(group, outcomes, strict=True):
        if not answer.done():  # (the client may have gone)
            answer.set_result(outcome)
