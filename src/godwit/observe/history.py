"""Stories of reconfigurations, one JSON line each, in the fleet's folder. `godwit history` reads them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from godwit.control.reconfigurations import ReconfigurationRecord
from godwit.storage.names import HISTORY
from godwit.storage.store import Store

#: lower bound of records that are kept: half an hour at one per second
KEEP = 2_000


class History:
    """Appends stories; reads them back as plain values."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: the newest one of this process
        self.last: ReconfigurationRecord | None = None
        self._lines = len(store.read_lines(HISTORY))
        self._told: list[Callable[[dict[str, Any]], None]] = []

    def follow(self, told: Callable[[dict[str, Any]], None]) -> None:
        """Be told of every record from now on."""
        self._told.append(told)

    def add(self, story: ReconfigurationRecord) -> None:
        self.last = story
        record = {"at": time.time(), **story.to_json()}
        self._store.append_lines(HISTORY, [json.dumps(record)])
        for tell in self._told:
            tell(record)
        self._lines += 1
        if self._lines > 2 * KEEP:
            self._forget()

    def _forget(self) -> None:
        """The oldest go. A reader sees the file before or after, never half of it."""
        kept = self.read()[-KEEP:]
        self._store.replace_lines(HISTORY, [json.dumps(record) for record in kept])
        self._lines = len(kept)

    def read(self) -> list[dict[str, Any]]:
        return newest(readable(self._store.read_lines(HISTORY)))


def readable(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The stories in these lines; one that a crash has cut off is passed over (`godwit check` names it)."""
    for line in lines:
        try:
            story = json.loads(line)
        except ValueError:
            continue
        if isinstance(story, dict) and "number" in story:
            yield story


def newest(told: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of a record that was written twice, the last version, at the place and time of the first."""
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for record in told:
        # What was declined, or failed, is no version of the reconfiguration before it.
        key = (record["number"], record["cause"] if record["outcome"] in ("declined", "failed") else "")
        found[key] = {**record, "at": found[key]["at"]} if key in found else record
    return list(found.values())
