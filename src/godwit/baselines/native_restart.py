"""`native-restart`: what a Spark user does today. Plain streaming queries over the files that sites receive.

Every site has a folder; a device's rows become a file in the folder of the site it is attached to. A query is one plain
Structured Streaming query (its SQL as it stands, Spark's watermark, Spark's state store, Spark's checkpoint) that reads
the folders of the sites where its devices are. When one of them turns up at a site the query does not read, the query
is stopped and started again from its checkpoint with the new paths; all hand-overs that have come meanwhile are taken
together, and several queries restart at a time. Folders with unread files stay among the paths, so nothing is skipped.

A plain query that read every site's folder in one place would never restart; it would also have nothing at any edge.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from sqlglot import exp

from godwit.errors import DeploymentError
from godwit.mobility.driver import Cue

#: what ends everything: all rows once more, so much later. They pass every filter that the real ones pass (Spark
#: applies filters before the watermark), move the watermark past all real windows, and their results are left out.
LATER = pd.Timedelta(days=1)


@dataclass(frozen=True)
class NativeStream:
    """A stream as plain Spark needs it."""

    name: str
    schema: str
    time: str
    device: str
    #: Spark's watermark delay
    watermark: str


@dataclass
class NativeQuery:
    """A plain streaming query, its folders, and what it has answered."""

    name: str
    sql: str
    #: the devices whose rows it reads
    devices: frozenset[str]
    folder: Path
    #: the sites it reads now
    sites: frozenset[str] = frozenset()
    running: StreamingQuery | None = None
    starts: int = 0
    #: batch number -> (wall seconds of its emission, its rows); a batch that is run again replaces itself
    batches: dict[int, tuple[float, pd.DataFrame]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._busy, self._halting = threading.Lock(), False

    def take(self, rows: DataFrame, batch: int) -> None:
        with self._busy:
            if self._halting:
                msg = "halted"
                raise InterruptedError(msg)  # the batch has not happened; it comes again after the restart
            found = rows.toPandas()
            self.batches[batch] = (time.time(), found)

    def halt(self) -> None:
        """Stop between two batches: one that is cut off would only have to be done again."""
        if self.running is not None:
            self._halting = True
            with self._busy:
                pass
            self.running.stop()
            self._halting = False

    def seen(self) -> list[set[str]]:
        """For each of its sources, the files it has taken in, by name; from Spark's own checkpoint."""
        return [_files(log) for log in sorted((self.folder / "sources").glob("*")) if log.is_dir()]


def _files(log: Path) -> set[str]:
    found: set[str] = set()
    for part in log.iterdir():
        if part.name.startswith("."):
            continue
        try:
            lines = part.read_text().splitlines()[1:]
        except FileNotFoundError:  # compacted away meanwhile
            continue
        found.update(Path(json.loads(line)["path"]).name for line in lines if line.strip())
    return found


@dataclass
class Followed:
    """Hand-overs that came together: when (wall seconds), and when all queries read where the devices are."""

    arrived: float
    devices: frozenset[str]
    in_force: float | None = None


