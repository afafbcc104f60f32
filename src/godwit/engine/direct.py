"""Direct plans: a physical plan of Spark's runs over few rows on the calling thread, without the scheduler.

Up to `INTERPRETED` rows Spark interprets the plan; for more it compiles it, when they first come. Compiling costs as
much as planning does, and Java is slow in code that is new to it: every shape has its own, the interpreter is shared.

`direct_plan.java` holds the part that must be Java; Janino, the compiler that Spark carries, compiles it when a session
is first used. Rows travel as Arrow messages in memory-backed files: bytes that a Py4J call returns may wait 40 ms for a
delayed TCP acknowledgement. All of this uses interfaces that Spark does not promise to keep, so it is tested against
the ordinary way when a session starts, and switched off with a warning if there is any difference.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple, cast

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
#: plans over at most this number of rows are interpreted
INTERPRETED = 1_000
#: memory that a grouping or a join takes at once; Spark's own choice, megabytes, must be cleared in each run
PAGE = "256k"
#: bytes of earlier rows that may remain behind those of a run
STALE = 1 << 16
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
        self._files_class = loader.loadClass("godwit.DirectPlan$RowFiles")
        self._static = {method.getName(): method for method in self._plan_class.getMethods()}
        self._settings = {compiled: jvm.java.util.Properties() for compiled in (True, False)}
        for name, value in spark.conf.getAll.items():
            if name.startswith("spark.sql."):  # tasks read the session's settings from their local properties
                for settings in self._settings.values():
                    settings.setProperty(name, value)
        self._settings[False].setProperty("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        self._memory = self._call("memory", self._context, PAGE)

    def leaf(self, slot: int) -> Any:
        """An RDD that stands for the rows that a run brings for a slot."""
        return self._new(self._rows_class, self._context, self._row, slot)

    def planned(self, frame: Any, plan: Any) -> DirectPlan | None:
        """The physical plan, to be run here; None: a part of it needs the scheduler."""
        if any(word in plan.toString() for word in NEEDS_JOB):
            return None
        rows = self._rows(plan, compiled=False)
        return DirectPlan(self, frame, plan, self._copy(frame, rows, False)) if self._call("fits", rows) else None

    def copy(self, frame: Any, plan: Any, compiled: bool) -> PlanCopy:
        """One more copy of a plan that fits."""
        return self._copy(frame, self._rows(plan, compiled), compiled)

    def _copy(self, frame: Any, rows: Any, compiled: bool) -> PlanCopy:
        made = self._new(self._plan_class, rows, frame._jdf.schema(), self._settings[compiled], self._memory)
        return PlanCopy(made.number(), made)

    def _rows(self, plan: Any, compiled: bool) -> Any:
        # A plan that is copied belongs to the session that is active on the thread.
        self._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(self._session)
        return self._call("rowsOf", plan.clone(), compiled)

    def files(self) -> _Files:
        """Those of the calling thread."""
        if getattr(_local, "engine", None) is not self:
            _local.engine, _local.files = self, _Files(self)
        return cast("_Files", _local.files)

    def java_files(self, input_path: str, output_path: str) -> Any:
        return self._new(self._files_class, input_path, output_path)

    def _call(self, name: str, *arguments: Any) -> Any:
        """A static method of the Java class."""
        return self._static[name].invoke(None, self._array(arguments))

    def _new(self, kind: Any, *arguments: Any) -> Any:
        return kind.getConstructors()[0].newInstance(self._array(arguments))

    def _array(self, arguments: Sequence[Any]) -> Any:
        given = self._gateway.new_array(self._jvm.java.lang.Object, len(arguments))
        for n, argument in enumerate(arguments):
            given[n] = argument
        return given


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


class Messages(NamedTuple):
    """A table as two Arrow messages."""

    rows: int
    schema: bytes
    batch: bytes

    @staticmethod
    def of(table: pa.Table) -> Messages:
        batch = table.combine_chunks().to_batches()[0].serialize().to_pybytes() if table.num_rows else b""
        return Messages(table.num_rows, table.schema.serialize().to_pybytes(), batch)


class PlanCopy(NamedTuple):
    """A plan that one thread at a time may run."""

    number: int
    #: (Java lets go of it when Python does)
    java: Any


class DirectPlan:
    """One plan. Threads that run it at the same time have a copy each: operators keep what they sort."""

    def __init__(self, engine: DirectEngine, frame: Any, plan: Any, first: PlanCopy) -> None:
        self._engine, self._frame, self._plan = engine, frame, plan
        self.schema: pa.Schema = to_arrow_schema(frame.schema, timezone="UTC")
        #: whether they are compiled -> copies that nobody runs
        self._free: dict[bool, list[PlanCopy]] = {False: [first], True: []}
        self._lock = threading.Lock()

    def run(self, inputs: Mapping[int, Messages], compiled: bool | None = None) -> pa.Table:
        """What the plan makes of these rows (by slot); errors of the plan surface as those of a job do.

        `compiled`: whether Spark compiles it; None: if there are many rows.
        """
        if compiled is None:
            compiled = sum(given.rows for given in inputs.values()) > INTERPRETED
        (made,) = run_together([self], inputs, compiled)
        assert made is not None
        return made

    def take(self, compiled: bool) -> PlanCopy:
        free = self._free[compiled]
        with self._lock:
            copy = free.pop() if free else None
        return copy or self._engine.copy(self._frame, self._plan, compiled)

    def put_back(self, copy: PlanCopy, compiled: bool) -> None:
        free = self._free[compiled]
        with self._lock:
            if len(free) < COPIES:
                free.append(copy)


def run_together(
    plans: Sequence[DirectPlan], inputs: Mapping[int, Messages], compiled: bool = False
) -> list[pa.Table | None]:
    """What each of some plans makes of the same rows, in one call. An error of the first surfaces; None: another one
    has failed, and will say why when it is run by itself."""
    files = plans[0]._engine.files()
    copies = [plan.take(compiled) for plan in plans]
    try:
        files.write([copy.number for copy in copies], inputs)
        return files.read(files.run(), [plan.schema for plan in plans])
    finally:
        for plan, copy in zip(plans, copies, strict=True):
            plan.put_back(copy, compiled)


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
    plan = engine.planned(planned, planned._jdf.queryExecution().executedPlan())
    if plan is None:
        return "a simple plan needs the scheduler"
    answers = [plan.run({0: Messages.of(table)}, compiled) for compiled in (False, True)]
    expected = sorted(map(repr, usual.toArrow().to_pylist()))
    return "" if all(sorted(map(repr, answer.to_pylist())) == expected for answer in answers) else "answers differ"


def _probe(frame: DataFrame) -> DataFrame:
    """A plan with a filter, a projection, grouped sums and a join."""
    kept = frame.where("v % 3 <> 0").coalesce(1)
    sums = kept.groupBy("k").agg(F.sum("v").alias("total"), F.avg("x").alias("mean"), F.max("ts").alias("newest"))
    pairs = kept.selectExpr("k AS key", "v * 2 AS double_v", "ts").hint("shuffle_hash")
    return sums.join(pairs, F.expr("k = key AND ts < newest")).selectExpr("k", "total", "mean", "double_v", "newest")


class _Files:
    """A thread's two memory-backed files: rows to the plan, rows from it."""

    def __init__(self, engine: DirectEngine) -> None:
        self._kept = _memory_file("godwit-in"), _memory_file("godwit-out")
        # As few calls of the system as can be: after each, the thread must wait for Python's lock again.
        self._input, self._output = (file.fileno() for file in self._kept)
        self._written = 0
        # (the method, not the object: Py4J looks a method up each time it is asked for)
        self.run = engine.java_files(*(f"/proc/{os.getpid()}/fd/{f}" for f in (self._input, self._output))).run

    def write(self, plans: Sequence[int], inputs: Mapping[int, Messages]) -> None:
        """[plans][number of each][slots], then for each slot [length][schema][length][record batch]; without rows, the
        length is 0."""
        parts = [struct.pack(f">{len(plans) + 2}i", len(plans), *plans, max(inputs, default=-1) + 1)]
        for slot in range(max(inputs, default=-1) + 1):
            for message in inputs[slot][1:] if slot in inputs else (b"",):
                parts += [struct.pack(">i", len(message)), message]
        data = b"".join(parts)
        if self._written > max(2 * len(data), STALE):
            os.ftruncate(self._input, 0)  # (what is left of longer ones behind the end is read, too, and passed over)
            self._written = 0
        left = memoryview(data)
        while left:
            left = left[os.pwrite(self._input, left, len(data) - len(left)) :]
        self._written = max(self._written, len(data))

    def read(self, size: int, schemas: Sequence[pa.Schema]) -> list[pa.Table | None]:
        """For each schema [batches], each [length][record batch]; -1 batches: there is no table."""
        data, at, tables = self._whole(size), 0, list[pa.Table | None]()
        whole = pa.py_buffer(data)
        for schema in schemas:
            (count,), at, batches = _INT.unpack_from(data, at), at + 4, []
            for _ in range(count):
                (length,) = _INT.unpack_from(data, at)
                batches.append(pa.ipc.read_record_batch(whole.slice(at + 4, length), schema))
                at += 4 + length
            tables.append(pa.Table.from_batches(batches, schema) if count >= 0 else None)
        return tables

    def _whole(self, size: int) -> bytes:
        found = b""
        while len(found) < size and (more := os.pread(self._output, size - len(found), len(found))):
            found = found + more if found else more
        return found


_INT = struct.Struct(">i")


def _memory_file(name: str) -> IO[bytes]:
    with suppress(AttributeError, OSError):  # not on every system; then a file on disk does
        return os.fdopen(os.memfd_create(name), "w+b")
    return TemporaryFile()


_local = threading.local()
