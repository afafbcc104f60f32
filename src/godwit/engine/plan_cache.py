"""The plan cache: Spark plans the same expression once, and runs the plan again over other rows.

A plan is made over RDDs that stand for rows which are not there yet. Few rows run directly on the calling thread where
the plan allows it (`direct.py`). Otherwise its leaves are given the RDDs of the rows, and a copy of the plan is
executed as a job: a plan keeps what it was run over, so each run has a copy of its own.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from tempfile import NamedTemporaryFile
from typing import Any, TypeVar, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType
from pyspark.util import _load_from_socket

from godwit.engine.direct import DirectEngine, DirectPlan, Messages, self_test, wanted_mode
from godwit.engine.plan_company import PlanCompany
from godwit.errors import ConfigError

log = logging.getLogger(__name__)

#: cache size, each step of a plan counted; most epochs bring a few new ones
MOST = 2048
#: the leaf that takes rows, and the leaves that are the same for any rows
TAKES_ROWS, CONSTANT = "RDDScanExec", ("LocalTableScanExec",)


T = TypeVar("T")


def remembered(make: Callable[[StructType], T]) -> Callable[[StructType], T]:
    """What is made of a schema, once for each object: nobody changes one, and to compare two takes 25 us a column."""
    known: dict[int, tuple[StructType, T]] = {}

    def made(schema: StructType) -> T:
        found = known.get(id(schema))
        if found is None:
            if len(known) >= MOST:
                known.clear()
            found = known[id(schema)] = schema, make(schema)  # (with the schema: its id must stay its own)
        return found[1]

    return made


@remembered
def json_of(schema: StructType) -> str:
    """`schema.json()`; most schemas are new objects that say the same as others."""
    if any(field.metadata for field in schema.fields):
        return schema.json()
    return _json_of(tuple((field.name, field.dataType, field.nullable) for field in schema.fields))


@lru_cache(maxsize=4096)
def _json_of(fields: tuple[tuple[str, DataType, bool], ...]) -> str:
    return StructType([StructField(*field) for field in fields]).json()


@dataclass(frozen=True, eq=False)
class Leaf:
    """Rows at hand. The label tells them from other rows of the same plan."""

    label: int
    schema: StructType
    table: pa.Table
    #: of rows that several shapes read: the plans that run over them
    company: PlanCompany | None = None

    @cached_property
    def columns(self) -> str:
        """The schema as Java reads it."""
        return json_of(self.schema)

    @cached_property
    def messages(self) -> Messages:
        """The rows as direct plans read them; made once for all plans that do."""
        return Messages.of(self.table)


@dataclass(eq=False)
class Prepared:
    """The cached plan of one expression."""

    java: Java
    #: over rows that are not there
    frame: DataFrame
    #: the number of an RDD that stands for rows -> their label
    stands_for: dict[int, int]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        #: that runs it on the calling thread; None: it runs as a job
        self.engine = self.java.direct

    def run(self, leaves: Mapping[int, Leaf], direct: bool = True) -> pa.Table | None:
        """What the plan makes of these rows; None: it reads something else as well, so Spark must plan it again.

        `direct=False`: as a job, even where it could run on this thread.
        """
        if self._plan is None:
            return None
        plan, slots = self._plan
        if direct and self._direct is not None:
            inputs = {label: leaves[label].messages for _, label in slots}
            company = leaves[slots[0][1]].company if len(slots) == 1 else None
            return self._direct.run(inputs) if company is None else company.run(self._direct, inputs)
        rows = {label: self.java.rows(leaves[label]) for label in {label for _, label in slots}}
        self.java.settle_in()
        with self._lock:
            for leaf, label in slots:
                self.java.rdd_of_leaf.set(leaf, rows[label])
            copy = plan.clone()
            for leaf, _ in slots:
                self.java.rdd_of_leaf.set(leaf, self.java.nothing)  # the rows need not stay in memory
        batches = self.java.collect(self.frame, copy)
        read = [pa.ipc.read_record_batch(pa.py_buffer(batch), self._arrow) for batch in batches]
        return pa.Table.from_batches(read, self._arrow)

    @cached_property
    def schema(self) -> StructType:
        return self.frame.schema

    @cached_property
    def _plan(self) -> tuple[Any, list[tuple[Any, int]]] | None:
        """(physical plan, its leaves that take rows, with the labels of these)"""
        plan = self.frame._jdf.queryExecution().executedPlan()
        if "Subquery" in plan.toString():
            return None
        slots = []
        leaves = plan.collectLeaves()
        for leaf in (leaves.apply(n) for n in range(leaves.length())):
            name = leaf.getClass().getSimpleName()
            label = self.stands_for.get(leaf.rdd().id()) if name == TAKES_ROWS else None
            if label is not None:
                slots.append((leaf, label))
            elif name not in CONSTANT:
                return None
        return plan, slots

    @cached_property
    def _direct(self) -> DirectPlan | None:
        """The plan, to run on the calling thread, where that can be."""
        if self.engine is None or self._plan is None:
            return None
        return self.engine.planned(self.frame, self._plan[0])

    @cached_property
    def _arrow(self) -> pa.Schema:
        return to_arrow_schema(self.schema, timezone="UTC")


class Java:
    """The prepared plans of an application, and what is asked of its Java to make and run them."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._jvm = spark, cast("Any", spark._jvm)
        self._classes = self._jvm.org.apache.spark.sql.classic.SparkSession
        self._context = spark.sparkContext._jsc.sc()
        self._plans: OrderedDict[Hashable, Prepared] = OrderedDict()
        #: how often plans have gone: whoever has seen to it that they are there looks whether they still are
        self.forgotten = 0
        #: plans that are being made; who needs one of them, too, waits for it
        self._making: dict[Hashable, threading.Lock] = {}
        #: functions of programs that plans may call, by name
        self._functions: dict[str, object] = {}
        self._lock = threading.Lock()
        class_of = self._jvm.java.lang.Class.forName
        self._row = self._jvm.scala.reflect.ClassTag.apply(class_of("org.apache.spark.sql.catalyst.InternalRow"))
        self.rdd_of_leaf = class_of(f"org.apache.spark.sql.execution.{TAKES_ROWS}").getDeclaredField("rdd")
        self.rdd_of_leaf.setAccessible(True)
        self.nothing = self._no_rows()
        self.direct = self._direct_engine()

    def _direct_engine(self) -> DirectEngine | None:
        """Direct plans, where they are wanted and give the same answers as jobs do."""
        mode = wanted_mode()
        if mode == "jobs":
            return None
        try:
            engine = DirectEngine(self._spark)
            problem = self_test(self._spark, engine)
        except Py4JError as error:
            problem = str(error).splitlines()[0]
        if not problem:
            return engine
        if mode == "direct":
            msg = f"GODWIT_ENGINE=direct, but direct plans do not work here: {problem}; use auto or jobs"
            raise ConfigError(msg)
        log.warning("direct plans are off, small micro-batches run as Spark jobs: %s", problem)
        return None

    def plan(self, key: Hashable, make: Callable[[], Prepared]) -> Prepared:
        """The plan of a key: as it was kept, or else made."""
        key = (self.direct is None, key)  # the leaves of plans that may run directly are other ones
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
                return found
            gate = self._making.setdefault(key, threading.Lock())
        with gate:  # regions that begin with a shape at the same moment do not all make its plans
            with self._lock:
                found = self._plans.get(key)
            if found is None:
                found = self._make(key, make)
        return found

    def calls(self, name: str, function: object) -> None:
        """Plans call this function by that name from now on. Those that were made while it was another one go: they
        keep what they were made with."""
        with self._lock:
            if self._functions.get(name, function) is not function:
                self._plans.clear()
                self.forgotten += 1
            self._functions[name] = function

    def _make(self, key: Hashable, make: Callable[[], Prepared]) -> Prepared:
        try:
            found = make()
            _made.count = planned_here() + 1
            with self._lock:
                self._plans[key] = found
                while len(self._plans) > MOST:
                    self._plans.popitem(last=False)
                    self.forgotten += 1
            return found
        finally:
            with self._lock:
                self._making.pop(key, None)

    def standing_for(self, leaf: Leaf) -> Prepared:
        """A DataFrame of the leaf's columns, over rows that are not there."""
        rdd = self._no_rows() if self.direct is None else self.direct.leaf(leaf.label)
        schema = self._jvm.org.apache.spark.sql.types.DataType.fromJson(leaf.columns)
        rows = DataFrame(self._spark._jsparkSession.internalCreateDataFrame(rdd, schema, False), self._spark)
        # In one partition, as far as Spark knows: grouping or joining needs no exchange then, which would need a job.
        return Prepared(self, rows.coalesce(1), {rdd.id(): leaf.label})

    def _no_rows(self) -> Any:
        return self._context.emptyRDD(self._row)

    def rows(self, leaf: Leaf) -> Any:
        """Rows as an RDD of Java's."""
        with NamedTemporaryFile(dir=self._spark.sparkContext._temp_dir, suffix=".arrow") as file:
            with pa.ipc.new_stream(file, leaf.table.schema) as stream:
                stream.write_table(leaf.table)
            file.flush()
            batches = self._jvm.PythonSQLUtils.readArrowStreamFromFile(file.name)
        frame = self._jvm.PythonSQLUtils.toDataFrame(batches, leaf.columns, self._spark._jsparkSession)
        found = frame.logicalPlan()
        if found.getClass().getSimpleName() == "LogicalRDD":  # few rows may be long ones: they are an RDD already
            return found.rdd()
        return self._context.parallelize(found.data(), 1, self._row)

    def collect(self, frame: DataFrame, plan: Any) -> list[bytes]:
        """Run a plan; its rows as Arrow batches, by a socket: what a call returns may wait 40 ms on its way."""
        served = self._jvm.PythonRDD.collectAndServe(frame._jdf.toArrowBatchRdd(plan))
        with _load_from_socket(served, NoOpSerializer()) as batches:
            return list(batches)

    def settle_in(self) -> None:
        """Plans that are copied on this thread belong to the session, and their tasks see its settings, as they do when
        Spark runs a query as a whole."""
        self._classes.setActiveSession(self._spark._jsparkSession)
        context = self._spark.sparkContext
        if context.getLocalProperty("spark.sql.session.timeZone") is None:
            for name, value in self._spark.conf.getAll.items():
                if name.startswith("spark.sql."):
                    context.setLocalProperty(name, value)


_made = threading.local()


def planned_here() -> int:
    """How many plans this thread has had to make: a micro-batch that makes some is slow."""
    return int(getattr(_made, "count", 0))


_known: dict[SparkContext, Java] = {}
_starting = threading.Lock()


def java_of(spark: SparkSession) -> Java:
    """One for each Spark application: PySpark may have several objects for the same session."""
    context = spark.sparkContext
    if (found := _known.get(context)) is not None:
        return found
    with _starting:
        if context not in _known:
            _known[context] = Java(spark)
        return _known[context]
