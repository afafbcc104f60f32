"""The fleet: what users hold. Declares streams, attaches devices, submits queries, and keeps the regions running.

What users ask for is a command in the command log; what is decided is an epoch in the control log; what devices send is
an entry in a source log. All that is in memory can be made again from the three, so a fleet may be killed at any moment
and opened again. Commands are carried out by the control loop (`control_loop.py`), in the order of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Never

from pyspark.sql import SparkSession

from godwit.api.changing import ChangingFleet
from godwit.api.core import FleetOptions
from godwit.api.handles import QueryHandle
from godwit.api.options import check_options
from godwit.api.topology_store import TopologyStore
from godwit.client import RemoteFleet
from godwit.control.commands import (
    Alter,
    Submit,
    Withdraw,
)
from godwit.control.reoptimiser import Watching
from godwit.engine.session import check_session, spark_session
from godwit.errors import ConfigError, StateError
from godwit.ids import QueryId
from godwit.maintenance.housekeeping import Retention
from godwit.maintenance.savepoint import export, restore
from godwit.migration.source_mobility import Following
from godwit.model.explain import explain, parted
from godwit.region.link_emulator import Links
from godwit.region.runner import Limits
from godwit.replan.optimiser import ReplanPolicy
from godwit.sql import Builder, compile_query
from godwit.sql.hinted import hinted
from godwit.storage.base import Durability
from godwit.storage.lock import FolderLock


class Fleet(ChangingFleet):
    """Continuous queries over a moving topology. `Fleet.embedded(folder)` runs all regions in this process."""

    def __init__(
        self,
        root: Path | str,
        spark: SparkSession,
        *,
        rule: str = "bottom-up",
        redeployment: str = "incremental",
        state: str = "delta",
        links: Links | None = None,
        admission: bool | str | None = None,
        reoptimise: bool | Watching = False,
        mobility: bool | Following = False,
        replan: bool | ReplanPolicy = False,
        limits: Limits | None = None,
        retention: Retention | None = None,
        durability: Durability = "process",
        ack_timeout: float = 10.0,
        at: Callable[[str], None] = lambda moment: None,
        **misspelt: Never,
    ) -> None:
        check_options(Fleet.__init__, misspelt)
        check_session(spark)
        parts = (links, limits or Limits(), retention or Retention(), durability, ack_timeout, at)
        options = FleetOptions(rule, redeployment, state, *parts)
        super().__init__(root, spark, options, admission, reoptimise, mobility, replan)
        self.topology = TopologyStore(self)

    @staticmethod
    def embedded(folder: str | Path, cores: int | None = None, **options: str) -> Fleet:
        """All regions share one local Spark session; logs and state lie in `folder`. Reopens what is there."""
        lock = FolderLock(folder)
        lock.take()  # before Spark starts, which takes seconds
        try:
            return Fleet(Path(folder), spark_session(cores=cores), **options)  # type: ignore[arg-type]
        finally:
            lock.release()

    @staticmethod
    def connect(url: str, *, token: str | None = None) -> RemoteFleet:
        """A fleet behind `godwit serve`, with the same methods; what they return as DataFrames are lists of dicts."""
        return RemoteFleet(url, token)

    # --- queries

    def function(self, name: str, call: Callable[..., Any], type_: str, *, arrow: bool = False) -> None:
        """A function for queries to call, which returns Spark's `type_`. It must be deterministic.

        `arrow`: it takes and returns Arrow arrays, a batch at a time. A program that opens the folder again declares
        its functions again.
        """
        self.functions.add(name, call, type_, arrow)

    def submit(
        self,
        sql: str | Builder,
        name: str,
        *,
        sink: str | None = None,
        emit: Literal["final", "changes"] = "final",
        joins: Literal["materialised", "stateless"] = "materialised",
        order: Literal["device", "none"] = "device",
    ) -> QueryHandle:
        """Check a query, place it and start it. SqlError says what cannot run continuously, and what would.

        `emit`: "changes" puts out what windows are so far, as rows that replace each other; "final" when they close.
        `joins`: "stateless" joins keep no intermediate rows: their order is changed in one epoch (`replan`), and every
        new row makes its combinations again.
        `order`, of queries that answer each row as it comes: "device", results of a device come in the order in which
        it sent the rows, and wait for a region that it has left; "none", nothing waits.
        """
        self.control.execute(Submit(name, hinted(sql, emit, order), sink, joins))
        return QueryHandle(self, self.supervisor, QueryId(name))

    def withdraw(self, query: QueryId) -> None:
        """Stop a query; its results stay readable. An execution that others share goes on for them."""
        self.control.execute(Withdraw(query))

    def alter(self, query: QueryId, sql: str | Builder) -> QueryHandle:
        """Give a running query other parameters, in one epoch: by the same SQL with other literals, or, for literals
        that have a name (`boarded > 5 /* threshold */`), by `SET threshold = 7`.

        It begins again with them: windows that are open answer for what comes from then on. Its results from before
        stay readable under its name.
        """
        self.control.execute(Alter(query, hinted(sql)))
        return QueryHandle(self, self.supervisor, query)

    def explain(self, sql: str | Builder) -> str:
        """What a query would become: its plan, parameters and shape. Nothing happens."""
        text = hinted(sql)
        query = compile_query(text, self.deployment.streams, QueryId("query"), (), self.functions.names)
        self.analyst.output(query)
        return explain(query, parted(query, self.deployment, self.topology.now))

    def query(self, name: str) -> QueryHandle:
        """A running query, by its name."""
        return QueryHandle(self, self.supervisor, self.known(name))

    # --- savepoints

    def export(self, target: str | Path) -> int:
        """Write a savepoint: into a new folder, or a file named like `x.tar.gz`; returns its bytes. The fleet may be
        open, but not running. `Fleet.restore` makes a fleet of it that goes on from there."""
        if self.store.objects is not None or not self.root.is_dir():
            msg = "savepoints are made of fleets in folders; copy a bucket with its own tools"
            raise ConfigError(msg)
        if self.pool.running:
            msg = f"the fleet in {self.root} runs; stop it first, so that nothing is half written"
            raise StateError(msg)
        self.supervisor.flush()
        return export(self.root, Path(target), mine=True)

    @staticmethod
    def restore(savepoint: str | Path, folder: str | Path, cores: int | None = None, **options: Any) -> Fleet:
        """Open a savepoint in a folder of its own (which is new); options as for `Fleet`."""
        restore(Path(savepoint), Path(folder))
        return Fleet(Path(folder), spark_session(cores=cores), **options)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
