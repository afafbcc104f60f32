"""Logs in NATS JetStream: a log is a stream, a record a message, and the server decides who has a number.

    record 12 of a log        message 12 of its stream: JetStream counts from 1, as logs do
    append if free            `Nats-Expected-Last-Sequence: 11`: refused if somebody else was faster
    drop                      purge up to a number; the newest stays

Few rows travel in the record, as everywhere; more of them, and state, lie in files that the record names. A record that
is still too large for a message lies in JetStream's object store, and the message names it.
"""

from __future__ import annotations

import hashlib
from typing import Any

from godwit.storage.message_log import MessageLog
from godwit.storage.nats_objects import NatsObjects
from godwit.storage.nats_server import NatsServer

#: JetStream's code for an expected sequence that is not the last one
WRONG_LAST_SEQUENCE = 10071
#: larger records are kept beside the log (servers take messages of 1 MB unless told otherwise)
MOST_BYTES = 500_000
#: before the name of such a record
_LARGE = b"\0large:"


class NatsLogs:
    """All logs of a fleet."""

    def __init__(self, server: NatsServer, objects: NatsObjects) -> None:
        self.server, self._objects = server, objects

    def log(self, name: str, *, shared: bool) -> NatsLog:
        return NatsLog(self.server, self._objects, name, shared)

    def remove(self, folder: str) -> None:
        """The logs below a folder, with all records."""
        offset = 0
        while found := self.server.ask(lambda js, at=offset: js.streams_info(offset=at)):  # type: ignore[misc]
            offset += len(found)
            for one in found:
                name = one.config.description or ""
                if one.config.name.startswith(f"{self.server.prefix}-log-") and f"{name}/".startswith(f"{folder}/"):
                    self.server.ask(lambda js, gone=one.config.name: js.delete_stream(gone))  # type: ignore[misc]
                    offset -= 1

    def close(self) -> None:
        self.server.close()


class NatsLog(MessageLog):
    """One log."""

    def __init__(self, server: NatsServer, objects: NatsObjects, name: str, shared: bool) -> None:
        super().__init__(name, server.url, shared)
        self._server, self._objects = server, objects
        # (names of streams know no slashes or dots; the description has the log's own)
        digest = hashlib.sha256(name.encode()).hexdigest()[:24]
        self._stream, self._subject = f"{server.prefix}-log-{digest}", f"{server.prefix}.log.{digest}"
        self._made = False

    def _put(self, number: int, data: bytes) -> bool:
        from nats.js.errors import APIError

        self._make()
        if len(data) > MOST_BYTES:
            beside = f"large/{self._name}/{number}-{hashlib.sha256(data).hexdigest()[:16]}"
            self._objects.put(beside, data)
            data = _LARGE + beside.encode()
        headers = {"Nats-Expected-Last-Sequence": str(number - 1)}
        try:
            self._server.ask(lambda js: js.publish(self._subject, data, stream=self._stream, headers=dict(headers)))
        except APIError as refused:
            if refused.err_code == WRONG_LAST_SEQUENCE:
                return False
            raise
        return True

    def _get(self, number: int) -> bytes | None:
        from nats.js.errors import NotFoundError

        self._make()
        try:
            found = self._server.ask(lambda js: js.get_msg(self._stream, seq=number))
        except NotFoundError:
            return None
        data = bytes(found.data or b"")
        return self._objects.get(data[len(_LARGE) :].decode()) if data.startswith(_LARGE) else data

    def _there(self, number: int) -> bool:
        first, last = self._bounds()
        return first <= number <= last

    def _bounds(self) -> tuple[int, int]:
        self._make()
        state: Any = self._server.ask(lambda js: js.stream_info(self._stream)).state
        return max(state.first_seq, 1), state.last_seq

    def _cut(self, first: int, below: int) -> None:
        self._server.ask(lambda js: js.purge_stream(self._stream, seq=below))
        for name in self._objects.names(f"large/{self._name}"):
            if int(name.partition("-")[0]) < below:
                self._objects.delete(f"large/{self._name}/{name}")

    def _make(self) -> None:
        """The stream, if it is not there yet."""
        if self._made:
            return
        from nats.js.api import StorageType, StreamConfig

        config = StreamConfig(
            name=self._stream,
            subjects=[self._subject],
            storage=StorageType.FILE if self._server.file else StorageType.MEMORY,
            description=self._name[:4000],
            deny_delete=True,
        )
        self._server.ask(lambda js: js.add_stream(config))
        self._made = True
