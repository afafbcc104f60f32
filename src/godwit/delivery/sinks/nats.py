"""Results as messages of a NATS JetStream stream. Exactly-once, as long as the stream keeps a subject's last message.

Messages are published one after the other, each once its predecessor is stored, with the commit's number and the part
as `Nats-Msg-Id`. The server drops a repeat within its window (two minutes by default); for a repeat that comes later
than that, the sink looks up the last message of the region's subject when it begins again.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, ClassVar

from godwit.delivery.sinks.base import ResultBatch
from godwit.delivery.sinks.named_run import NamedRunSink
from godwit.drivers import driver
from godwit.loops import LoopThread
from godwit.storage.nats_server import connected_soon

ID = "Nats-Msg-Id"


class NatsSink(NamedRunSink):
    """Publishes {"rows": [...]} to `SUBJECT.QUERY.REGION`, up to `rows` rows a message.

    A JetStream stream must listen to `SUBJECT.>`; `stream`: make it under this name if there is none.
    """

    exactly_once: ClassVar[bool] = True

    def __init__(self, servers: str, subject: str, *, stream: str | None = None, rows: int = 500) -> None:
        self._servers, self._subject, self._stream, self._rows = servers, subject, stream, rows
        self._errors = driver("nats.js.errors")
        self._loop: LoopThread | None = None
        self._connection: Any = None
        self._js: Any = None
        #: subject -> (scope, number, part) of the last message there
        self._last: dict[str, tuple[str, int, int]] = {}
        self.name = f"nats:{servers.rpartition('@')[2]}/{subject}"

    def close(self) -> None:
        loop, connection, self._loop, self._connection, self._js = self._loop, self._connection, None, None, None
        if loop is not None:
            with suppress(Exception):  # a connection that is broken cannot be closed in order
                if connection is not None:
                    loop.run(connection.close())
            loop.stop()
        self._last.clear()

    def write(self, batch: ResultBatch) -> None:
        if self._loop is None:
            self._loop = LoopThread("godwit-nats-sink")
        self._loop.run(self._write(batch))

    async def _write(self, batch: ResultBatch) -> None:
        if self._js is None:
            await self._connect()
        subject = f"{self._subject}.{_token(batch.name)}.{_token(batch.region)}"
        if subject not in self._last:
            self._last[subject] = await self._last_of(subject)
        scope = f"{self._run}.{batch.scope}"
        for part, rows in batch.pieces(self._rows):
            last = self._last[subject]
            if last[0] == scope and (batch.number, part) <= last[1:]:
                continue  # it came through before
            body = json.dumps({"query": batch.name, "region": batch.region, "number": batch.number, "rows": rows})
            headers = {ID: f"{scope}.{batch.number}.{part}"}
            await self._js.publish(subject, body.encode(), headers=headers, timeout=10)
            self._last[subject] = (scope, batch.number, part)

    async def _connect(self) -> None:
        self._connection = await connected_soon(self._servers)
        js = self._connection.jetstream()
        if self._stream is not None:
            try:
                await js.stream_info(self._stream)
            except self._errors.NotFoundError:
                await js.add_stream(name=self._stream, subjects=[f"{self._subject}.>"])
        self._js = js

    async def _last_of(self, subject: str) -> tuple[str, int, int]:
        """What the subject's last message holds; nothing, if it is not one of ours."""
        try:
            stream = self._stream or await self._js.find_stream_name_by_subject(subject)
            message = await self._js.get_last_msg(stream, subject)
        except self._errors.NotFoundError:
            return ("", 0, 0)
        scope, _, rest = (message.headers or {}).get(ID, "").rpartition(".")
        scope, _, number = scope.rpartition(".")
        return (scope, int(number), int(rest)) if number.isdigit() and rest.isdigit() else ("", 0, 0)


def _token(name: str) -> str:
    """A name as one token of a subject."""
    return "".join("_" if char in ".*> \t\r\n" else char for char in name)
