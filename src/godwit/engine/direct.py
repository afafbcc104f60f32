"""Direct plans: a compiled Spark plan runs over few rows on the calling thread, without the scheduler.

`direct_plan.java` holds the part that must be Java; Janino, the compiler that Spark carries, compiles it when a session
is first used. Rows travel as Arrow streams in memory-backed files: bytes that a Py4J call returns may wait 40 ms for a
delayed TCP acknowledgement. All of this uses interfaces that Spark does not promise to keep, so it is tested against
the ordinary way when a session starts, and switched off with a warning if there is any difference.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from godwit.errors import ConfigError

SOURCE = Path(__file__).with_name("direct_plan.java")
#: the private interfaces used here were read in this version
TESTED_WITH = "4.3."
#: what the environment variable GODWIT_ENGINE may say
MODES = ("auto", "direct", "jobs")
#: copies of one plan that are kept for threads that run it at the same time
COPIES = 4
#: nodes of a physical plan that need the scheduler, or Python
NEEDS_JOB = ("Exchange", "Subquery", "Python", "ArrowEval", "InMemoryTableScan", "FileScan", "BatchScan")


def wanted_mode() -> str:
    """What the user asked for: `auto` unless GODWIT_ENGINE says otherwise."""
    mode = os.environ.get("GODWIT_ENGINE", "auto")
    if mode not in MODES:
        msg = f"GODWIT_ENGINE is '{mode}'; set it to one of {', '.join(MODES)}, or leave it out"
        raise ConfigError(msg)
    return mode


class DirectEngine:
    """The compiled Java of one Spark application, and what it needs to run plans."""

    def __init__(self, spark: SparkSession) -> None:
        jvm, self._gateway = cast("Any", spark._jvm), cast("Any", spark.sparkContext._gateway)
        self._session = spark._jsparkSession
        self._jvm, self._context = jvm, spark.sparkContext._jsc.sc()
        class_of = jvm.java.lang.Class.forName
        self._row = jvm.scala.reflect.ClassTag.apply(class_of("org.apache.spark.sql.catalyst.InternalRow"))
        loader = _class_loader(jvm, self._gateway)
        self._plan_class = loader.loadClass("godwit.DirectPlan")
        self._rows_class = loader.loadClass("godwit.DirectPlan$Rows")
        rdd_class = self._gateway.new_array(jvm.java.lang.Class, 1)
        rdd_class[0] = class_of("org.apache.spark.rdd.RDD")
        self._fits = self._plan_class.getMethod("fits", rdd_class)
        self._settings = jvm.java.util.Properties()
        for name, value in spark.conf.getAll.items():
            if name.startswith("spark.sql."):  # tasks read the session's settings from their local properties
                self._settings.setProperty(name, value)
        self._memory = self._memory_manager()

    def leaf(self, slot: int) -> Any:
        """An RDD that stands for the rows that a run brings for a slot."""
        return self._new(self._rows_class, self._context, self._row, slot)

    def compiled(self, frame: Any, plan: Any) -> DirectPlan | None:
        """The physical plan, compiled to be run here; None: a part of it needs the scheduler."""
        if any(word in plan.toString() for word in NEEDS_JOB):
            return None
        first = self._batches(frame, plan)
        arguments = self._gateway.new_array(self._jvm.java.lang.Object, 1)
        arguments[0] = first
        if not self._fits.invoke(None, arguments):
            return None
        return DirectPlan(self, frame, plan, self._new(self._plan_class, first, self._settings, self._memory))

    def copy(self, frame: Any, plan: Any) -> Any:
        """One more copy of a plan that fits."""
        return self._new(self._plan_class, self._batches(frame, plan), self._settings, self._memory)

    def _batches(self, frame: Any, plan: Any) -> Any:
        # A plan that is copied belongs to the session that is active on the thread.
        self._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(self._session)
        return frame._jdf.toArrowBatchRdd(plan.clone())

    def _memory_manager(self) -> Any:
        # Not by reflection: that resolves all of SparkEnv's methods, one of which names a class that no jar carries.
        class_of, invoke = self._jvm.java.lang.Class.forName, self._jvm.java.lang.invoke
        kind = invoke.MethodType.methodType(class_of("org.apache.spark.memory.MemoryManager"))
        lookup = invoke.MethodHandles.publicLookup()
        arguments = self._jvm.java.util.ArrayList()
        arguments.add(self._context.env())
        handle = lookup.findVirtual(class_of("org.apache.spark.SparkEnv"), "memoryManager", kind)
        return handle.invokeWithArguments(arguments)

    def _new(self, kind: Any, *arguments: Any) -> Any:
        given = self._gateway.new_array(self._jvm.java.lang.Object, len(arguments))
        for n, argument in enumerate(arguments):
            given[n] = argument
        return kind.getConstructors()[0].newInstance(given)


#: the gateway to a JVM -> the loader of our classes there
_LOADERS: dict[int, Any] = {}


def _class_loader(jvm: Any, gateway: Any) -> Any:
    """Compiled once per JVM, which may outlive a session: Py4J takes classes of one name for the same class."""
    if id(gateway) not in _LOADERS:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(SOURCE.name, jvm.java.io.StringReader(SOURCE.read_text()))
        _LOADERS[id(gateway)] = compiler.getClassLoader()
    return _LOADERS[id(gateway)]


class DirectPlan:
    """One compiled plan. Threads that run it at the same time have a copy each: operators keep what they sort."""

    def __init__(self, engine: DirectEngine, frame: Any, plan: Any, first: Any) -> None:
        self._engine, self._frame, self._plan = engine, frame, plan
        self._free, self._lock = [first], threading.Lock()

    def run(self, tables: Mapping[int, pa.Table], schema: pa.Schema) -> pa.Table:
        """What the plan makes of these rows (by slot); errors of the plan surface as those of a job do."""
        files = _files()
        files.write(tables)
        with self._copy() as copy:
            count = copy.run(*files.paths)
        return pa.Table.from_batches(files.read(count, schema), schema)

    @contextmanager
    def _copy(self) -> Iterator[Any]:
        with self._lock:
            copy = self._free.pop() if self._free else None
        copy = copy or self._engine.copy(self._frame, self._plan)
        try:
            yield copy
        finally:
            with self._lock:
                if len(self._free) < COPIES:
                    self._free.append(copy)


def self_test(spark: SparkSession, engine: DirectEngine) -> str:
    """Run one plan both ways; empty: the answers are equal, else what is wrong."""
    if not spark.version.startswith(TESTED_WITH):
        return f"they are tested with Spark {TESTED_WITH}, this is {spark.version}"
    schema = cast("StructType", StructType.fromDDL("k string, v bigint, x double, ts timestamp"))
    rows = [(f"k{n % 5}" if n % 7 else None, n, n / 3, datetime.fromtimestamp(n, UTC)) for n in range(100)]
    columns = dict(zip(schema.names, map(list, zip(*rows, strict=True)), strict=True))
    table = pa.table(columns, schema=to_arrow_schema(schema, timezone="UTC"))
    asked = cast("Any", spark._jvm).org.apache.spark.sql.types.DataType.fromJson(schema.json())
    empty = DataFrame(spark._jsparkSession.internalCreateDataFrame(engine.leaf(0), asked, False), spark)
    planned, usual = _probe(empty), _probe(spark.createDataFrame(table, schema))
    plan = engine.compiled(planned, planned._jdf.queryExecution().executedPlan())
    if plan is None:
        return "a simple plan needs the scheduler"
    answer = plan.run({0: table}, to_arrow_schema(planned.schema, timezone="UTC"))
    expected = usual.toArrow()
    return "" if sorted(map(repr, answer.to_pylist())) == sorted(map(repr, expected.to_pylist())) else "answers differ"


def _probe(frame: DataFrame) -> DataFrame:
    """A plan with a filter, a projection, grouped sums and a join."""
    kept = frame.where("v % 3 <> 0").coalesce(1)
    sums = kept.groupBy("k").agg(F.sum("v").alias("total"), F.avg("x").alias("mean"), F.max("ts").alias("newest"))
    pairs = kept.selectExpr("k AS key", "v * 2 AS double_v", "ts").hint("shuffle_hash")
    return sums.join(pairs, F.expr("k = key AND ts < newest")).selectExpr("k", "total", "mean", "double_v", "newest")


class _Files:
    """A thread's two memory-backed files: rows to the plan, rows from it."""

    def __init__(self) -> None:
        self._input, self._output = _memory_file("godwit-in"), _memory_file("godwit-out")
        self.paths = tuple(f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (self._input, self._output))

    def write(self, tables: Mapping[int, pa.Table]) -> None:
        """[number of slots] then, for each slot, [length][Arrow stream]; a slot without rows has length 0."""
        streams = [_stream(tables[slot]) if slot in tables else b"" for slot in range(max(tables, default=-1) + 1)]
        parts = [struct.pack(">i", len(streams))]
        for stream in streams:
            parts += [struct.pack(">i", len(stream)), stream]
        self._input.seek(0)
        self._input.truncate()
        self._input.write(b"".join(parts))
        self._input.flush()

    def read(self, count: int, schema: pa.Schema) -> list[pa.RecordBatch]:
        self._output.seek(0)
        whole, at, batches = pa.py_buffer(self._output.read()), 0, []
        for _ in range(count):
            (length,) = struct.unpack(">i", whole.slice(at, 4))
            batches.append(pa.ipc.read_record_batch(whole.slice(at + 4, length), schema))
            at += 4 + length
        return batches


def _memory_file(name: str) -> IO[bytes]:
    with suppress(AttributeError, OSError):  # not on every system; then a file on disk does
        return os.fdopen(os.memfd_create(name), "w+b")
    return TemporaryFile()


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return cast("bytes", sink.getvalue().to_pybytes())


_local = threading.local()


def _files() -> _Files:
    if not hasattr(_local, "files"):
        _local.files = _Files()
    return cast("_Files", _local.files)