class NativeRestart:
    """Plays the part of a fleet for a `Driver`: the same moves and rows, handled by restarts."""

    def __init__(self, spark: SparkSession, folder: Path, stream: NativeStream, *, at_a_time: int = 2) -> None:
        self._spark, self._folder, self._stream = spark, folder, stream
        _keep_quiet(spark)
        self.queries: list[NativeQuery] = []
        self.attached: dict[str, str] = {}
        self._files: dict[str, list[str]] = {}
        self._written = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._at_a_time = at_a_time
        self._worker: threading.Thread | None = None
        #: hand-overs not yet in force: (number, device, site), and how many are
        self._open: dict[str, tuple[int, str]] = {}
        self.handled = 0
        self.batches: list[Followed] = []
        #: the rounds of restarts: seconds that each took
        self.rounds: list[float] = []
        self._sent: list[pa.Table] = []
        #: results of this time and later stem from rows that were sent once more
        self._cut: pd.Timestamp | None = None
        self.failure: BaseException | None = None

    def add(self, name: str, sql: str, devices: Sequence[str]) -> None:
        self.queries.append(NativeQuery(name, plain(sql), frozenset(devices), self._folder / "checkpoints" / name))

    # --- what the driver tells

    def move(self, moves: Sequence[Cue]) -> None:
        with self._lock:
            there = frozenset(cue.device for cue in moves if cue.site is not None)
            if there:
                self.batches.append(Followed(time.time(), there))
            for cue in moves:
                if cue.site is None:
                    self.attached.pop(cue.device, None)
                else:
                    self.attached[cue.device] = cue.site
                    count, _ = self._open.get(cue.device, (0, ""))
                    self._open[cue.device] = (count + 1, cue.site)

    def push(self, stream: str, rows: pa.Table, where: Mapping[str, str]) -> None:
        by_site: dict[str, list[str]] = {}
        for device in set(rows.column(self._stream.device).to_pylist()):
            by_site.setdefault(where[device], []).append(device)
        self._sent.append(rows)
        keys = rows.column(self._stream.device)
        for site, devices in by_site.items():
            self._write(site, rows.filter(pa.compute.is_in(keys, pa.array(devices))))

    def tell(self, stream: str, clocks: Mapping[str, int]) -> None:
        """Spark's watermark follows the rows alone."""

    def leave(self, device: str) -> None:
        """Nobody waits for a device here."""

    def _write(self, site: str, rows: pa.Table) -> None:
        """A file is there wholly or not at all; Spark skips names that begin with a dot."""
        folder = self._folder / "sites" / site
        folder.mkdir(parents=True, exist_ok=True)
        self._written += 1
        name = f"{self._written:08d}.parquet"
        draft = folder / f".{name}"
        pq.write_table(rows, draft)
        draft.rename(folder / name)
        with self._lock:
            self._files.setdefault(site, []).append(name)

    # --- starting, restarting, ending

    def start(self, attached: Mapping[str, str]) -> None:
        """All queries, each reading where its devices are."""
        self.attached = dict(attached)
        for site in set(attached.values()):
            (self._folder / "sites" / site).mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(self._at_a_time) as pool:
            list(pool.map(self._restart, self.queries))
        self._worker = threading.Thread(target=self._follow, name="native-restart", daemon=True)
        self._worker.start()

    @property
    def restarts(self) -> int:
        return sum(max(query.starts - 1, 0) for query in self.queries)

    def _follow(self) -> None:
        """Restart whoever does not read where its devices are, until told to end."""
        with ThreadPoolExecutor(self._at_a_time) as pool:
            while not self._stopping.is_set():
                try:
                    began = time.time()
                    stale = [query for query in self.queries if not self._wanted(query) <= query.sites]
                    list(pool.map(self._restart, stale))
                    self._settle()
                    self.rounds += [time.time() - began] if stale else []
                except BaseException as error:
                    self.failure = error
                    return
                if not stale:
                    self._stopping.wait(0.02)

    def _wanted(self, query: NativeQuery) -> frozenset[str]:
        with self._lock:
            return frozenset(site for device, site in self.attached.items() if device in query.devices)

    def _settle(self) -> None:
        """A hand-over is handled once every query that reads the device reads its new site."""
        with self._lock:
            for device, (count, site) in list(self._open.items()):
                readers = [query for query in self.queries if device in query.devices]
                if all(site in query.sites for query in readers):
                    self.handled += count
                    del self._open[device]
            for batch in self.batches:
                if batch.in_force is None and not batch.devices & self._open.keys():
                    batch.in_force = time.time()

    def _restart(self, query: NativeQuery) -> None:
        query.halt()
        sites = self._wanted(query) | self._unread(query)
        for site in sites:
            (self._folder / "sites" / site).mkdir(parents=True, exist_ok=True)
        self._run(query, sites)

    def _unread(self, query: NativeQuery) -> frozenset[str]:
        """Sites among those it reads that have files it has not taken in yet."""
        seen = query.seen()
        with self._lock:
            held = {site: list(self._files.get(site, ())) for site in self._files if site in query.sites}
        return frozenset(site for site, names in held.items() if any(set(names) - one for one in seen))

    def _run(self, query: NativeQuery, sites: frozenset[str]) -> None:
        stream = self._stream
        paths = f"{self._folder}/sites/{{{','.join(sorted(sites))}}}"
        session = self._spark.newSession()
        rows = session.readStream.schema(stream.schema).parquet(paths).withWatermark(stream.time, stream.watermark)
        rows.createOrReplaceTempView(stream.name)
        query.running = (
            session.sql(query.sql)
            .writeStream.queryName(f"native-{query.name}")
            .outputMode("append")
            .foreachBatch(query.take)
            .option("checkpointLocation", str(query.folder))
            .trigger(processingTime="200 milliseconds")
            .start()
        )
        query.sites = sites
        query.starts += 1

    def end(self, timeout: float = 90.0) -> bool:
        """No more hand-overs: read what is left, close every window, stop. False: some were not done in time."""
        self._stopping.set()
        if self._worker is not None:
            self._worker.join()
        if self.failure is not None:
            msg = f"a plain Spark query failed at its restart: {self.failure}"
            raise DeploymentError(msg) from self.failure
        everywhere = frozenset(self._files)
        until = time.monotonic() + timeout
        with ThreadPoolExecutor(self._at_a_time) as pool:
            list(pool.map(lambda query: self._last(query, everywhere, until), self.queries))
            self._write(next(iter(sorted(everywhere))), self._once_more())
            done = list(pool.map(lambda query: self._drain(query, until), self.queries))
            list(pool.map(NativeQuery.halt, self.queries))
        return all(done)

    def _last(self, query: NativeQuery, sites: frozenset[str], until: float) -> None:
        query.halt()
        self._run(query, sites)
        self._drain(query, until)

    def _drain(self, query: NativeQuery, until: float) -> bool:
        """Work until all is read and all windows are closed; the watermark moves one batch behind the rows."""
        running = query.running
        assert running is not None
        # Spark has no time limit for it; whoever still waits is released when the query is halted.
        reading = threading.Thread(target=_read_all, args=(running,), daemon=True)
        reading.start()
        reading.join(max(until - time.monotonic(), 0.0))
        while time.monotonic() < until and _behind(running):
            time.sleep(0.05)
        return not reading.is_alive() and time.monotonic() < until

    def _once_more(self) -> pa.Table:
        rows = self.sent()
        at = rows.column_names.index(self._stream.time)
        times = rows.column(at)
        self._cut = pd.Timestamp(pa.compute.min(times).as_py()).tz_localize(None) + LATER
        shift = pa.scalar(LATER.to_pytimedelta(), pa.duration("us"))
        later = pa.compute.add(times.cast(pa.timestamp("us", tz="UTC")), shift)
        return rows.set_column(at, rows.schema.field(at), later.cast(times.type))

    def results(self, query: NativeQuery, time: str = "at") -> pd.DataFrame | None:
        """What a query has answered about the real rows, told by the results' time column; None: nothing."""
        parts = [rows for _, rows in query.batches.values() if len(rows)]
        if not parts:
            return None
        found = pd.concat(parts, ignore_index=True)
        return found if self._cut is None else found[found[time] < self._cut].reset_index(drop=True)

    def sent(self) -> pa.Table:
        """Every row that was pushed."""
        return pa.concat_tables(self._sent)

    def oracle(self, sql: str) -> pd.DataFrame:
        """The same SQL as a batch over everything that was pushed."""
        session = self._spark.newSession()
        session.createDataFrame(self.sent()).createOrReplaceTempView(self._stream.name)
        return session.sql(sql).toPandas()


def _read_all(running: StreamingQuery) -> None:
    with contextlib.suppress(Exception):  # it was halted meanwhile, or has failed: its results will tell
        running.processAllAvailable()


def _behind(running: StreamingQuery) -> bool:
    """Whether a batch with the last watermark is still to come."""
    progress = running.lastProgress
    if progress is None or not progress.stateOperators:
        return False
    return progress.numInputRows > 0


def _keep_quiet(spark: SparkSession) -> None:
    """A query that is halted in the middle of a batch is no failure, but Spark logs it as one, with its stack."""
    logs = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    name = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"
    logs.core.config.Configurator.setLevel(name, logs.Level.OFF)


def plain(sql: str) -> str:
    """The SQL as plain streaming takes it: a distinct count is the size of a set, which is what Spark offers."""
    tree = sqlglot.parse_one(sql, read="spark")

    def rewrite(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Count) and isinstance(node.this, exp.Distinct):
            return exp.ArraySize(this=exp.ArrayUniqueAgg(this=node.this.expressions[0]))
        return node

    return tree.transform(rewrite).sql(dialect="spark")
