"""The deployment tables as a shape's Spark plan needs them: queries with their parameters, routes, values a query.

Small tables are joined by broadcast. Where a table has one row, or one value for all, it becomes a literal, so that a
single query runs as fast as if it had been written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from godwit.engine.held import held
from godwit.engine.lazy_frame import Frame, LazyFrame, made
from godwit.engine.size_policy import USUAL, SizePolicy
from godwit.ids import DeviceId, QueryId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.keys import KEY_SEPARATOR
from godwit.model.plan import DEVICE, GENERATION, PARAMETER, QUERY, Query, Scan, Shape
from godwit.model.routing import RouteTable
from godwit.region.key_sql import BESIDE, KEY, LISTED, TO, key_text, regions_by_key
from godwit.region.readers import Readers
from godwit.region.sql_text import quoted, text
from godwit.storage.overlays import by_query

#: where the rows of a listed key go
LISTED_TO = "__listed"
_PARAMETER = re.compile(rf"\b{PARAMETER}\d+\b")


@dataclass(frozen=True)
class RowRoutes:
    """Where an operator's rows go: region -> the (query, device) pairs whose next instance is there (None: any); of
    queries whose keys are divided, where each key does."""

    by_region: Mapping[RegionId, frozenset[tuple[QueryId, DeviceId | None]]]
    divided: Mapping[QueryId, RouteTable] = field(default_factory=dict)
    #: SQL of the key's columns, over the rows that leave
    keys: tuple[str, ...] = ()

    def only(self) -> RegionId | None:
        """The one region that everything goes to, if there is one."""
        return next(iter(self.by_region)) if len(self.by_region) == 1 and not self.divided else None

    @property
    def regions(self) -> set[RegionId]:
        return {*self.by_region, *(region for table in self.divided.values() for region in table.receivers())}

    @cached_property
    def with_device(self) -> bool:
        """Whether the region depends on the row's device, not on its query alone."""
        return any(device is not None for pairs in self.by_region.values() for _, device in pairs)

    @cached_property
    def pairs(self) -> pa.Array:
        """What routes are looked up by: the query or, with devices, both."""
        pairs = (pair for those in self.by_region.values() for pair in those)
        return pa.array([f"{q}\0{d}" if self.with_device else q for q, d in pairs], pa.string())

    @cached_property
    def region_of_pair(self) -> pa.Array:
        """The region of each of them."""
        return pa.array([region for region, those in self.by_region.items() for _ in those], pa.string())


