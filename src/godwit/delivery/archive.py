"""What outlives a commit record: results and late rows, merged into few files, and totals.

A (region, shape) has two logs of results: `kept`, one record for many commits whose records are gone, and the commit
log itself, which goes on where `kept` ends. `entries` reads both as one sequence, numbered by commits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from godwit.ids import RegionId
from godwit.observe.rollup import Totals, late_of, results_of
from godwit.region.poll import commit_log
from godwit.storage.by_query import ROWS, write_by_query
from godwit.storage.cache import RECENT
from godwit.storage.log import Log, Record, Segment

#: a segment of more rows is taken over as it is; smaller ones are rewritten, up to so many rows a file
LARGE_ROWS = 200_000


@dataclass(frozen=True)
class Entry:
    """Results and late rows of the commits up to and including `number`."""

    number: int
    results: tuple[Segment, ...]
    late: tuple[Segment, ...]


def kept_log(root: Path, region: RegionId, shape: str) -> Path:
    return commit_log(root, region, shape).parent / "kept"


def entries(root: Path, region: RegionId, shape: str, after: int) -> Iterator[Entry]:
    """Everything committed past `after` that is still kept, oldest first."""
    kept, through = Log(kept_log(root, region, shape)), after
    for _, record in kept.after(kept.first - 1):
        if record["through"] > through:
            through = record["through"]
            yield Entry(through, _segments(record["results"]), _segments(record["late"]))
    for number, record in Log(commit_log(root, region, shape)).after(through):
        if number > through + 1 and _last_kept(kept) > through:
            # Commits went from the one log to the other in the meantime.
            yield from entries(root, region, shape, through)
            return
        through = number
        yield Entry(number, tuple(results_of(record)), tuple(late_of(record)))


class Fold:
    """What must stay of commits: gathered one by one, then written down, before their records go."""

    def __init__(self, root: Path, region: RegionId, shape: str) -> None:
        self._log = Log(kept_log(root, region, shape))
        #: the last commit that is counted in
        self.through, self._totals = totals(root, region, shape)
        self._results: list[Segment] = []
        self._late: list[Segment] = []
        self._wall: float | None = None

    def add(self, number: int, record: Record) -> None:
        self._totals.add(record)
        self._results += results_of(record)
        self._late += late_of(record)
        self.through, self._wall = number, record["metrics"]["wall"]

    def write(self) -> bool:
        """Write it down; False: there was nothing."""
        if self._wall is None:
            return False
        folder = self._log.folder / "data" / f"{self._log.last + 1:010d}"
        self._log.append(
            {
                "through": self.through,
                "wall": self._wall,
                "results": [s.to_json() for s in merged(self._results, folder, "results")],
                "late": [s.to_json() for s in merged(self._late, folder, "late")],
                "totals": self._totals.to_json(),
            }
        )
        return True


def totals(root: Path, region: RegionId, shape: str) -> tuple[int, Totals]:
    """(the last commit that is counted in, the totals up to it)"""
    log = Log(kept_log(root, region, shape))
    record = log.read(log.last) if log.last else None
    return (0, Totals()) if record is None else (record["through"], Totals.from_json(record["totals"]))


def merged(segments: Sequence[Segment], folder: Path, name: str) -> list[Segment]:
    """The same rows in few files under `folder`, in the same order within each schema."""
    made: list[Segment] = []
    waiting: dict[str, list[Segment]] = {}
    for segment in segments:
        if segment.rows > LARGE_ROWS:
            made.append(_linked(segment, folder, f"{name}-{len(made)}"))
            continue
        group = waiting.setdefault(segment.schema, [])
        group.append(segment)
        if sum(s.rows for s in group) > LARGE_ROWS:
            made.append(_rewritten(waiting.pop(segment.schema), folder / f"{name}-{len(made)}.parquet"))
    for group in waiting.values():
        made.append(_rewritten(group, folder / f"{name}-{len(made)}.parquet"))
    return made


def _rewritten(group: list[Segment], file: Path) -> Segment:
    file.parent.mkdir(parents=True, exist_ok=True)
    tables = [RECENT.at_hand(f) for s in group for f in s.files]
    table = pa.concat_tables(tables, promote_options="permissive")
    tags = {ROWS: write_by_query(table, file)}
    return Segment((str(file),), table.num_rows, file.stat().st_size, group[0].schema, tags=tags)


def _linked(segment: Segment, folder: Path, name: str) -> Segment:
    """Large files are not copied: they get a second name that stays when the first one goes."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number, file in enumerate(segment.files):
        target = folder / f"{name}-{number}.parquet"
        target.unlink(missing_ok=True)  # of an attempt that did not come to its end
        os.link(file, target)
        files.append(str(target))
    return replace(segment, files=tuple(files))


def _last_kept(log: Log) -> int:
    newest = Log(log.folder)
    record = newest.read(newest.last) if newest.last else None
    return 0 if record is None else int(record["through"])


def _segments(records: Sequence[Record]) -> tuple[Segment, ...]:
    return tuple(Segment.from_json(r) for r in records)
