"""Logs in NATS JetStream: a log is a stream, a record a message, and the server decides who has a number.

    record 12 of a log        message 12 of its stream: JetStream counts from 1, as logs do
    append if free            `Nats-Expected-Last-Sequence: 11`: refused if another writer was faster
    drop                      purge up to a number; the newest stays
    news                      the writer publishes each record to the readers of the log, too (without JetStream): they
                              need no request to learn of it. What was not delivered is found by a request, once a
                              second beside the readers, and by the readers after every lost connection

A log lies in the domain of its writer (`nats_domains.py`). To a reader behind a leaf link the log ends with the last
record that has arrived: what was not delivered is fetched beside the readers, many records in one trip, and nobody
waits for a link that is cut. `refresh` is for those who must know how far it goes at its writer.

Few rows travel in the record, as everywhere; more of them, and state, lie in files that the record names. A record that
is still too large for a message lies there as well (`large_records.py`).
"""

from __future__ import annotations

import asyncio
import hashlib
import struct
import time
import weakref
from collections.abc import Callable, Collection
from typing import Any

from godwit.storage.base import Disk
from godwit.storage.large_records import LargeRecords
from godwit.storage.message_log import MessageLog
from godwit.storage.nats_documents import WRONG_LAST_SEQUENCE, subject_prefix
from godwit.storage.nats_domains import NatsDomains
from godwit.storage.nats_server import NatsServer, is_away

#: how often the bounds of logs that are read are requested (seconds), so that readers, who may be far away, need not
#: wait for the answer; how old that may be; limit of records kept until they are read
CHECK_EVERY, OLDEST, UNREAD = 1.0, 2.5, 128
#: the same behind a leaf link; records fetched in one round trip
UNREAD_FAR, AHEAD = 1024, 100
#: records past a number that are requested together with the question how many there are
EXPECTED = 32
_NUMBER = struct.Struct(">Q")
_NEVER = (0.0, -1)


class NatsLogs:
    """All logs of a fleet."""

    def __init__(self, server: NatsServer, disk: Disk, domains: NatsDomains) -> None:
        """`disk`: for records that are too large for a message."""
        self.server, self.domains, self._disk = server, domains, disk
        self.on_append: Callable[[str], None] = lambda log: None
        self._opened: weakref.WeakSet[NatsLog] = weakref.WeakSet()
        server.repeat(CHECK_EVERY, self._check_all)

    def log(self, name: str, *, shared: bool) -> NatsLog:
        opened = NatsLog(self, LargeRecords(self._disk, name), name, shared)
        self._opened.add(opened)
        return opened

    async def _check_all(self) -> None:
        await asyncio.gather(*(log.check() for log in list(self._opened)), return_exceptions=True)

    def refresh(self, logs: Collection[str] = ()) -> None:
        """From now on readers see whatever was appended before, in these logs or in all; OSError: a domain is away."""
        self.server.interruptions += 1
        far = [log for log in list(self._opened) if log.is_far and (not logs or log.name in logs)]
        faults = self.server.run(_gathered([log.check() for log in far])) if far else []
        for fault in (one for one in faults if isinstance(one, BaseException)):
            msg = f"logs behind a leaf link of {self.server.url} cannot be read: {fault}"
            raise OSError(msg) from fault

    def claim(self, region: str) -> None:
        self.domains.claim(region)

    def remove(self, folder: str) -> None:
        """The logs below a folder, with all records."""
        for domain in self.domains.all() if folder == "" else [self.domains.of(folder)]:
            self._remove(folder, domain)

    def _remove(self, folder: str, domain: str) -> None:
        offset, request = 0, self.server.request
        while found := request(lambda js, at=offset: js.streams_info(offset=at), domain):  # type: ignore[misc]
            offset += len(found)
            for one in found:
                name = one.config.description or ""
                if one.config.name.startswith(f"{self.server.prefix}-log-") and f"{name}/".startswith(f"{folder}/"):
                    request(lambda js, gone=one.config.name: js.delete_stream(gone), domain)  # type: ignore[misc]
                    offset -= 1

    def part(self) -> None:
        self.server.part()

    def close(self) -> None:
        self.server.close()


