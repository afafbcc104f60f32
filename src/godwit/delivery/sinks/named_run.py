"""A sink that names each of its runs, and keeps the name with its position: rows of another run are not its own.

A query that is withdrawn and submitted again counts its commits from 1; a position that its first run has left in
a database must not make the second run skip them.
"""

from __future__ import annotations

import secrets
from typing import Any

from godwit.delivery.sinks.base import ResultSink


class NamedRunSink(ResultSink):
    """`_run` is the same until the query is withdrawn, also after a restart."""

    _run = ""

    def open(self, state: dict[str, Any]) -> None:
        self.close()
        self._run = str(state.get("run") or secrets.token_hex(6))

    def state(self) -> dict[str, Any]:
        return {"run": self._run}
