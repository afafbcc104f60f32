"""Live results: every commit is offered once to the subscribers of the queries it answers.

Runs beside the engine: `committed` is called by a region's thread, checks for subscribers, and puts the message
on the event loop. A topic keeps its newest messages once for all, and each subscriber its place among them: one that
does not read costs nothing. Those that wait are woken a few at a time, with a rest between, so that engine and
requests, which share the interpreter, have their turns; a woken subscriber takes all that has come. A subscriber that
has fallen behind the kept messages is told so and let go; it reads what it missed from the results.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

#: subscribers that are woken together, and the pause after them (seconds)
SLICE, REST = 20, 0.001


class News:
    """A message, as text for WebSockets and as a server-sent event: made once for all subscribers."""

    def __init__(self, event: str, body: dict[str, Any]) -> None:
        self.text = json.dumps(body)
        self.event = f"event: {event}\r\ndata: {self.text}\r\n\r\n".encode()


#: what a subscriber gets last if it was too slow
LAGGED = News(
    "lagged", {"event": "lagged", "message": "too slow: subscribe again, and read what is missing in results"}
)


class Comment(News):
    """What no program sees."""

    def __init__(self, comment: str) -> None:
        self.text, self.event = "", f": {comment}\r\n\r\n".encode()


#: that a connection without news is alive; what a subscriber gets last if the server stops
PING, FAREWELL = Comment("ping"), Comment("the server stops")


class Subscriber:
    """One live connection. All but `topic` is its event loop's own."""

    def __init__(self, topic: str, kept: Kept) -> None:
        self.topic, self.loop = topic, asyncio.get_running_loop()
        self._kept, self._next = kept, kept.next
        self._waiting: asyncio.Future[None] | None = None
        #: whether it gets nothing more
        self.ended = False
        self._last: News | None = None

    async def news(self, patience: float) -> list[News]:
        """What has come since it was asked last, as soon as there is something; a ping after that many seconds."""
        if not self.ended and self._next == self._kept.next:
            self._waiting = self.loop.create_future()
            bell = self.loop.call_later(patience, self.wake)
            try:
                await self._waiting
            finally:
                bell.cancel()
                self._waiting = None
        if self.ended:
            return [] if self._last is None else [self._last]
        if self._next < self._kept.first:
            self.ended = True
            return [LAGGED]
        found = self._kept.since(self._next)
        self._next += len(found)
        return found or [PING]

    def wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def end(self, last: News | None = None) -> None:
        """Called on the event loop: `last` is all it gets now."""
        self.ended, self._last = True, last
        self.wake()


class Kept:
    """The newest messages of a topic, numbered."""

    def __init__(self, most: int) -> None:
        self._messages: deque[News] = deque(maxlen=most)
        self.next = 0

    @property
    def first(self) -> int:
        return self.next - len(self._messages)

    def add(self, message: News) -> None:
        self._messages.append(message)
        self.next += 1

    def since(self, number: int) -> list[News]:
        return list(islice(self._messages, number - self.first, None))


class Topic:
    """Who listens to what on one event loop."""

    def __init__(self, most: int) -> None:
        self.kept, self.listeners = Kept(most), list[Subscriber]()
        self._woken: Iterator[Subscriber] | None = None
        self._again = False

    def publish(self, message: News) -> None:
        """Called on the event loop."""
        self.kept.add(message)
        if self._woken is not None:
            self._again = True  # those who were woken already may wait for this one
            return
        self._woken = iter(self.listeners)
        self._wake()

    def _wake(self) -> None:
        assert self._woken is not None
        woken = list(islice(self._woken, SLICE))
        for one in woken:
            one.wake()
        if len(woken) < SLICE:
            self._woken = iter(self.listeners) if self._again else None
            self._again = False
        if self._woken is not None:
            asyncio.get_running_loop().call_later(REST, self._wake)


class Hub:
    """Topics ("results:delta", "events") and who listens."""

    def __init__(self, most: int, waiting: int) -> None:
        """`most`: subscribers there may be; `waiting`: messages that are kept for those who are slow."""
        self._most, self._waiting = most, waiting
        self._changing = threading.Lock()
        self._topics: dict[tuple[str, asyncio.AbstractEventLoop], Topic] = {}

    @property
    def count(self) -> int:
        return sum(len(topic.listeners) for topic in list(self._topics.values()))

    @property
    def full(self) -> bool:
        return self.count >= self._most

    def listened(self, name: str) -> bool:
        with self._changing:
            return any(topic == name for topic, _ in self._topics)

    @contextmanager
    def subscribed(self, name: str) -> Iterator[Subscriber]:
        """Listen while the block runs; call it on the event loop."""
        place = (name, asyncio.get_running_loop())
        with self._changing:
            topic = self._topics.setdefault(place, Topic(self._waiting))
            one = Subscriber(name, topic.kept)
            topic.listeners = [*topic.listeners, one]
        try:
            yield one
        finally:
            with self._changing:
                topic.listeners = [other for other in topic.listeners if other is not one]
                if not topic.listeners:
                    del self._topics[place]

    def end(self) -> None:
        """The server stops: all subscriptions end. Call it on the event loop."""
        for topic in list(self._topics.values()):
            for one in topic.listeners:
                one.end(FAREWELL)

    def publish(self, name: str, make: Callable[[], News]) -> None:
        """From any thread. The message is made only if there are subscribers, and once for all of them."""
        with self._changing:
            found = [(loop, topic) for (known, loop), topic in self._topics.items() if known == name]
        if not found:
            return
        message = make()
        for loop, topic in found:
            if not loop.is_closed():
                loop.call_soon_threadsafe(topic.publish, message)
