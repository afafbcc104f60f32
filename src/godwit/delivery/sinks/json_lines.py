"""Results as lines of JSON in one file. Exactly-once: lines after the last kept position are cut off on opening."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, ClassVar

from godwit.delivery.sinks.base import ResultBatch, ResultSink
from godwit.delivery.sinks.outputs import must_be_there


class JsonLinesSink(ResultSink):
    """One object a row; times as ISO 8601 in UTC. Readers of the file may see lines that a crash takes back."""

    exactly_once: ClassVar[bool] = True

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._length, self._synced = 0, True
        self.name = f"json:{self._path}"

    def open(self, state: dict[str, Any]) -> None:
        must_be_there(self.name, state)
        self._length = int(state.get("bytes", 0))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.touch()
        os.truncate(self._path, self._length)

    def write(self, batch: ResultBatch) -> None:
        with self._path.open("r+b") as file:
            file.truncate(self._length)
            file.seek(self._length)
            for table in batch.tables():
                for row in table.to_pylist():
                    file.write(json.dumps(row, default=_plain).encode() + b"\n")
            self._length = file.tell()
        self._synced = False

    def state(self) -> dict[str, Any]:
        if not self._synced:  # once for all that was written since the last position
            with self._path.open("rb") as file:
                os.fsync(file.fileno())
            self._synced = True
        return {"bytes": self._length}


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
