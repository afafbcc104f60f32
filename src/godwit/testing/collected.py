"""A sink that keeps the rows it gets, so that a test can look at them and wait for more."""

from __future__ import annotations

import threading
import time
from typing import Any

from godwit.delivery.sinks.base import ResultBatch, ResultSink


class Collected(ResultSink):
    """`query.write_to(sink := Collected()); sink.wait_for(3)`."""

    exactly_once = False

    def __init__(self, name: str = "collected") -> None:
        self.name = name
        self._commits: dict[tuple[str, int], list[dict[str, Any]]] = {}
        self._news = threading.Condition()

    def write(self, batch: ResultBatch) -> None:
        rows = [row for table in batch.tables() for row in table.to_pylist()]
        with self._news:
            # The same number always holds the same rows: a repeat after a crash replaces them by themselves.
            self._commits[(batch.scope, batch.number)] = rows
            self._news.notify_all()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Everything so far, commit by commit."""
        with self._news:
            return [row for rows in self._commits.values() for row in rows]

    def wait_for(self, count: int, timeout: float = 60.0) -> list[dict[str, Any]]:
        """Wait until there are `count` rows; an AssertionError says how many came within `timeout` seconds."""
        until = time.monotonic() + timeout
        with self._news:
            while (have := sum(map(len, self._commits.values()))) < count:
                left = until - time.monotonic()
                assert left > 0, f"{have} of {count} rows came within {timeout:g} s"
                self._news.wait(left)
        return self.rows
