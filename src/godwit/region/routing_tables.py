"""The deployment tables as a shape's Spark plan needs them: queries with their parameters, routes, values a query.

Small tables are joined by broadcast. Where a table has one row, or one value for all, it becomes a literal, so that a
single query runs as fast as if it had been written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from godwit.engine.lazy_frame import Frame
from godwit.ids import DeviceId, QueryId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.keys import BUCKETS, KEY_SEPARATOR, NULL_KEY, HashRange, Key, KeySet, Listed, Rest
from godwit.model.plan import DEVICE, PARAMETER, QUERY, Query, Scan, Shape
from godwit.model.routing import RouteTable

#: up to so many different values, a CASE is cheaper than a join: a broadcast costs 50 to 70 ms of a small micro-batch
FEW = 16

#: the column with the region that a row goes to
TO = "__to"

_PARAMETER = re.compile(rf"\b{PARAMETER}\d+\b")


#: between the regions that a row goes to, where it goes to several; no region's name has it
BESIDE = "|"
#: so many listed keys are written into the plan; more are rows of a table that it joins
LISTED = 500


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


class Tables:
    """The tables of one shape under one deployment, for one region."""

    def __init__(
        self,
        spark: SparkSession,
        region: RegionId,
        shape: Shape,
        deployment: Deployment,
        previous: Tables | None = None,
    ) -> None:
        self.spark, self.region, self.shape, self.deployment = spark, region, shape, deployment
        key = shape.key
        self.queries: dict[QueryId, Query] = {q.id: q for q in deployment.of_shape(key)}
        self._parameters: DataFrame | None = None
        self._subscriptions: dict[int, DataFrame] = {}
        self._choices: dict[int, str | None] = {}
        if previous is not None and previous.queries == self.queries:
            # Most epochs move something; few bring or take a query. Making tables costs more than keeping them.
            self._parameters, self._subscriptions = previous._parameters, previous._subscriptions
            self._choices = previous._choices
        self._routes: dict[int, RowRoutes] = {}

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
            table, wanted = F.broadcast(self._subscription(scan_index)), F.col(f"{scan.alias}__{scan.subscribe}")
            return frame.selectExpr(*columns).join(table, wanted == F.col("__wanted")).drop("__wanted")
        if len(self.queries) == 1:
            (query,) = self.queries.values()
            return frame.selectExpr(*columns, f"{text(query.id)} AS {QUERY}", *self._literals(query))
        return frame.selectExpr(*columns).crossJoin(F.broadcast(self.parameters()))

    def with_parameters(self, frame: Frame, *texts: str) -> Frame:
        """Add the parameter columns that the texts mention and the frame does not have.

        Rows without them come from another region, or from state: they may be of queries that have been withdrawn
        since, and go no further.
        """
        missing = {name for text in texts for name in _PARAMETER.findall(text)} - set(frame.columns)
        if not missing:
            return frame
        if len(self.queries) <= FEW:
            known = ", ".join(text(q) for q in self.queries)
            mine = frame.where(f"{QUERY} IN ({known})" if known else "false")
            return mine.selectExpr("*", *(self._case(i) for i in range(len(self.shape.parameters))))
        return frame.join(F.broadcast(self.parameters()), QUERY)

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
            wanted = {q.id: set(q.subscriptions.get(scan_index, ())) for q in self.queries.values()}
            values = [value for those in wanted.values() for value in those]
            # Texts tell strings apart, not numbers (1 and 1.0).
            apart = len(values) == len(set(values)) and all(value.startswith("'") for value in values)
            cases = (f"WHEN {column} IN ({', '.join(sorted(v))}) THEN {text(q)}" for q, v in wanted.items() if v)
            few = apart and 0 < len(wanted) <= FEW and values
            self._choices[scan_index] = f"CASE {' '.join(cases)} END AS {QUERY}" if few else None
        return self._choices[scan_index]

    @property
    def only(self) -> QueryId | None:
        """The one query there is, if it is one."""
        return next(iter(self.queries)) if len(self.queries) == 1 else None

    def of_queries(self, frame: Frame) -> Frame:
        """Where one query runs, its rows alone (state may hold others' that have stopped), so that none is told apart
        by name any more."""
        return frame if self.only is None else frame.where(f"{QUERY} = {text(self.only)}")

    def parameters(self) -> DataFrame:
        """One row a query: its name and its parameters."""
        if self._parameters is None:
            rows = [f"('{_quoted(q.id)}'{''.join(', ' + v for v in q.parameters)})" for q in self.queries.values()]
            names = [QUERY, *(p.name for p in self.shape.parameters)]
            self._parameters = self._typed(f"SELECT * FROM VALUES {', '.join(rows)} AS t({', '.join(names)})")
        return self._parameters

    def _subscription(self, scan_index: int) -> DataFrame:
        """One row a (query, wanted value), with the query's parameters."""
        if scan_index not in self._subscriptions:
            rows = [
                f"('{_quoted(q.id)}'{''.join(', ' + v for v in q.parameters)}, {value})"
                for q in self.queries.values()
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

    def _typed(self, sql: str) -> DataFrame:
        types = {p.name: p.type for p in self.shape.parameters}
        frame = self.spark.sql(sql)
        return frame.select(*(F.col(c).cast(types[c]).alias(c) if c in types else F.col(c) for c in frame.columns))

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
        for query in self.queries.values():
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
        if len(self.queries) <= FEW or not routes.by_region:
            return frame.selectExpr("*", self._way(routes))
        with_device = any(device is not None for pairs in routes.by_region.values() for _, device in pairs)
        names, values = [QUERY, "__there"], []
        if with_device:
            names.insert(1, DEVICE)
        for region, pairs in routes.by_region.items():
            for query, device in sorted(pairs, key=str):
                values.append((query, device, region) if with_device else (query, region))
        columns = list(zip(*values, strict=True))
        table = pa.table({name: pa.array(column, pa.string()) for name, column in zip(names, columns, strict=True)})
        on = [QUERY, DEVICE] if with_device else [QUERY]
        joined = frame.join(F.broadcast(self.spark.createDataFrame(table)), on, "left")
        return joined.selectExpr("*", f"coalesce(__there, {text(self.region)}) AS {TO}").drop("__there")

    def _marked_by_key(self, frame: Frame, routes: RowRoutes) -> Frame:
        """Few listed keys are part of the expression; many are a table, so that a row costs the same."""
        undivided = self.marked(frame, RowRoutes(routes.by_region))
        names = [name for name in undivided.columns if name != TO]
        cases = []
        for number, (query, table) in enumerate(sorted(routes.divided.items())):
            way = _by_key(table, routes.keys)
            listed = [(key, r) for r in table.routes if isinstance(r.keys, Listed) for key in r.keys.keys]
            if len(listed) > LISTED:
                column = f"__listed{number}"
                rows = {
                    "__key": [KEY_SEPARATOR.join(key) for key, _ in listed],
                    column: [BESIDE.join(route.receivers) for _, route in listed],
                }
                there = F.broadcast(self.spark.createDataFrame(pa.table(rows)))
                keyed = undivided.selectExpr("*", f"{key_text(routes.keys)} AS __key")
                undivided = keyed.join(there, "__key", "left").drop("__key")
                way = f"coalesce({column}, {way})"
            cases.append(f"WHEN {QUERY} = {text(query)} THEN {way}")
        columns = [f"`{name}`" for name in names]
        return undivided.selectExpr(*columns, f"CASE {' '.join(cases)} ELSE {TO} END AS {TO}")

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

    def per_query(self, frame: Frame, values: Mapping[QueryId, int], name: str, otherwise: int) -> Frame:
        """Add a column with each row's query's value."""
        by_value: dict[int, list[str]] = {}
        for query, value in values.items():
            by_value.setdefault(value, []).append(text(query))
        if not by_value:
            return frame.selectExpr("*", f"{otherwise}L AS {name}")
        if len(by_value) == 1 and set(values) >= set(self.queries):
            return frame.selectExpr("*", f"{next(iter(by_value))}L AS {name}")
        if len(by_value) <= FEW and len(values) <= 10 * FEW:
            cases = " ".join(f"WHEN {QUERY} IN ({', '.join(q)}) THEN {value}L" for value, q in by_value.items())
            return frame.selectExpr("*", f"CASE {cases} ELSE {otherwise}L END AS {name}")
        table = pa.table({QUERY: list(values), name: pa.array(values.values(), pa.int64())})
        joined = frame.join(F.broadcast(self.spark.createDataFrame(table)), QUERY, "left")
        return joined.withColumn(name, F.coalesce(F.col(name), F.lit(otherwise).cast("bigint")))


def goes_to(region: RegionId) -> str:
    """Of a marked row: whether it goes to a region."""
    return f"instr(concat('{BESIDE}', {TO}, '{BESIDE}'), {text(BESIDE + region + BESIDE)}) > 0"


def key_text(keys: Sequence[str]) -> str:
    """A key in text form, its columns one after the other: what `model.keys` compares."""
    parts = [f"coalesce(CAST({sql} AS string), {text(NULL_KEY)})" for sql in keys]
    return parts[0] if len(parts) == 1 else f"concat_ws({text(KEY_SEPARATOR)}, {', '.join(parts)})"


def bucket(keys: Sequence[str]) -> str:
    """The hash bucket of a key, as `model.keys.bucket_of` has it."""
    return f"(crc32(CAST({key_text(keys)} AS binary)) % {BUCKETS})"


def within(keys: KeySet, sql: Sequence[str]) -> str:
    """Whether a row's key is in a set."""
    match keys:
        case Listed(some):
            return f"{key_text(sql)} IN ({_texts(some)})" if some else "false"
        case HashRange(low, high, but):
            inside = f"{bucket(sql)} >= {low} AND {bucket(sql)} < {high}"
            return f"({inside} AND NOT {within(Listed(but), sql)})" if but else f"({inside})"
        case Rest(named):
            return f"NOT ({' OR '.join(within(other, sql) for other in named)})" if named else "true"


def _by_key(table: RouteTable, keys: Sequence[str]) -> str:
    """The regions that a key's rows go to, as one expression; keys that are too many to be listed are left out."""
    few = sum(len(r.keys.keys) for r in table.routes if isinstance(r.keys, Listed)) <= LISTED
    ordered = sorted(table.routes[:-1], key=lambda route: not isinstance(route.keys, Listed))
    cases = [
        f"WHEN {within(route.keys, keys)} THEN {text(BESIDE.join(route.receivers))}"
        for route in ordered
        if few or not isinstance(route.keys, Listed)
    ]
    rest = text(BESIDE.join(table.rest.receivers))
    return f"CASE {' '.join(cases)} ELSE {rest} END" if cases else rest


def _texts(keys: Iterable[Key]) -> str:
    return ", ".join(text(KEY_SEPARATOR.join(key)) for key in sorted(keys))


def text(value: str) -> str:
    """As a literal of SQL."""
    return f"'{_quoted(value)}'"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
