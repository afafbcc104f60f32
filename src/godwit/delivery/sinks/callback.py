"""Results to a Python function. At least once: after a crash, the rows of the last seconds may come again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from godwit.delivery.sinks.base import ResultBatch, ResultSink


class CallbackSink(ResultSink):
    """Calls `function` with a list of rows (dicts), some thousands at a time; an error it raises stops the sink."""

    exactly_once: ClassVar[bool] = False

    def __init__(self, function: Callable[[list[dict[str, Any]]], object], name: str = "callback") -> None:
        self._function = function
        self.name = name

    def write(self, batch: ResultBatch) -> None:
        for rows in batch.rows(5000):
            self._function(rows)
