"""Drafts: what is to be done with few rows, written down. Spark plans it once, and runs it again over other rows.

Analysing, optimising and planning are two thirds of a micro-batch of few rows, and its plan is nearly always that of
the one before. So few rows are handed out as a draft: it is asked like a DataFrame, and remembers what was asked. When
its rows are wanted, the plan that was once made for the same words is run over these rows (a prepared statement).

    draft     rows, or one step over other drafts; two drafts of the same words have the same `key`
    prepared  the DataFrame of a key over rows that are not there yet, and its physical plan

Whatever a draft cannot remember is done by the DataFrame it stands for (`frame`), and costs what it did before.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, reduce
from tempfile import NamedTemporaryFile
from typing import Any, cast
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.serializers import NoOpSerializer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from pyspark.util import _load_from_socket

#: so many plans are kept; most epochs bring a few new ones
MOST = 512
#: leaves of a physical plan that are the same for any rows
CONSTANT = ("LocalTableScanExec",)

Make = Callable[..., DataFrame]


@dataclass(frozen=True, eq=False)
class Leaf:
    """Rows at hand. The label tells them from other rows of the same draft."""

    label: int
    schema: str
    table: pa.Table


class Draft:
    """A DataFrame that is not made yet."""

    def __init__(
        self,
        spark: SparkSession,
        what: Hashable,
        make: Make | None,
        inputs: tuple[Draft, ...],
        leaf: Leaf | None = None,
    ) -> None:
        self.spark, self.what, self.make, self.inputs, self.leaf = spark, what, make, inputs, leaf
        self.key: Hashable = (what, tuple(draft.key for draft in inputs))
        self.leaves: dict[int, Leaf] = {} if leaf is None else {leaf.label: leaf}
        for draft in inputs:
            self.leaves |= draft.leaves

    @staticmethod
    def of(spark: SparkSession, table: pa.Table, schema: StructType, label: int = 0) -> Draft:
        """These rows."""
        leaf = Leaf(label, schema.json(), table)
        return Draft(spark, ("rows", leaf.schema, label), None, (), leaf)

    # --- asked like a DataFrame

    def then(self, what: Hashable, make: Make, *others: Draft) -> Draft:
        """One more step. `make` must do the same whenever `what` is the same."""
        inputs: tuple[Draft, ...] = (self,)
        for other in others:
            inputs += (_apart(inputs, other),)
        return Draft(self.spark, what, make, inputs)

    def selectExpr(self, *texts: str) -> Draft:  # noqa: N802 - as Spark has it
        return self.then(("select", texts), lambda frame: frame.selectExpr(*texts))

    def select(self, *names: str | Column) -> Draft | DataFrame:
        if not all(isinstance(name, str) for name in names):
            return self.frame.select(*names)
        return self.then(("names", names), lambda frame: frame.select(*names))

    def where(self, condition: str | Column) -> Draft | DataFrame:
        if not isinstance(condition, str):
            return self.frame.where(condition)
        return self.then(("where", condition), lambda frame: frame.where(condition))

    def drop(self, *names: str) -> Draft:
        gone = [name for name in names if name in self.columns]
        return self.then(("drop", *gone), lambda frame: frame.drop(*gone)) if gone else self

    def coalesce(self, partitions: int) -> Draft:
        return self.then(("coalesce", partitions), lambda frame: frame.coalesce(partitions))

    def hint(self, name: str) -> Draft:
        return self.then(("hint", name), lambda frame: frame.hint(name))

    @property
    def columns(self) -> list[str]:
        return prepared(self).frame.columns

    @property
    def schema(self) -> StructType:
        return prepared(self).frame.schema

    def toArrow(self) -> pa.Table:  # noqa: N802 - as Spark has it
        found = prepared(self).run(self.leaves)
        return self.frame.toArrow() if found is None else found

    @cached_property
    def frame(self) -> DataFrame:
        """The DataFrame it stands for, over its rows."""
        if self.leaf is not None:
            return self.spark.createDataFrame(self.leaf.table, _struct(self.leaf.schema))
        assert self.make is not None
        return self.make(*(draft.frame for draft in self.inputs))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.frame, name)

    def relabelled(self, labels: dict[int, int]) -> Draft:
        if self.leaf is not None:
            label = labels.get(self.leaf.label, self.leaf.label)
            leaf = Leaf(label, self.leaf.schema, self.leaf.table)
            return Draft(self.spark, ("rows", leaf.schema, label), None, (), leaf)
        return Draft(self.spark, self.what, self.make, tuple(draft.relabelled(labels) for draft in self.inputs))


Frame = DataFrame | Draft


def then(what: Hashable, make: Make, first: Frame, *others: Frame) -> Frame:
    """`make` of these frames: one more step of a draft if all are drafts, else done at once."""
    if isinstance(first, Draft) and all(isinstance(other, Draft) for other in others):
        return first.then(what, make, *others)  # type: ignore[arg-type]
    return make(*map(made, (first, *others)))


def made(frame: Frame) -> DataFrame:
    return frame.frame if isinstance(frame, Draft) else frame


def together(frames: Iterable[Frame]) -> Frame:
    """All rows of all of them; what one has no column for is NULL."""

    def both(one: DataFrame, other: DataFrame) -> DataFrame:
        return one.unionByName(other, allowMissingColumns=True)

    return reduce(lambda whole, other: then("union", both, whole, other), frames)


def joined(left: Frame, right: Frame, condition: str) -> Frame:
    """The pairs for which the condition holds."""
    return then(("join", condition), lambda one, other: one.join(other, F.expr(condition), "inner"), left, right)


def _apart(before: tuple[Draft, ...], other: Draft) -> Draft:
    """Different rows of one draft have different labels."""
    known = {label: leaf for draft in before for label, leaf in draft.leaves.items()}
    clash = [n for n, leaf in other.leaves.items() if n in known and known[n].table is not leaf.table]
    free = max((*known, *other.leaves)) + 1
    return other.relabelled({n: free + k for k, n in enumerate(clash)}) if clash else other


@lru_cache(maxsize=512)
def _struct(schema: str) -> StructType:
    return StructType.fromJson(json.loads(schema))


# --- plans that were made before


@dataclass(eq=False)
class Prepared:
    """The plan of a key."""

    spark: SparkSession
    #: over rows that are not there
    frame: DataFrame
    #: the number of the RDD that stands for rows -> their label
    stands_for: dict[int, int]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def _plan(self) -> tuple[Any, list[tuple[Any, int]]] | None:
        """(physical plan, its leaves that take rows, with their labels); None: it has leaves that others made."""
        plan = self.frame._jdf.queryExecution().executedPlan()
        if "Subquery" in plan.toString():
            return None
        slots = []
        leaves = plan.collectLeaves()
        for leaf in (leaves.apply(n) for n in range(leaves.length())):
            name = leaf.getClass().getSimpleName()
            label = self.stands_for.get(leaf.rdd().id()) if name == "RDDScanExec" else None
            if label is not None:
                slots.append((leaf, label))
            elif name not in CONSTANT:
                return None
        return plan, slots

    @cached_property
    def _arrow(self) -> pa.Schema:
        return to_arrow_schema(self.frame.schema, timezone="UTC")

    def run(self, leaves: dict[int, Leaf]) -> pa.Table | None:
        """What the plan makes of these rows; None: Spark must plan it anew."""
        if self._plan is None:
            return None
        plan, slots = self._plan
        java = _java(self.spark)
        rows = {label: java.rows(leaves[label]) for label in {label for _, label in slots}}
        with self._lock:
            # A plan keeps what it was run over, so each run has a copy of its own, made with new rows in its leaves.
            for leaf, label in slots:
                java.rdd_of_leaf.set(leaf, rows[label])
            copy = plan.clone()
            for leaf, _ in slots:
                java.rdd_of_leaf.set(leaf, java.nothing)
        java.propagate()
        read = [pa.ipc.read_record_batch(pa.py_buffer(batch), self._arrow) for batch in java.collect(self.frame, copy)]
        return pa.Table.from_batches(read, self._arrow)


class _Java:
    """What is asked of Java, for one session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark, self._jvm = spark, cast("Any", spark._jvm)
        self.plans: OrderedDict[Hashable, Prepared] = OrderedDict()
        self.lock = threading.Lock()
        self._row = self._jvm.scala.reflect.ClassTag.apply(
            self._jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.InternalRow")
        )
        scan = self._jvm.java.lang.Class.forName("org.apache.spark.sql.execution.RDDScanExec")
        self.rdd_of_leaf = scan.getDeclaredField("rdd")
        self.rdd_of_leaf.setAccessible(True)
        self.nothing = self._no_rows()

    def _no_rows(self) -> Any:
        return self.spark.sparkContext._jsc.sc().emptyRDD(self._row)

    def rows(self, leaf: Leaf) -> Any:
        """Rows as an RDD of Java's."""
        with NamedTemporaryFile(dir=self.spark.sparkContext._temp_dir, suffix=".arrow") as file:
            with pa.ipc.new_stream(file, leaf.table.schema) as stream:
                stream.write_table(leaf.table)
            file.flush()
            batches = self._jvm.PythonSQLUtils.readArrowStreamFromFile(file.name)
        frame = self._jvm.PythonSQLUtils.toDataFrame(batches, leaf.schema, self.spark._jsparkSession)
        return self.spark.sparkContext._jsc.sc().parallelize(frame.logicalPlan().data(), 1, self._row)

    def standing_for(self, leaf: Leaf) -> Prepared:
        """A DataFrame of the leaf's columns, over rows that are not there."""
        rdd = self._no_rows()
        schema = self._jvm.org.apache.spark.sql.types.DataType.fromJson(leaf.schema)
        jdf = self.spark._jsparkSession.internalCreateDataFrame(rdd, schema, False)
        return Prepared(self.spark, DataFrame(jdf, self.spark), {rdd.id(): leaf.label})

    def collect(self, frame: DataFrame, plan: Any) -> list[bytes]:
        """Run a plan; its rows as Arrow batches, by a socket: what passes as a result of a call waits 40 ms."""
        served = self._jvm.PythonRDD.collectAndServe(frame._jdf.toArrowBatchRdd(plan))
        with _load_from_socket(served, NoOpSerializer()) as batches:
            return list(batches)

    def propagate(self) -> None:
        """Tasks see the session's settings, as they do when Spark runs a query as a whole."""
        context = self.spark.sparkContext
        if context.getLocalProperty("spark.sql.session.timeZone") is None:
            for name, value in self.spark.conf.getAll.items():
                if name.startswith("spark.sql."):
                    context.setLocalProperty(name, value)


_sessions: WeakKeyDictionary[SparkSession, _Java] = WeakKeyDictionary()


def _java(spark: SparkSession) -> _Java:
    if spark not in _sessions:
        _sessions[spark] = _Java(spark)
    return _sessions[spark]


def prepared(draft: Draft) -> Prepared:
    """The plan of the draft's words: as it was kept, or else made."""
    java = _java(draft.spark)
    with java.lock:
        found = java.plans.get(draft.key)
        if found is not None:
            java.plans.move_to_end(draft.key)
            return found
    if draft.leaf is not None:
        found = java.standing_for(draft.leaf)
    else:
        assert draft.make is not None
        inputs = [prepared(one) for one in draft.inputs]
        labels = {rdd: label for one in inputs for rdd, label in one.stands_for.items()}
        found = Prepared(draft.spark, draft.make(*(one.frame for one in inputs)), labels)
    with java.lock:
        java.plans[draft.key] = found
        while len(java.plans) > MOST:
            java.plans.popitem(last=False)
    return found
