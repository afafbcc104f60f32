"""Live results: every commit is offered once to the subscribers of the queries it answers.

Runs beside the engine: `committed` is called by a region's thread, looks whether anybody listens, and puts the rows on
the event loop. A subscriber that does not keep up is told so and let go; it reads what it missed from the results.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


class News:
    """A message, as text for WebSockets and as a server-sent event: made once for all subscribers."""

    def __init__(self, event: str, told: dict[str, Any]) -> None:
        self.text = json.dumps(told)
        self.event = f"event: {event}\r\ndata: {self.text}\r\n\r\n".encode()


#: what a subscriber gets last if it was too slow
LAGGED = News(
    "lagged", {"event": "lagged", "message": "too slow: subscribe again, and read what is missing in results"}
)


class Farewell(News):
    """What a subscriber gets last if the server stops: a comment, which no program sees."""

    def __init__(self) -> None:
        self.text, self.event = "", b": the server stops\r\n\r\n"


@dataclass(eq=False)
class Subscriber:
    """One live connection."""

    topic: str
    queue: asyncio.Queue[News]
    loop: asyncio.AbstractEventLoop
    ended: bool = field(default=False)

    def offer(self, message: News) -> None:
        """Called on the event loop."""
        if self.ended:
            return
        if self.queue.qsize() >= self.queue.maxsize - 1:
            self.ended, message = True, LAGGED
        self.queue.put_nowait(message)

    def end(self) -> None:
        """Called on the event loop; the queue has room, unless it has ended already."""
        if not self.ended:
            self.ended = True
            self.queue.put_nowait(Farewell())


class Hub:
    """Topics ("results:delta", "events") and who listens."""

    def __init__(self, most: int, waiting: int) -> None:
        self._most, self._waiting = most, waiting
        self._changing = threading.Lock()
        self._topics: dict[str, list[Subscriber]] = {}

    @property
    def count(self) -> int:
        return sum(map(len, list(self._topics.values())))

    @property
    def full(self) -> bool:
        return self.count >= self._most

    def listened(self, topic: str) -> bool:
        return topic in self._topics

    @contextmanager
    def subscribed(self, topic: str) -> Iterator[Subscriber]:
        """Listen while the block runs; call it on the event loop."""
        queue: asyncio.Queue[News] = asyncio.Queue(self._waiting + 1)
        one = Subscriber(topic, queue, asyncio.get_running_loop())
        with self._changing:
            self._topics.setdefault(topic, []).append(one)
        try:
            yield one
        finally:
            with self._changing:
                left = [other for other in self._topics[topic] if other is not one]
                if left:
                    self._topics[topic] = left
                else:
                    del self._topics[topic]

    def end(self) -> None:
        """The server stops: everybody is let go. Call it on the event loop."""
        with self._changing:
            listeners = [one for those in self._topics.values() for one in those]
        for one in listeners:
            one.end()

    def publish(self, topic: str, make: Callable[[], News]) -> None:
        """From any thread. The message is made only if somebody listens, and once for all of them."""
        with self._changing:
            listeners = list(self._topics.get(topic, ()))
        if not listeners:
            return
        message = make()
        by_loop: dict[asyncio.AbstractEventLoop, list[Subscriber]] = {}
        for one in listeners:
            by_loop.setdefault(one.loop, []).append(one)
        for loop, those in by_loop.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_offer_all, those, message)


def _offer_all(subscribers: list[Subscriber], message: News) -> None:
    for one in subscribers:
        one.offer(message)
