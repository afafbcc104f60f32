"""What a region's process tells the coordinator: acknowledged epochs, state that has come, queries that failed, devices
that have left and were read to the end, and how far changes of plan are.

A log per region (`reports/REGION`), written by its process alone. What is old is of no use to anybody, and goes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from typing import Any

from godwit.ids import Epoch, RegionId
from godwit.region.legacy import PlanReport
from godwit.storage import names
from godwit.storage.log import Record
from godwit.storage.store import Store

#: limit of reports that are kept; how many are removed together
KEEP, SLICE = 1000, 500


class Reports:
    """The writer's side."""

    def __init__(self, store: Store, region: RegionId, news: Callable[[], None]) -> None:
        self._log, self._news = store.log(names.report_log(region), create=True), news
        self._lock = threading.Lock()

    def acknowledge(self, epoch: Epoch) -> None:
        self._append({"acked": int(epoch)})

    def committed(self, record: Record) -> None:
        """What the coordinator needs to know of a commit; most commits have nothing for it."""
        if not (record["failed"] or record["arrived"] or record["handovers"]):
            return
        sent = [{"move": parcel["move"], "parts": {"0": [{"bytes": _bytes(parcel)}]}} for parcel in record["handovers"]]
        told = {"failed": record["failed"], "arrived": record["arrived"], "handovers": sent}
        self._append({"commit": {**told, "metrics": {"wall": record["metrics"]["wall"]}}})

    def changing(self, report: PlanReport) -> None:
        """How far a runner is with a change of plan, after a commit."""
        self._append(report.to_json())

    def read_to_the_end(self, devices: Collection[str], epoch: int) -> None:
        """These devices have left, and all that they sent to this region was read."""
        if devices:
            self._append({"read": sorted(devices), "epoch": epoch})

    def _append(self, report: Record) -> None:
        with self._lock:
            number = self._log.append(report)
            if number - self._log.first >= KEEP + SLICE:
                for _ in self._log.drop(number - KEEP):
                    pass
        self._news()


def _bytes(parcel: Any) -> int:
    return sum(segment["bytes"] for part in parcel["parts"].values() for segment in part)


class ReportReader:
    """The reader's side: what a region has reported, in order, once."""

    def __init__(self, store: Store, region: RegionId) -> None:
        """OSError: the log cannot be reached."""
        self._log, self._read = store.log(names.report_log(region)), 0

    def unread(self) -> Iterator[Record]:
        for number, report in self._log.after(self._read):
            self._read = number
            yield report
