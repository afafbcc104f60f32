"""Stories of reconfigurations, one JSON line each, in the fleet's folder. `godwit history` reads them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from godwit.control.reconfigurations import Story

#: so many stories are kept at least; at one a second, three hours
KEEP = 10_000


class History:
    """Appends stories; reads them back as plain values."""

    def __init__(self, root: Path) -> None:
        self._path = root / "history.jsonl"
        #: the newest one of this process
        self.last: Story | None = None
        self._lines = len(self._path.read_text().splitlines()) if self._path.exists() else 0

    def add(self, story: Story) -> None:
        self.last = story
        with self._path.open("a") as file:
            file.write(json.dumps({"at": time.time(), **story.to_json()}) + "\n")
        self._lines += 1
        if self._lines > 3 * KEEP:
            self._forget()

    def _forget(self) -> None:
        """The oldest go. A reader sees the file before or after, never half of it."""
        kept = self.read()[-KEEP:]
        fresh = self._path.with_suffix(".new")
        fresh.write_text("".join(json.dumps(record) + "\n" for record in kept))
        os.replace(fresh, self._path)
        self._lines = len(kept)

    def read(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        return newest(json.loads(line) for line in self._path.read_text().splitlines())


def newest(told: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of a story that was told twice, what was told last, at the place and time of the first."""
    found: dict[int, dict[str, Any]] = {}
    for record in told:
        key = record["number"]
        found[key] = {**record, "at": found[key]["at"]} if key in found else record
    return list(found.values())
