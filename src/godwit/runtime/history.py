"""Stories of reconfigurations, one JSON line each, in the fleet's folder. `godwit history` reads them."""

from __future__ import annotations

import json
import time
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
        return [json.loads(line) for line in self._path.read_text().splitlines()]