async def _gathered(work: list[Any]) -> list[Any]:
    return await asyncio.gather(*work, return_exceptions=True)


class NatsLog(MessageLog):
    """One log."""

    def __init__(self, logs: NatsLogs, large: LargeRecords, name: str, shared: bool) -> None:
        super().__init__(name, logs.server.url, shared)
        self.name = name
        self._logs, self._server, self._large = logs, logs.server, large
        # (names of streams know no slashes or dots; the description has the log's own)
        self._digest = hashlib.sha256(name.encode()).hexdigest()[:24]
        self._stream = f"{self._server.prefix}-log-{self._digest}"
        self._in(logs.domains.of(name))

    def _in(self, domain: str) -> None:
        """It lies in a domain, as far as is known."""
        self._domain, self.is_far = domain, self._server.is_far(domain)
        prefix = subject_prefix(self._server, domain)
        self._subject, self._news = f"{prefix}.log.{self._digest}", f"{prefix}.news.{self._digest}"
        self._made, self._followed = False, False
        self._fetching = asyncio.Lock()
        #: a reader has wanted to know how far it goes since that was last requested beside
        self._wanted = False
        #: (first, last) as requested or published; when they were requested, after how many interruptions; how often
        #: news came
        self._known, self._checked, self._received = (1, 0), _NEVER, 0
        self._catching_up: asyncio.Future[None] | None = None
        #: records that have arrived and were not read yet
        self._unread: dict[int, bytes] = {}

    def _place(self) -> str:
        domain = self._logs.domains.of(self._name)
        if domain != self._domain:  # (its region has joined since)
            with self._lock:
                self._tail.clear()
                self._mine = None
                self._in(domain)
        return domain

    # --- writing

    def _put(self, number: int, data: bytes) -> bool:
        from nats.js.errors import APIError

        domain = self._place()
        self._make()
        message = self._large.message(number, data)
        try:
            self._server.request(lambda js: self._publish(js, number, message), domain)
        except APIError as refused:
            if refused.err_code == WRONG_LAST_SEQUENCE:
                return False
            raise
        return True

    async def _publish(self, js: Any, number: int, data: bytes) -> None:
        headers = {"Nats-Expected-Last-Sequence": str(number - 1)}
        await js.publish(self._subject, data, stream=self._stream, headers=headers)
        await self._server.publish(self._news, _NUMBER.pack(number) + data)

    def _cut(self, first: int, below: int) -> None:
        self._server.request(lambda js: js.purge_stream(self._stream, seq=below), self._place())
        self._large.cut(below)

    def _make(self) -> None:
        """The stream, before the first record: a reader makes none, for the region may join later, elsewhere."""
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
        self._server.request(lambda js: js.add_stream(config), self._domain)
        self._made = True

    # --- reading

    def _get(self, number: int) -> bytes | None:
        domain = self._place()
        data = self._unread.pop(number, None)
        if data is None:
            if self._mine is None and number > self._known[1] and self._is_current():
                return None
            data = self._fetched(number, domain)
        return None if data is None else self._large.record(data)

    def _fetched(self, number: int, domain: str) -> bytes | None:
        """By a request; behind a leaf link with those that a reader will want next."""
        last = min(number + AHEAD - 1, self._known[1]) if self.is_far else number
        found = self._server.request(lambda js: self._fetch(js, range(number, max(last, number) + 1)), domain)
        data = found.pop(number, None)
        if data is None:
            self._checked = _NEVER  # cut off behind us, perhaps
        with self._lock:
            self._unread |= found
        return data

    async def _fetch(self, js: Any, numbers: Collection[int]) -> dict[int, bytes]:
        """Records that are there, all in one trip."""
        from nats.js.errors import NotFoundError

        async def get(number: int) -> bytes | None:
            try:
                return bytes((await js.get_msg(self._stream, seq=number)).data or b"")
            except NotFoundError:
                return None

        found = await asyncio.gather(*map(get, numbers))
        return {number: data for number, data in zip(numbers, found, strict=True) if data is not None}

    @property
    def floor(self) -> int:
        return (self._mine or self._follow())[0]

    def _there(self, number: int) -> bool:
        first, last = self._follow()
        return first <= number <= last

    def _follow(self) -> tuple[int, int]:
        """(first, last) of what this reader may read; from now on the writer's news are received."""
        self._place()
        if not self._followed:
            self._server.subscribe(self._news, self._receive)
            bounds = self._bounds()
            self._followed = True
            return bounds
        return self._known if self._is_current() else self._bounds()

    def _is_current(self) -> bool:
        self._wanted = True
        if not self._followed or self.is_far:
            return self._followed
        at, interruptions = self._checked
        return interruptions == self._server.interruptions and time.monotonic() - at < OLDEST

    def _bounds(self) -> tuple[int, int]:
        domain = self._place()
        at, received = (time.monotonic(), self._server.interruptions), self._received
        return self._learn(self._server.request(self._state, domain), at, received)

    def bounds_after(self, number: int) -> tuple[int, int]:
        domain = self._place()
        if self._mine is not None or not self.is_far:
            return self.bounds()
        at, received = (time.monotonic(), self._server.interruptions), self._received
        expected = range(number + 1, number + 1 + EXPECTED)

        async def both(js: Any) -> tuple[tuple[int, int], dict[int, bytes]]:
            state, found = await asyncio.gather(self._state(js), self._fetch(js, expected))
            return state, found

        state, found = self._server.request(both, domain)
        with self._lock:
            self._unread |= found
        return self._learn(state, at, received)

    async def _state(self, js: Any) -> tuple[int, int]:
        """(first, last) as the server has them now."""
        from nats.js.errors import NotFoundError

        try:
            state = (await js.stream_info(self._stream)).state
        except NotFoundError:
            return 1, 0
        return max(state.first_seq, 1), state.last_seq

    def _learn(self, state: tuple[int, int], checked: tuple[float, int], received: int) -> tuple[int, int]:
        """What the server has answered; `received`: how often news had come when it was requested."""
        with self._lock:
            last = state[1] if received == self._received else max(state[1], self._known[1])
            if last < self._known[1]:  # it was removed, and begins again
                self._unread.clear()
                self._tail.clear()
            self._known, self._checked = (state[0], last), checked
        return self._known

    # --- on the loop's thread: records arrive

    async def check(self) -> None:
        """How far it goes, if that is of interest: news may not have been published, or not delivered."""
        if not (self._followed and (self._wanted or self.is_far)):
            return
        self._wanted = False
        js = self._server.jetstream(self._domain)
        known, at, received = self._known, (time.monotonic(), self._server.interruptions), self._received
        first, last = await self._state(js)
        if self.is_far and last >= known[1]:
            with self._lock:
                self._known = first, max(self._known[1], first - 1)
            await self._catch_up(last)
        elif self._learn((first, last), at, received)[1] > known[1] and received == self._received:
            self._logs.on_append(self._name)

    async def _catch_up(self, last: int) -> None:
        """Fetch what was not delivered, and let readers see it."""
        async with self._fetching:
            if self._known[1] >= last:
                return
            js = self._server.jetstream(self._domain)
            if last - self._known[1] > UNREAD_FAR:  # more than is kept here: readers fetch it, many at a time
                self._known = self._known[0], last
            while (start := self._known[1] + 1) <= last:
                wanted = range(start, min(start + AHEAD, last + 1))
                found = await self._fetch(js, [number for number in wanted if number not in self._unread])
                with self._lock:
                    self._unread |= found
                    self._known = self._known[0], max(self._known[1], wanted[-1])
        self._logs.on_append(self._name)

    def _receive(self, news: bytes) -> None:
        """A record was appended."""
        (number,) = _NUMBER.unpack_from(news)
        with self._lock:
            self._received += 1
            self._unread[number] = news[_NUMBER.size :]
            while len(self._unread) > (UNREAD_FAR if self.is_far else UNREAD):
                del self._unread[next(iter(self._unread))]
            missed = self.is_far and self._followed and number > self._known[1] + 1
            if not missed:
                self._known = self._known[0], max(number, self._known[1])
        if missed:
            self._catching_up = asyncio.ensure_future(self._try_to_catch_up(number))
        else:
            self._logs.on_append(self._name)

    async def _try_to_catch_up(self, last: int) -> None:
        try:
            await self._catch_up(last)
        except Exception as fault:  # (the next check tries again)
            if not is_away(fault):
                raise
