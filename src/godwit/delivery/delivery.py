"""Deliveries: a sink follows the committed results of one query, region by region, with its position on disk.

The position is one atomic file; housekeeping keeps what it has not passed. It is written after the sink has taken a
commit's results, so a crash in between repeats that commit: the sink says whether that shows.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from godwit.delivery.archive import entries
from godwit.delivery.sinks.base import Batch, Sink
from godwit.ids import QueryId, RegionId
from godwit.maintenance.duties import Attempts
from godwit.storage.by_query import may_hold

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Subject:
    """The query whose results are delivered."""

    #: as the user calls it
    name: QueryId
    #: as its rows are marked: itself, or its identical twin
    query: QueryId
    shape: str
    columns: tuple[str, ...]


class Delivery:
    """One sink of one query."""

    def __init__(self, root: Path, subject: Subject, sink: Sink) -> None:
        self._root, self.subject, self.sink = root, subject, sink
        digest = hashlib.sha256(sink.name.encode()).hexdigest()[:12]
        self._path = root / "sinks" / subject.name / f"{digest}.json"
        saved = self._saved()
        self.positions: dict[str, int] = saved["positions"]
        self._attempts = Attempts()
        sink.open(saved["state"])
        self._save(saved["state"])

    @property
    def failure(self) -> Exception | None:
        """Why the sink does not take results now; it is tried again, from the last position that was kept."""
        return self._attempts.failure

    def pump(self) -> int:
        """Deliver what is committed and not delivered; returns the number of commits."""
        if not self._attempts.due(time.monotonic()):
            return 0
        done = 0
        try:
            if self.failure is not None:
                self.sink.open(self._saved()["state"])  # what it wrote after that never happened
            for region in self._regions():
                done += self._pump(region)
        except Exception as error:  # whatever a sink raises must not end the thread that serves the others
            self._attempts.failed(error, time.monotonic())
            log.exception("sink %s of query %s has failed; it is tried again", self.sink.name, self.subject.name)
        else:
            self._attempts.succeeded()
        return done

    def detach(self) -> None:
        """Deliver no more, and let go of what was not delivered."""
        self._path.unlink(missing_ok=True)

    def _pump(self, region: RegionId) -> int:
        done = 0
        for entry in entries(self._root, region, self.subject.shape, self.positions.get(region, 0)):
            subject = self.subject
            mine = [segment for segment in entry.results if may_hold(segment, subject.query)]
            if mine:
                self.sink.write(Batch(region, entry.number, subject.query, subject.columns, mine))
            self.positions[region] = entry.number
            done += 1
            if mine:
                self._save(self.sink.state())
        if done:
            self._save(self.sink.state())
        return done

    def _regions(self) -> list[RegionId]:
        folders = (self._root / "regions").glob(f"*/shapes/{self.subject.shape}/commits")
        return sorted(RegionId(folder.parts[-4]) for folder in folders)

    def _saved(self) -> dict[str, Any]:
        if not self._path.exists():
            return {"positions": {}, "state": {}}
        record: dict[str, Any] = json.loads(self._path.read_text())
        return record

    def _save(self, state: dict[str, Any]) -> None:
        record = {
            "query": self.subject.name,
            "shape": self.subject.shape,
            "sink": self.sink.name,
            "exactly_once": self.sink.exactly_once,
            "positions": self.positions,
            "state": state,
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(".tmp")
        draft.write_text(json.dumps(record))
        draft.rename(self._path)
