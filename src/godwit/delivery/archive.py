"""What outlives a commit record: results and late rows, merged into few files, and totals.

A (region, shape) has two logs of results: `kept`, one record for many commits whose records are gone, and the commit
log itself, which goes on where `kept` ends. `entries` reads both as one sequence, numbered by commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from godwit.ids import RegionId
from godwit.observe.rollup import Totals, late_of, results_of
from godwit.protocol.delivery_order import read_in_order
from godwit.storage import names
from godwit.storage.by_query import ROWS, by_query
from godwit.storage.log import Log, Record, Segment
from godwit.storage.place import Place
from godwit.storage.store import Store

#: a segment of more rows is taken over as it is; smaller ones are rewritten, up to this number of rows per file
LARGE_ROWS = 200_000


@dataclass(frozen=True)
class ArchiveEntry:
    """Results and late rows of the commits up to and including `number`."""

    number: int
    results: tuple[Segment, ...]
    late: tuple[Segment, ...]
    #: commits of other regions that come before (`protocol/delivery_order.py`); merged ones say nothing of it
    after: Mapping[RegionId, int] = field(default_factory=dict)


def entries(store: Store, region: RegionId, shape: str, after: int) -> Iterator[ArchiveEntry]:
    """Everything committed past `after` that is still kept, oldest first."""
    kept, through = store.log(names.kept_log(region, shape)), after
    for _, record in kept.after(kept.first - 1):
        if record["through"] > through:
            through = record["through"]
            yield ArchiveEntry(through, _segments(record["results"], store), _segments(record["late"], store))
    for number, record in store.log(names.commit_log(region, shape)).after(through):
        if number > through + 1 and _last_kept(store, kept) > through:
            # Commits went from the one log to the other in the meantime.
            yield from entries(store, region, shape, through)
            return
        through = number
        found = tuple(results_of(record, store)), tuple(late_of(record, store))
        yield ArchiveEntry(number, *found, record.get("after", {}))


@dataclass(frozen=True)
class Gathered:
    """All entries of a (region, shape) that are still kept, as somebody has read them."""

    #: the last record of the log of merged commits then
    merged: int = 0
    entries: tuple[ArchiveEntry, ...] = ()


def gathered(store: Store, region: RegionId, shape: str, known: Gathered = Gathered()) -> Gathered:  # noqa: B008 - frozen
    """`known` and what came since; everything from the beginning if commits have been merged since, or are merged while
    it reads: a merged entry has rows of commits that were read one by one."""
    name = names.kept_log(region, shape)
    while True:
        merged = store.log(name).last
        before = known.entries if known.merged == merged else ()
        since = tuple(entries(store, region, shape, before[-1].number if before else 0))
        store.refresh(name)
        if store.log(name).last == merged:
            return Gathered(merged, before + since)


def entries_in_order(
    store: Store, region: RegionId, shape: str, positions: Mapping[RegionId, int]
) -> Iterator[tuple[RegionId, ArchiveEntry]]:
    """The same past `positions`, and before each what other regions committed that it comes behind."""
    return read_in_order(
        region,
        positions,
        lambda one, after: entries(store, one, shape, after),
        lambda one: one not in names.regions_of(store.disk, shape),
    )


class Fold:
    """What must stay of commits: gathered one by one, then written down, before their records go."""

    def __init__(self, store: Store, region: RegionId, shape: str) -> None:
        self._store, self._log = store, store.log(names.kept_log(region, shape))
        #: the last commit that is counted in
        self.through, self._totals = totals(store, region, shape)
        self._results: list[Segment] = []
        self._late: list[Segment] = []
        self._wall: float | None = None

    def add(self, number: int, record: Record) -> None:
        self._totals.add(record, self._store)
        self._results += results_of(record, self._store)
        self._late += late_of(record, self._store)
        self.through, self._wall = number, record["metrics"]["wall"]

    def write(self, sources: Callable[[str], bool], queries: Callable[[str], bool]) -> bool:
        """Write it down, with totals of the sources and queries that are known; False: there was nothing."""
        if self._wall is None:
            return False
        self._totals.forget(sources, queries)
        folder = Place(self._store, f"{self._log.name}/data/{names.number(self._log.last + 1)}")
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


def totals(store: Store, region: RegionId, shape: str) -> tuple[int, Totals]:
    """(the last commit that is counted in, the totals up to it)"""
    log = store.log(names.kept_log(region, shape))
    record = log.read(log.last) if log.last else None
    return (0, Totals()) if record is None else (record["through"], Totals.from_json(record["totals"]))


def merged(segments: Sequence[Segment], folder: Place, name: str) -> list[Segment]:
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
            made.append(_rewritten(waiting.pop(segment.schema), folder / f"{name}-{len(made)}"))
    for group in waiting.values():
        made.append(_rewritten(group, folder / f"{name}-{len(made)}"))
    return made


def _rewritten(group: list[Segment], file: Place) -> Segment:
    table = pa.concat_tables([t for s in group for t in s.tables(keep=False)], promote_options="permissive")
    name = f"{file.reference}.parquet"
    table, rows = by_query(table)
    size, checksum = file.store.put_table(name, table, list(rows.values()))
    made = Segment((name,), table.num_rows, size, group[0].schema, sums=(checksum,), store=file.store)
    return replace(made, tags={ROWS: rows})


def _linked(segment: Segment, folder: Place, name: str) -> Segment:
    """Large files are not copied: they get a second name that stays when the first one goes."""
    files = tuple(f"{folder.reference}/{name}-{number}.parquet" for number in range(len(segment.files)))
    for file, target in zip(segment.files, files, strict=True):
        folder.store.link(file, target)
    return replace(segment, files=files, store=folder.store)


def _last_kept(store: Store, log: Log) -> int:
    newest = store.log(log.name)
    record = newest.read(newest.last) if newest.last else None
    return 0 if record is None else int(record["through"])


def _segments(records: Sequence[Record], store: Store) -> tuple[Segment, ...]:
    return tuple(Segment.from_json(r, store) for r in records)
