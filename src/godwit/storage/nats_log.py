"""Logs in NATS JetStream: a log is a stream, a record a message, and the server decides who has a number.

    record 12 of a log        message 12 of its stream: JetStream counts from 1, as logs do
    append if free            `Nats-Expected-Last-Sequence: 11`: refused if somebody else was faster
    drop                      purge up to a number; the newest stays
    news                      whoever appends says so, with the record, to those who read the log (no JetStream there):
                              they need not ask whether there is something. What they did not hear is found by asking,
                              once a second beside the readers, and by themselves after every lost connection

Few rows travel in the record, as everywhere; more of them, and state, lie in files that the record names. A record that
is still too large for a message lies there as well (`large_records.py`).
"""

from __future__ import annotations

import asyncio
import hashlib
import struct
import time
import weakref
from collections.abc import Callable
from typing import Any

from godwit.storage.base import Disk
from godwit.storage.large_records import LargeRecords
from godwit.storage.message_log import MessageLog
from godwit.storage.nats_server import NatsServer

#: JetStream's code for an expected sequence that is not the last one
WRONG_LAST_SEQUENCE = 10071
#: how often it is asked about the logs that are read (seconds), so that readers, who may be far away, need not wait for
#: the answer; how old that may be; so many records are kept until they are read
ASK_EVERY, OLDEST, UNREAD = 1.0, 2.5, 128
_NUMBER = struct.Struct(">Q")
_NEVER = (0.0, -1)


class NatsLogs:
    """All logs of a fleet."""

    def __init__(self, server: NatsServer, disk: Disk) -> None:
        """`disk`: for records that are too large for a message."""
        self.server, self._disk = server, disk
        self.heard: Callable[[str], None] = lambda log: None
        self._opened: weakref.WeakSet[NatsLog] = weakref.WeakSet()
        server.every(ASK_EVERY, self._ask_about_all)

    def log(self, name: str, *, shared: bool) -> NatsLog:
        opened = NatsLog(self, LargeRecords(self._disk, name), name, shared)
        self._opened.add(opened)
        return opened

    async def _ask_about_all(self, js: Any) -> None:
        await asyncio.gather(*(log.ask_about(js) for log in list(self._opened)), return_exceptions=True)

    def ask_again(self) -> None:
        """What is known by hearsay counts no more."""
        self.server.doubts += 1

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

    def __init__(self, logs: NatsLogs, large: LargeRecords, name: str, shared: bool) -> None:
        server = logs.server
        super().__init__(name, server.url, shared)
        self._logs, self._server, self._large = logs, server, large
        # (names of streams know no slashes or dots; the description has the log's own)
        digest = hashlib.sha256(name.encode()).hexdigest()[:24]
        self._stream, self._subject = f"{server.prefix}-log-{digest}", f"{server.prefix}.log.{digest}"
        self._news = f"{server.prefix}.news.{digest}"
        self._made, self._hears = False, False
        #: somebody has wanted to know how far it goes since it was last asked for beside
        self._wanted = False
        #: (first, last) as asked for or told; when they were asked for, after how many doubts; how often news came
        self._known, self._asked, self._told = (1, 0), _NEVER, 0
        #: what came with the news and was not read yet
        self._unread: dict[int, bytes] = {}

    def _put(self, number: int, data: bytes) -> bool:
        from nats.js.errors import APIError

        self._make()
        message = self._large.message(number, data)
        try:
            self._server.ask(lambda js: self._publish(js, number, message))
        except APIError as refused:
            if refused.err_code == WRONG_LAST_SEQUENCE:
                return False
            raise
        return True

    async def _publish(self, js: Any, number: int, data: bytes) -> None:
        headers = {"Nats-Expected-Last-Sequence": str(number - 1)}
        await js.publish(self._subject, data, stream=self._stream, headers=headers)
        await self._server.say(self._news, _NUMBER.pack(number) + data)

    def _get(self, number: int) -> bytes | None:
        from nats.js.errors import NotFoundError

        data = self._unread.pop(number, None)
        if data is None:
            if self._mine is None and self._up_to_date() and number > self._known[1]:
                return None
            self._make()
            try:
                found = self._server.ask(lambda js: js.get_msg(self._stream, seq=number))
            except NotFoundError:
                self._asked = _NEVER  # cut off behind us, perhaps
                return None
            data = bytes(found.data or b"")
        return self._large.record(data)

    @property
    def floor(self) -> int:
        return (self._mine or self._heard())[0]

    def _there(self, number: int) -> bool:
        first, last = self._heard()
        return first <= number <= last

    def _heard(self) -> tuple[int, int]:
        if not self._hears:
            self._make()
            self._server.hear(self._news, self._hear)
            self._hears, self._asked = True, _NEVER
        return self._known if self._up_to_date() else self._bounds()

    def _up_to_date(self) -> bool:
        at, doubts = self._asked
        self._wanted = True
        return self._hears and doubts == self._server.doubts and time.monotonic() - at < OLDEST

    def _bounds(self) -> tuple[int, int]:
        self._make()
        asked, told = (time.monotonic(), self._server.doubts), self._told
        return self._learn(self._server.ask(lambda js: js.stream_info(self._stream)), asked, told)

    async def ask_about(self, js: Any) -> None:
        """Ask how far it goes, if that is of interest: news may not have been said, for who appended has died."""
        if not (self._hears and self._wanted):
            return
        self._wanted = False
        known, asked, told = self._known, (time.monotonic(), self._server.doubts), self._told
        if self._learn(await js.stream_info(self._stream), asked, told)[1] > known[1] and told == self._told:
            self._logs.heard(self._name)

    def _learn(self, info: Any, asked: tuple[float, int], told: int) -> tuple[int, int]:
        """What the server said; `told`: how often news had come when it was asked."""
        state = info.state
        with self._lock:
            last = state.last_seq if told == self._told else max(state.last_seq, self._known[1])
            if last < self._known[1]:  # it was removed, and begins again
                self._unread.clear()
                self._tail.clear()
            self._known, self._asked = (max(state.first_seq, 1), last), asked
        return self._known

    def _hear(self, told: bytes) -> None:
        """Somebody has appended a record."""
        (number,) = _NUMBER.unpack_from(told)
        with self._lock:
            self._told += 1
            self._known = self._known[0], max(number, self._known[1])
            self._unread[number] = told[_NUMBER.size :]
            while len(self._unread) > UNREAD:
                del self._unread[next(iter(self._unread))]
        self._logs.heard(self._name)

    def _cut(self, first: int, below: int) -> None:
        self._server.ask(lambda js: js.purge_stream(self._stream, seq=below))
        self._large.cut(below)

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
