"""The Spark session: made once, with the settings that make small micro-batches fast."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from py4j.java_gateway import java_import
from pyspark.sql import SparkSession

from godwit.engine.java import check_heap, find_java_home
from godwit.errors import ConfigError

#: Each line was measured; docs/design/0001-small-micro-batches.md says what it buys.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    # A query's `x / 0` is its own NULL, not the end of the micro-batch that it shares with others.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.compression.codec": "lz4_raw",
    # The default, INT96, carries no statistics, and segments are pruned by time.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.scheduler.mode": "FAIR",
    # A listener in Python may be slow for a moment; Spark would drop what the metrics wait for.
    "spark.scheduler.listenerbus.eventqueue.capacity": "100000",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.log.level": "ERROR",
    "spark.cleaner.referenceTracking.cleanCheckpoints": "false",
    # Remembering the line of Python behind each Column costs half of what building a plan does.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Plans of few rows are made before the rows are there (`lazy_frame.py`): Spark would expect many, and shuffle.
    "spark.sql.defaultSizeInBytes": str(2**30),
    "spark.sql.maxSinglePartitionBytes": "1t",
    # Of a heap of 2 GB Spark makes pages of 64 MB, and whatever is broadcast (a reference table) keeps at least one.
    "spark.buffer.pageSize": "4m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


#: Java classes that PySpark calls by their short names. It knows their packages only, and asks all jars for such a
#: class in each of them, every time: 3 ms a call, with several calls in each micro-batch.
OFTEN_CALLED = (
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.sql.api.python.PythonSQLUtils",
)

#: for many different small plans: interpreting them costs less than compiling them
QUICK = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


#: what results depend on; UTC for windows, and the same NULLs and names in the micro-batches and in the oracle
NEEDED = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.scheduler.mode": "FAIR",
}


def spark_session(
    app: str = "godwit",
    cores: int | None = None,
    memory: str = "2g",
    quick: bool = False,
    settings: dict[str, str] | None = None,
    master: str | None = None,
) -> SparkSession:
    """The process's Spark session, started if there is none. Costs about 7 s and 1 GB: share it.

    One that is there already is used as it is, whatever `cores` and `memory` say; one that has other `settings`, or
    would give other results, is refused. `quick`: spend no time on compiling; for tests and short demonstrations over
    little data. `master`: of a cluster, or "local[2]"; None: all cores of this machine, or that number of them.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        check_session(active, settings or {})
        return active
    check_heap(memory)
    os.environ["JAVA_HOME"] = str(find_java_home())
    # Workers must run the interpreter that has our packages, whatever `python3` is on PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    cores = cores or os.cpu_count() or 2
    builder = SparkSession.builder.appName(app).master(master or f"local[{max(cores, 2)}]")
    chosen = {
        **SETTINGS,
        "spark.driver.memory": memory,
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.extraJavaOptions": " ".join(_java_options(quick, small=memory.endswith("m"))),
        **(QUICK if quick else {}),
        **(settings or {}),
    }
    for key, value in chosen.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as fault:  # (Java has said on stderr what it did not like; Spark's own words are long)
        lines = [line.strip(" :") for line in str(fault).splitlines() if line.strip()] or [type(fault).__name__]
        why = next((line for line in lines if not line.startswith("An error occurred while calling")), lines[0])
        msg = (
            f"Spark cannot be started (master {master or 'local'}, memory {memory}): {why}; check both, further "
            "settings (spark.*), and what stands above"
        )
        raise ConfigError(msg) from fault
    session.sparkContext.setLogLevel("ERROR")
    # It would log every query that Spark cannot type, with the Java stack; the error that is raised says it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    for name in OFTEN_CALLED:
        java_import(session._jvm, name)
    return session


def check_session(session: SparkSession, settings: Mapping[str, str] = MappingProxyType({})) -> None:
    """Raise if a session would give other results than ours, or is not as asked for."""
    fixed = session.sparkContext.getConf()
    for key, wanted in {**NEEDED, **settings}.items():
        has = session.conf.get(key) if key.startswith("spark.sql.") else fixed.get(key)
        if has is None or has.lower() != wanted.lower():
            msg = (
                f"the Spark session that is running has {key}={has or '(not set)'}, and '{wanted}' is needed; stop it "
                f"and let spark_session() make one, or build yours with .config('{key}', '{wanted}')"
            )
            raise ConfigError(msg)


def _java_options(quick: bool, small: bool) -> list[str]:
    quiet = (Path(__file__).parent / "log4j2.properties").as_uri()
    # With few compiler levels Java sets aside only 48 MB for code; once that is full it interprets for good.
    # (for its memory, which is not in the heap; and a third of a small heap would be touched by garbage alone)
    collector = ["-XX:+UseSerialGC", "-XX:MaxNewSize=64m"] if small else ["-XX:+UseParallelGC"]
    options = [f"-Dlog4j2.configurationFile={quiet}", *collector, "-XX:ReservedCodeCacheSize=240m"]
    return [*options, "-XX:TieredStopAtLevel=1"] if quick else options
