"""Stories of reconfigurations, one JSON line each, in the fleet's folder. `godwit history` reads them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from godwit.deployment.stories import Story


class History:
    """Appends stories; reads them back as plain values."""

    def __init__(self, root: Path) -> None:
        self._path = root / "history.jsonl"
        #: the newest one of this process
        self.last: Story | None = None

    def add(self, story: Story) -> None:
        self.last = story
        with self._path.open("a") as file:
            file.write(json.dumps({"at": time.time(), **story.to_json()}) + "\n")

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
