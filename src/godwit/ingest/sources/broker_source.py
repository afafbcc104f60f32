"""A source that a thread of its own serves: it asks for messages, takes them in, and acknowledges what is durable."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from godwit.api.core import FleetCore
from godwit.errors import SourceError
from godwit.ingest.sources.intake import Intake, Message
from godwit.storage.urls import shown

log = logging.getLogger(__name__)
T = TypeVar("T")


def _said(error: Exception) -> str:
    """Drivers raise much: some of it says nothing, some has no line of its own."""
    return " ".join(str(error).split()) or type(error).__name__


#: messages that are taken in together
AT_ONCE = 1000
#: after a failure, the first pause (seconds); it doubles up to the second
PAUSES = (0.2, 10.0)
#: entries that readers may lag behind before a source waits for them
MOST_UNREAD = 5_000


class BrokerSource(ABC, Generic[T]):
    """`T`: what the driver calls a message."""

    def __init__(self, fleet: FleetCore, name: str, intake: Intake, address: str) -> None:
        """`address`: of the broker and of what is read there, as messages name it."""
        self._fleet, self.name, self._intake = fleet, name, intake
        self.address = shown(address)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        #: why nothing comes in now; it is tried again
        self.failure: Exception | None = None

    @property
    def rows(self) -> int:
        """Rows that came in through this source since it was opened."""
        return self._intake.rows

    @abstractmethod
    def _open(self) -> None:
        """Connect and subscribe."""

    @abstractmethod
    def _receive(self) -> Sequence[T]:
        """Messages, as soon as there are any; none after some time."""

    @abstractmethod
    def _message(self, told: T) -> Message | None:
        """What it says; None: it is not for us."""

    @abstractmethod
    def _acknowledge(self, told: Sequence[T]) -> None:
        """They are durable here."""

    @abstractmethod
    def _close(self) -> None: ...

    def start(self) -> Any:
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name=f"godwit-source-{self.name}", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Messages that are not acknowledged come again when the source is opened again."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(30)
            self._thread = None

    def check(self) -> None:
        """Raise if the source cannot be read now."""
        if self.failure is not None and not self._stopping.is_set():
            msg = f"source {self.name} ({self.address}) cannot be read: {_said(self.failure)}. It is tried again"
            raise SourceError(msg) from self.failure

    def _run(self) -> None:
        pause = PAUSES[0]
        while not self._stopping.is_set():
            try:
                self._open()
                while not self._stopping.is_set():
                    self._turn()
                    self.failure, pause = None, PAUSES[0]
            except Exception as error:  # whatever a driver raises: the source begins again where it acknowledged
                self.failure = error
                what = "source %s (%s): %s; check the address and who may read there. Again in %g s"
                log.warning(what, self.name, self.address, _said(error), pause)
                self._stopping.wait(pause)
                pause = min(2 * pause, PAUSES[1])
            finally:
                with suppress(Exception):  # a connection that is broken cannot be closed in order
                    self._close()

    def _turn(self) -> None:
        told = self._receive()
        if not told:
            return
        found = [message for message in map(self._message, told) if message is not None]
        for stream in {message.stream for message in found}:
            self._wait(stream)
        self._intake.take(found)
        self._acknowledge(told)

    def _wait(self, stream: str) -> None:
        """Do not run ahead of the slowest reader; the broker keeps what is not taken in."""
        while self._fleet.unread(stream) > MOST_UNREAD and not self._stopping.is_set():
            time.sleep(0.05)
