"""Logs in NATS JetStream: a log is a stream, a record a message, and the server decides who has a number.

    record 12 of a log        message 12 of its stream: JetStream counts from 1, as logs do
    append if free            `Nats-Expected-Last-Sequence: 11`: refused if somebody else was faster
    drop                      purge up to a number; the newest stays

Few rows travel in the record, as everywhere; more of them, and state, lie in files that the record names: so a message
is small (64 kB and what a commit says besides). Documents and segments stay on the disk that all processes see.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from godwit.errors import ConfigError, StateError
from godwit.storage import frames
from godwit.storage.inline import encode

T = TypeVar("T")

#: how long the server may take (seconds)
TIMEOUT = 10.0
#: JetStream's code for an expected sequence that is not the last one
WRONG_LAST_SEQUENCE = 10071
#: the newest records that are kept in memory, of each log
TAIL = 128


class NatsServer:
    """A connection, for callers of any thread."""

    def __init__(self, url: str, prefix: str, file: bool = True) -> None:
        """`prefix`: of the fleet's streams and subjects; not `file`: nothing survives the server (for tests)."""
        self.url, self.prefix, self.file = url, prefix, file
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="godwit-nats", daemon=True)
        self._thread.start()
        try:
            self._client = self.wait(_connected(url))
        except Exception as fault:
            self._stop()
            msg = f"NATS at {url} cannot be reached ({fault}); start it with JetStream (`nats-server -js`)"
            raise ConfigError(msg) from fault
        self.js = self._client.jetstream(timeout=TIMEOUT)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * TIMEOUT)

    def close(self) -> None:
        self.wait(self._client.close())
        self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def log(self, name: str) -> NatsLog:
        return NatsLog(self, name)


async def _connected(url: str) -> Any:
    import nats

    return await nats.connect(url, connect_timeout=5, max_reconnect_attempts=-1, reconnect_time_wait=0.2)


class NatsLog:
    """One log; the same as `chunk_log.ChunkLog` to a store. Any process may append: the first has the number."""

    def __init__(self, server: NatsServer, name: str) -> None:
        self._server, self._name = server, name
        # (names of streams know no slashes or dots; the description has the log's own)
        digest = hashlib.sha256(name.encode()).hexdigest()[:24]
        self._stream, self._subject = f"{server.prefix}-{digest}", f"{server.prefix}.{digest}"
        self._made = False
        self._lock = threading.Lock()
        self._tail: dict[int, Any] = {}

    # --- writing

    def append(self, number: int, record: Mapping[str, Any]) -> bool:
        """Write a record whole; False if its number is taken."""
        data = frames.pack_record(number, encode(record, {}))
        self._make()
        try:
            self._server.wait(
                self._server.js.publish(
                    self._subject, data, stream=self._stream, headers={"Nats-Expected-Last-Sequence": str(number - 1)}
                )
            )
        except Exception as fault:
            if getattr(fault, "err_code", None) != WRONG_LAST_SEQUENCE:
                raise self._unreachable(fault) from fault
            last = self.bounds()[1]
            if number <= last:
                return False
            msg = f"log '{self._name}' ends at {last}, so record {number} cannot follow: records are missing"
            raise StateError(msg) from fault
        return True

    def drop(self, below: int) -> range:
        """Nothing below a number is kept; the newest record stays. Returns the numbers that went."""
        first, last = self.bounds()
        below = min(below, last)
        if below <= first:
            return range(0)
        self._ask(lambda js: js.purge_stream(self._stream, seq=below))
        with self._lock:
            for number in [n for n in self._tail if n < below]:
                del self._tail[number]
        return range(first, below)

    # --- reading

    def read(self, number: int) -> Any | None:
        with self._lock:
            if number in self._tail:
                return self._tail[number]
        data = self._message(number)
        if data is None:
            return None
        where = f"{self._server.url}/{self._name}"
        frame = next(frames.frames(data, 0, where))
        body = frames.unpack_record(frames.verified(frame, data[frame.body :], where))
        record = body.record(body.fresh)
        with self._lock:
            self._tail[number] = record
            while len(self._tail) > TAIL:
                del self._tail[next(iter(self._tail))]
        return record

    def has(self, number: int) -> bool:
        first, last = self.bounds()
        return first <= number <= last

    def bounds(self) -> tuple[int, int]:
        """(the least number that is kept, the newest); (1, 0) of an empty log."""
        self._make()
        state = self._ask(lambda js: js.stream_info(self._stream)).state
        return max(state.first_seq, 1), state.last_seq

    @property
    def floor(self) -> int:
        return self.bounds()[0]

    def numbers(self) -> list[int]:
        first, last = self.bounds()
        return list(range(first, last + 1))

    def record_bytes(self, number: int) -> int:
        data = self._message(number)
        return 0 if data is None else len(data)

    # --- the server

    def _message(self, number: int) -> bytes | None:
        from nats.js.errors import NotFoundError

        self._make()
        try:
            found = self._server.wait(self._server.js.get_msg(self._stream, seq=number))
        except NotFoundError:
            return None
        except Exception as fault:
            raise self._unreachable(fault) from fault
        return bytes(found.data or b"")

    def _make(self) -> None:
        """The stream, if it is not there yet."""
        if self._made:
            return
        from nats.js.api import StorageType, StreamConfig

        kept = StorageType.FILE if self._server.file else StorageType.MEMORY
        config = StreamConfig(
            name=self._stream, subjects=[self._subject], storage=kept, description=self._name[:4000], deny_delete=True
        )
        self._ask(lambda js: js.add_stream(config))
        self._made = True

    def _ask(self, question: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        try:
            return self._server.wait(question(self._server.js))
        except Exception as fault:
            raise self._unreachable(fault) from fault

    def _unreachable(self, fault: Exception) -> StateError:
        msg = (
            f"log '{self._name}' in NATS at {self._server.url}: {type(fault).__name__} {fault}; it is tried again later"
        )
        return StateError(msg)
