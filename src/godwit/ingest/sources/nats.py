"""A NATS JetStream stream as a source. Exactly once: the stream's own sequence numbers identify a repeat.

A durable consumer keeps what was acknowledged; a message is acknowledged once its rows are durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from godwit.api.core import FleetCore
from godwit.drivers import driver
from godwit.errors import ConfigError, SourceError
from godwit.ingest.device_locator import PositionColumns
from godwit.ingest.sources.broker_source import AT_ONCE, BrokerSource
from godwit.ingest.sources.intake import Intake, Message
from godwit.ingest.sources.mqtt import TopicPattern
from godwit.loops import LoopThread
from godwit.storage.nats_server import connected_soon


class NatsSource(BrokerSource[Any]):
    """Feeds streams from subjects such as `fleet.{site}.{device}.{stream}`; the JetStream stream must be there."""

    def __init__(
        self,
        fleet: FleetCore,
        servers: str,
        subject: str,
        *,
        stream: str | None = None,
        site: str | None = None,
        positions: PositionColumns | None = None,
        name: str = "nats",
    ) -> None:
        intake = Intake(fleet, f"nats {name}", site=site, positions=positions)
        super().__init__(fleet, name, intake, f"{servers}, {subject}")
        self._pattern = TopicPattern(subject.replace(".", "/").replace(">", "#").replace("*", "+"))
        if ("stream" in self._pattern.names) == (stream is not None):
            msg = f"subject '{subject}': name the stream either in the subject ({{stream}}) or beside it (stream=...)"
            raise ConfigError(msg)
        self._servers, self._stream = servers, stream
        self._errors = driver("nats.errors")
        self._loop: LoopThread | None = None
        self._connection: Any = None
        self._subscription: Any = None
        self._pending: Sequence[Any] = ()

    def _open(self) -> None:
        self._loop = LoopThread(f"godwit-{self.name}")
        self._loop.run(self._connect())

    async def _connect(self) -> None:
        self._connection = await connected_soon(self._servers)
        subject = self._pattern.subscription.replace("/", ".").replace("#", ">").replace("+", "*")
        durable = f"godwit-{self.name}".replace(" ", "-").replace(".", "-")
        try:
            self._subscription = await self._connection.jetstream().pull_subscribe(subject, durable=durable)
        except driver("nats.js.errors").NotFoundError as none:
            msg = (
                f"no JetStream stream has the subject {subject}; make one: nats stream add NAME --subjects '{subject}'"
            )
            raise SourceError(msg) from none

    def _receive(self) -> Sequence[Any]:
        assert self._loop is not None
        self._pending = self._loop.run(self._fetch())
        return self._pending

    async def _fetch(self) -> Sequence[Any]:
        if self._connection.is_closed:
            raise self._errors.ConnectionClosedError
        try:
            found: Sequence[Any] = await self._subscription.fetch(AT_ONCE, timeout=0.2)
        except self._errors.TimeoutError:
            return []
        return found

    def _message(self, told: Any) -> Message | None:
        named = self._pattern.read(told.subject.replace(".", "/"))
        if named is None:
            return None
        stream = named.get("stream") or self._stream
        assert stream is not None
        kind = (told.headers or {}).get("Content-Type", "application/json")
        number = told.metadata.sequence.stream
        return Message(stream, told.data, named.get("device"), named.get("site"), number, kind)

    def _acknowledge(self, told: Sequence[Any]) -> None:
        assert self._loop is not None
        self._loop.run(self._ack(told))

    async def _ack(self, told: Sequence[Any]) -> None:
        for message in told:
            await message.ack()
        self._pending = ()

    def _close(self) -> None:
        loop, connection, self._loop, self._connection = self._loop, self._connection, None, None
        if loop is not None:
            try:
                if connection is not None and not connection.is_closed:
                    loop.run(self._give_back(connection))
            finally:
                loop.stop()

    async def _give_back(self, connection: Any) -> None:
        """What was not acknowledged is to come again at once, not after the server's patience."""
        for message in self._pending:
            await message.nak()
        self._pending = ()
        await connection.close()
