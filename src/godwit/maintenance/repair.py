"""What can be mended without Spark: the folder is made such that the fleet, when it is opened again, computes the rest.

    redeliver   the sink's position is forgotten, and what is left of its output goes: all results are delivered again
    replay      all commits of a shape go, in all regions: its queries are computed again from their sources' logs,
                which must still be whole, from the beginning
    drop        a file that can be done without

Nothing is deleted: what goes is moved to `damaged/` in the fleet's folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from godwit.errors import StateError
from godwit.maintenance.integrity import Finding
from godwit.model.deployment import Deployment
from godwit.storage import names
from godwit.storage.epoch_log import Control
from godwit.storage.store import Store


def repair(store: Store, found: Sequence[Finding]) -> list[str]:
    """Mend what can be mended; one line for each thing that was done, or cannot be."""
    work = _Repair(store)
    for shape in sorted({shape for f in found if f.remedy == "replay" for shape in f.shapes}):
        work.replay(shape)
    for finding in found:
        if finding.remedy == "redeliver":
            work.redeliver(finding.where)
        elif finding.remedy == "drop":
            work.drop(finding.where)
        elif finding.remedy == "none" and finding.severity == "error":
            work.told.append(f"cannot mend {finding.where}: {finding.what}; restore it from a copy")
    return work.told


class _Repair:
    def __init__(self, store: Store) -> None:
        self._store, self.told = store, list[str]()
        self._away = f"damaged/{datetime.now(UTC):%Y%m%dT%H%M%S}"
        self._known: Deployment | None = None

    # --- replay

    def replay(self, shape: str) -> None:
        reason = self._not_again(shape)
        if reason is not None:
            self.told.append(f"cannot compute shape {shape} again: {reason}; restore the folder from a copy")
            return
        for saved in list(self._positions(shape)):
            self.redeliver(saved)
        for region in names.regions_of(self._store.disk, shape):
            self._put_away(names.commit_log(region, shape).rpartition("/")[0])
            # (that it ran there is remembered by the empty log: it may have to read sources that have moved on since)
            self._store.disk.make_folder(names.commit_log(region, shape))
        self.told.append(f"shape {shape} will be computed again from its sources when the fleet is opened")

    def _not_again(self, shape: str) -> str | None:
        """Why a shape cannot be computed again from the beginning; None: it can."""
        try:
            mine = [query for query in self._deployment().queries.values() if query.shape.key == shape]
        except StateError as fault:
            return str(fault)
        if not mine:
            return "none of its queries runs any more"
        feeds = [q.id for q in mine if q.target is not None]
        if feeds:
            return f"its query '{feeds[0]}' feeds a stream that others have read"
        if not self._store.has_record(names.CONTROL, 1):
            return "the first epochs are no longer kept"
        for region, stream in names.sources(self._store.disk):
            if stream in {scan.stream for _, scan in mine[0].shape.plan.scans}:
                gap = self._gap(names.source_log(region, stream))
                if gap is not None:
                    return gap
        return None

    def _gap(self, log: str) -> str | None:
        """What a source's log lacks, of all that ever came."""
        try:
            if self._store.floor(log) > 1:
                return f"{log} no longer keeps its first rows"
            for _, record in self._store.log(log).after(0):
                segment = record["segment"]
                for file, known in () if segment is None else zip(segment["files"], segment["sums"], strict=True):
                    if self._store.checksum(file) != known:
                        return f"{file} is damaged"
        except (StateError, FileNotFoundError) as fault:
            return str(fault)
        return None

    def _deployment(self) -> Deployment:
        if self._known is None:
            control = Control(self._store)
            self._known = control.deployment_at(control.last)
        return self._known

    # --- sinks

    def _positions(self, shape: str) -> Iterable[str]:
        for name in names.sink_positions(self._store.disk):
            saved = self._saved(f"{name}.json")
            if saved is not None and saved["shape"] == shape:
                yield f"{name}.json"

    def _saved(self, file: str) -> dict[str, Any] | None:
        try:
            return self._store.get_document(file.removesuffix(".json"))
        except StateError:
            return None

    def redeliver(self, file: str) -> None:
        """Forget how far a sink has come, and remove what is left of its output, so that nothing is there twice."""
        if not self._store.exists(file):
            return  # done with another finding
        saved = self._saved(file)
        if saved is not None and not self._all_kept(saved["shape"]):
            self.told.append(f"cannot deliver again for {file}: the first results are no longer kept")
            return
        if saved is None:
            self.told.append(f"{file}: if its sink is a folder of Parquet files, remove them before it is opened again")
        else:
            _clear(saved["sink"])
        self._put_away(file)
        self.told.append(f"{file}: all results will be delivered again when the sink is opened")

    def _all_kept(self, shape: str) -> bool:
        """Whether no result of a shape was let go."""
        regions = names.regions_of(self._store.disk, shape)
        try:
            return all(self._store.floor(names.kept_log(region, shape)) == 1 for region in regions)
        except StateError:
            return True  # then the shape is computed again, as a whole

    # --- files

    def drop(self, file: str) -> None:
        if file == names.HISTORY:
            lines = self._store.read_lines(file)
            self._store.replace_lines(file, [line for line in lines if _is_json(line)])
            self.told.append(f"{file}: unreadable lines were removed")
        elif self._store.exists(file):
            self._put_away(file)
            self.told.append(f"{file}: moved to {self._away}; it can be done without")

    def _put_away(self, name: str) -> None:
        self._store.forget(name)
        target = Path(self._store.path(f"{self._away}/{name}"))
        target.parent.mkdir(parents=True, exist_ok=True)
        Path(self._store.path(name)).rename(target)


def _clear(sink: str) -> None:
    """The files that a Parquet sink has written; one of JSON lines cuts its file itself when it begins again."""
    kind, _, path = sink.partition(":")
    if kind == "parquet" and Path(path).is_dir():
        for file in Path(path).iterdir():
            if re.fullmatch(r".+-\d{10}\.parquet", file.name):
                file.unlink()


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