class Tables:
    """The tables of one shape under one deployment, for one region."""

    def __init__(
        self,
        spark: SparkSession,
        region: RegionId,
        shape: Shape,
        deployment: Deployment,
        previous: Tables | None = None,
        sizes: SizePolicy = USUAL,
    ) -> None:
        self.sizes = sizes
        self.spark, self.region, self.shape, self.deployment = spark, region, shape, deployment
        key = shape.key
        self.queries: dict[QueryId, Query] = {q.id: q for q in deployment.of_shape(key)}
        self._parameters: dict[int | None, DataFrame] = {}
        self._subscriptions: dict[int, DataFrame] = {}
        self._choices: dict[int, str | None] = {}
        #: the same tables as rows at hand
        self._handed: dict[int, tuple[DataFrame, LazyFrame]] = {}
        same = previous is not None and previous.queries == self.queries
        self.readers: Readers = previous.readers if same and previous else Readers(shape.plan, self.queries)
        if previous is not None and same:
            # Most epochs move something; few bring or take a query. Making tables costs more than keeping them.
            self._parameters, self._subscriptions = previous._parameters, previous._subscriptions
            self._choices, self._handed = previous._choices, previous._handed
        self._routes: dict[int, RowRoutes] = {}
        #: (the table, too: its id must stay its own)
        self._listed_rows: dict[int, tuple[RouteTable, DataFrame]] = previous._listed_rows if previous else {}

    # --- queries and parameters

    def with_queries(self, frame: Frame, columns: Sequence[str], scan_index: int, scan: Scan) -> Frame:
        """The columns of a stream's rows, each row once for every query that wants it, with the query's name and
        parameters."""
        if scan.subscribe is not None:
            chosen = self._chosen(scan_index, f"`{scan.subscribe}`")
            if chosen is not None:
                # Written as SQL: a CASE made of Column objects costs a round trip to Java for each of its parts.
                rows = frame.selectExpr(*columns, chosen).where(f"{QUERY} IS NOT NULL")
                return self.with_parameters(rows, *self._names)
            return self._subscribed(frame.selectExpr(*columns), scan_index, f"{scan.alias}__{scan.subscribe}")
        reading = self.readers.scanning[scan_index]
        if len(reading) == 1:
            (query,) = reading.values()
            if query.inherits is not None and isinstance(frame, LazyFrame):
                # A version's name as a text would make other plans than those of the version before.
                named = frame.with_column(QUERY, StringType(), lambda rows: pa.repeat(query.id, rows.num_rows))
                return named.selectExpr(*columns, QUERY, *self._literals(query))
            return frame.selectExpr(*columns, f"{text(query.id)} AS {QUERY}", *self._literals(query))
        table = self.parameters(None if len(reading) == len(self.queries) else scan_index)
        if isinstance(frame, LazyFrame) and frame.rows * len(reading) <= self.sizes.paired_rows:
            return frame.times(self._at_hand(table)).selectExpr(*columns, QUERY, *self._names)
        return made(frame).selectExpr(*columns).crossJoin(F.broadcast(table))

    def with_parameters(self, frame: Frame, *texts: str) -> Frame:
        """Add the parameter columns that the texts mention and the frame does not have.

        Rows without them come from another region, or from state: they may be of queries that have been withdrawn
        since, and go no further.
        """
        missing = {name for text in texts for name in _PARAMETER.findall(text)} - set(frame.columns)
        if not missing:
            return frame
        if len(self.queries) <= self.sizes.case_queries:
            known = ", ".join(text(q) for q in self.queries)
            mine = self.of_queries(frame) if self.only else frame.where(f"{QUERY} IN ({known})" if known else "false")
            return mine.selectExpr("*", *(self._case(i) for i in range(len(self.shape.parameters))))
        return self._looked_up(frame, self.parameters(), QUERY)

    def without_parameters(self, frame: Frame) -> Frame:
        return frame.drop(*self._names) if self.shape.parameters else frame

    @property
    def _names(self) -> list[str]:
        return [p.name for p in self.shape.parameters]

    def _case(self, parameter: int) -> str:
        """A parameter's value for each query, as one expression."""
        known = self.shape.parameters[parameter]
        by_value: dict[str, list[str]] = {}
        for query in self.queries.values():
            by_value.setdefault(query.parameters[parameter], []).append(text(query.id))
        if len(by_value) <= 1:
            return f"CAST({next(iter(by_value), 'NULL')} AS {known.type}) AS {known.name}"
        cases = " ".join(f"WHEN {QUERY} IN ({', '.join(ids)}) THEN {value}" for value, ids in by_value.items())
        return f"CAST(CASE {cases} END AS {known.type}) AS {known.name}"

    def _chosen(self, scan_index: int, column: str) -> str | None:
        """The query that wants a row, as one expression; None where several may, or where there are many."""
        if scan_index not in self._choices:
            reading = self.readers.scanning[scan_index].values()
            wanted = {q.id: set(q.subscriptions.get(scan_index, ())) for q in reading}
            values = [value for those in wanted.values() for value in those]
            # Texts tell strings apart, not numbers (1 and 1.0).
            apart = len(values) == len(set(values)) and all(value.startswith("'") for value in values)
            cases = (f"WHEN {column} IN ({', '.join(sorted(v))}) THEN {text(q)}" for q, v in wanted.items() if v)
            few = apart and 0 < len(wanted) <= self.sizes.case_queries and values
            self._choices[scan_index] = f"CASE {' '.join(cases)} END AS {QUERY}" if few else None
        return self._choices[scan_index]

    @property
    def only(self) -> QueryId | None:
        """The one query there is, if it is one."""
        return next(iter(self.queries)) if len(self.queries) == 1 else None

    def of_queries(self, frame: Frame) -> Frame:
        """Where one query runs, its rows alone (state may hold others' that have stopped), so that none is told apart
        by name any more."""
        if self.only is None:
            return frame
        name = text(self.only)
        if isinstance(frame, LazyFrame):
            # Rows at hand are looked at here: by its name, each version of a query would have plans of its own.
            return frame.where(f"{QUERY} = {name}") if frame.leaf is None else frame.with_all(QUERY, self.only)
        mine = frame.where(f"{QUERY} = {name}")
        # As a constant it is not carried along where many rows are shuffled and sorted.
        return mine.selectExpr(*(f"{name} AS {QUERY}" if c == QUERY else f"`{c}`" for c in frame.columns))

    def parameters(self, scan_index: int | None = None) -> DataFrame:
        """One row a query, of all or of those that a scan takes rows in for: its name and its parameters."""
        if scan_index not in self._parameters:
            queries = self.queries if scan_index is None else self.readers.scanning[scan_index]
            rows = [f"('{quoted(q.id)}'{''.join(', ' + v for v in q.parameters)})" for q in queries.values()]
            names = [QUERY, *(p.name for p in self.shape.parameters)]
            sql = f"SELECT * FROM VALUES {', '.join(rows)} AS t({', '.join(names)})"
            self._parameters[scan_index] = self._typed(sql)
        return self._parameters[scan_index]

    def _subscription(self, scan_index: int) -> DataFrame:
        """One row a (query, wanted value), with the query's parameters."""
        if scan_index not in self._subscriptions:
            rows = [
                f"('{quoted(q.id)}'{''.join(', ' + v for v in q.parameters)}, {value})"
                for q in self.readers.scanning[scan_index].values()
                for value in q.subscriptions.get(scan_index, ())
            ]
            names = [QUERY, *(p.name for p in self.shape.parameters), "__wanted"]
            self._subscriptions[scan_index] = self._typed(
                f"SELECT * FROM VALUES {', '.join(rows)} AS t({', '.join(names)})"
            )
        return self._subscriptions[scan_index]

    def _literals(self, query: Query) -> list[str]:
        return [
            f"CAST({value} AS {p.type}) AS {p.name}"
            for p, value in zip(self.shape.parameters, query.parameters, strict=True)
        ]

    def _subscribed(self, frame: Frame, scan_index: int, column: str) -> Frame:
        table, wanted = self._subscription(scan_index), f"`{column}` = __wanted"
        return self._looked_up(frame, table, wanted).drop("__wanted")

    def _looked_up(self, frame: Frame, table: DataFrame, on: str) -> Frame:
        """Join a small table. To few rows it comes as rows, too: what is in it makes no other plan."""
        key = QUERY if on == QUERY else F.expr(on)
        if not isinstance(frame, LazyFrame):
            return made(frame).join(F.broadcast(table), key)
        rows = self._at_hand(table)
        return frame.then(("looked up", on), lambda one, other: one.join(other.hint("shuffle_hash"), key), rows)

    def _at_hand(self, table: DataFrame) -> LazyFrame:
        """A small table as rows; made once."""
        if id(table) not in self._handed:
            rows = LazyFrame.of(self.spark, table.toArrow().combine_chunks(), table.schema)
            self._handed[id(table)] = (table, rows)  # (the table, too: its id must stay its own)
        return self._handed[id(table)][1]

    def _typed(self, sql: str) -> DataFrame:
        types = {p.name: p.type for p in self.shape.parameters}
        frame = self.spark.sql(sql)
        return frame.select(*(F.col(c).cast(types[c]).alias(c) if c in types else F.col(c) for c in frame.columns))

    def for_readers(self, frame: Frame, index: int) -> Frame:
        """An operator's rows, once for everybody who taps it: without parameters, which are those of its executor."""
        if index not in self.readers.at:
            return frame
        return self.readers.tell_apart(self.without_parameters(frame), index, self.spark, self.sizes)

    # --- routes

    def routes(self, index: int) -> RowRoutes:
        """Where the rows that leave operator `index` go, over all queries."""
        if index not in self._routes:
            self._routes[index] = self._find_routes(index)
        return self._routes[index]

    def _find_routes(self, index: int) -> RowRoutes:
        plan = self.shape.plan
        consumer, side = plan.consumer(index)
        found: dict[RegionId, set[tuple[QueryId, DeviceId | None]]] = {}
        divided: dict[QueryId, RouteTable] = {}
        for query in (q for q in self.queries.values() if index in q.executed and index != q.cut):
            if query.scattered:
                found.setdefault(self.region, set()).add((query.id, None))
                continue
            for device in self._devices(query, index) if plan.is_local(consumer) else (None,):
                table = self.deployment.route(query, consumer, device, self.region)
                if table.only is None:
                    divided[query.id] = table
                else:
                    found.setdefault(table.only, set()).add((query.id, device))
        keys = plan.operators[consumer].state[side].keys if divided else ()
        return RowRoutes({region: frozenset(pairs) for region, pairs in found.items()}, divided, keys)

    def _devices(self, query: Query, index: int) -> set[DeviceId]:
        scans = self.shape.plan.scans_below(index)
        return {device for scan in scans for device in self.deployment.devices_of(query, scan)}

    def marked(self, frame: Frame, routes: RowRoutes) -> Frame:
        """Add the region that each row goes to (the regions, `BESIDE` each other). What nobody declared stays here: it
        must not get lost."""
        if routes.divided:
            return self._marked_by_key(frame, routes)
        if len(self.queries) <= self.sizes.case_queries or not routes.by_region:
            return frame.selectExpr("*", self._way(routes))
        with_device = routes.with_device
        names, values = [QUERY, "__there"], []
        if with_device:
            names.insert(1, DEVICE)
        for region, pairs in routes.by_region.items():
            for query, device in sorted(pairs, key=str):
                values.append((query, device, region) if with_device else (query, region))
        columns = list(zip(*values, strict=True))
        table = pa.table({name: pa.array(column, pa.string()) for name, column in zip(names, columns, strict=True)})
        on = [QUERY, DEVICE] if with_device else [QUERY]
        joined = made(frame).join(F.broadcast(self.spark.createDataFrame(table)), on, "left")
        return joined.selectExpr("*", f"coalesce(__there, {text(self.region)}) AS {TO}").drop("__there")

    def _marked_by_key(self, frame: Frame, routes: RowRoutes) -> Frame:
        """Few listed keys are part of the expression; many are a table, so that a row costs the same."""
        undivided = self.marked(frame, RowRoutes(routes.by_region))
        names = [name for name in undivided.columns if name != TO]
        cases = []
        for number, (query, table) in enumerate(sorted(routes.divided.items())):
            way = regions_by_key(table, routes.keys)
            if len(table.listed) > LISTED:
                column = f"__listed{number}"
                there = F.broadcast(self._listed(table).withColumnRenamed(LISTED_TO, column))
                undivided = made(self.with_key(undivided, routes)).join(there, KEY, "left").drop(KEY)
                way = f"coalesce({column}, {way})"
            cases.append(f"WHEN {QUERY} = {text(query)} THEN {way}")
        columns = [f"`{name}`" for name in names]
        return undivided.selectExpr(*columns, f"CASE {' '.join(cases)} ELSE {TO} END AS {TO}")

    def _listed(self, table: RouteTable) -> DataFrame:
        """The listed keys of a route table and where their rows go; made once, also over several epochs."""
        if self._listed_rows.get(id(table), (None,))[0] is not table:
            receivers = {way: BESIDE.join(way.receivers) for way in table.ways}
            rows = {
                KEY: pa.array((KEY_SEPARATOR.join(key) for key in table.listed), pa.string()),
                LISTED_TO: pa.array((receivers[way] for way in table.listed.values()), pa.string()),
            }
            self._listed_rows = {id(table): (table, self.spark.createDataFrame(pa.table(rows)))}
        return self._listed_rows[id(table)][1]

    def with_key(self, frame: Frame, routes: RowRoutes) -> Frame:
        """Where keys are divided: rows with their key in text form."""
        return frame.selectExpr("*", f"{key_text(routes.keys)} AS {KEY}") if routes.divided else frame

    def regions_of(self, rows: pa.Table, routes: RowRoutes) -> pa.Array:
        """The same as `marked` for few rows, without Spark and whatever the routes are: where each goes."""
        to = self._undivided_regions(rows, routes)
        for query, table in routes.divided.items():
            mine = pc.equal(rows[QUERY], query)
            keys = pc.unique(rows[KEY].filter(mine))
            ways = [BESIDE.join(table.route_of(tuple(k.split(KEY_SEPARATOR))).receivers) for k in keys.to_pylist()]
            to = pc.if_else(mine, pc.take(pa.array(ways, pa.string()), pc.index_in(rows[KEY], value_set=keys)), to)
        return to

    def _undivided_regions(self, rows: pa.Table, routes: RowRoutes) -> pa.Array:
        if (only := routes.only()) is not None:
            return pa.repeat(pa.scalar(only), rows.num_rows)
        if not routes.by_region:
            return pa.repeat(pa.scalar(self.region), rows.num_rows)
        names = [QUERY, DEVICE] if routes.with_device else [QUERY]
        mine = pc.binary_join_element_wise(*(rows[name] for name in names), "\0")
        place = pc.index_in(mine, value_set=routes.pairs)
        return pc.fill_null(pc.take(routes.region_of_pair, place), self.region)

    def _way(self, routes: RowRoutes) -> str:
        """The region a row goes to, as one expression."""
        ways: dict[tuple[RegionId, QueryId], list[str]] = {}
        for region, pairs in routes.by_region.items():
            for query, device in pairs:
                ways.setdefault((region, query), []).extend([] if device is None else [text(device)])
        cases = [
            f"WHEN {QUERY} = {text(query)}"
            + (f" AND {DEVICE} IN ({', '.join(sorted(devices))})" if devices else "")
            + f" THEN {text(region)}"
            for (region, query), devices in ways.items()
        ]
        return (f"CASE {' '.join(cases)} ELSE {text(self.region)} END" if cases else text(self.region)) + f" AS {TO}"

    # --- one number a query

    def of_all(self, values: Mapping[QueryId, int]) -> int | None:
        """The value that all queries have; None: they differ."""
        same = len(set(values.values())) == 1 and set(values) >= set(self.queries)
        return next(iter(values.values())) if same else None

    def per_query(self, frame: Frame, values: Mapping[QueryId, int], name: str, otherwise: int) -> Frame:
        """Add a column with each row's query's value: a generation, which seldom changes, or a bound, which does with
        every micro-batch."""
        if isinstance(frame, LazyFrame):
            return frame.with_column(name, LongType(), lambda rows: _by_query(rows, values, otherwise))
        by_value: dict[int, list[str]] = {}
        for query, value in values.items():
            by_value.setdefault(value, []).append(text(query))
        if not by_value:
            return frame.selectExpr("*", f"{otherwise}L AS {name}")
        if (same := self.of_all(values)) is not None:
            if name == GENERATION:
                return frame.selectExpr("*", f"{same}L AS {name}")
            return made(frame).withColumn(name, held(self.spark, same))
        if len(by_value) <= self.sizes.case_queries and len(values) <= 10 * self.sizes.case_queries:
            cases = " ".join(f"WHEN {QUERY} IN ({', '.join(q)}) THEN {value}L" for value, q in by_value.items())
            return frame.selectExpr("*", f"CASE {cases} ELSE {otherwise}L END AS {name}")
        table = pa.table({QUERY: list(values), name: pa.array(values.values(), pa.int64())})
        joined = made(frame).join(F.broadcast(self.spark.createDataFrame(table)), QUERY, "left")
        return joined.withColumn(name, F.coalesce(F.col(name), F.lit(otherwise).cast("bigint")))


def _by_query(rows: pa.Table, values: Mapping[QueryId, int], otherwise: int) -> pa.Array:
    if not values:
        return pa.repeat(pa.scalar(otherwise, pa.int64()), rows.num_rows)
    return pc.fill_null(by_query(rows, values), otherwise)
