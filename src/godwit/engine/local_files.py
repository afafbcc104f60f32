"""The file system that Spark's tasks write local files with: one that starts no process.

Hadoop sets the permissions of every file and folder that it makes by running `chmod`, where its native library is not
there (PySpark has none), and a task that writes a file of a large micro-batch waits for it. Files have the permissions
of the process instead, as those that Python writes. The class is compiled when it is first asked for, by Janino, which
Spark carries, and lives in this Java: a cluster's executors do not have it.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

RAW = "org.apache.hadoop.fs.RawLocalFileSystem"
QUIET = "org.apache.hadoop.fs.GodwitLocalFileSystem"
#: in Hadoop's package, for a class can be added where another one is
_CLASS = """
package org.apache.hadoop.fs;
public class GodwitLocalFileSystem extends RawLocalFileSystem {
    public void setPermission(Path path, org.apache.hadoop.fs.permission.FsPermission permission) {}
}
"""
_ADD = """
package godwit;
import java.lang.invoke.MethodHandles;
public class Adding {
    public static Class beside(Class known, byte[] code) throws Exception {
        return MethodHandles.privateLookupIn(known, MethodHandles.lookup()).defineClass(code);
    }
}
"""
_chosen: dict[int, str] = {}
#: a class can be added once; regions ask from threads of their own
_adding = threading.Lock()


def file_system(spark: SparkSession) -> str:
    """The name of the class."""
    context = spark.sparkContext
    known = id(context._gateway)
    with _adding:
        if known not in _chosen:
            local = str(context.master).startswith("local")
            _chosen[known] = _added(cast("Any", context._jvm)) if local else RAW
        return _chosen[known]


def _added(jvm: Any) -> str:
    with suppress(Py4JError):  # an earlier session of this Java may have added it
        jvm.java.lang.Class.forName(QUIET)
        return QUIET
    try:
        raw = jvm.java.lang.Class.forName(RAW)
        code = _compiled(jvm, _CLASS).getBytecodes().get(QUIET)
        adding = _compiled(jvm, _ADD).getClassLoader().loadClass("godwit.Adding")
        adding.getMethods()[0].invoke(None, _pair(jvm, raw, code))
    except Py4JError as error:
        log.warning("files are written by Hadoop's own class, which runs chmod for each: %s", error)
        return RAW
    return QUIET


def _compiled(jvm: Any, source: str) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Class.forName(RAW).getClassLoader())
    compiler.cook(source)
    return compiler


def _pair(jvm: Any, *values: Any) -> Any:
    made = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.lang.Object"), len(values))
    for number, value in enumerate(values):
        made[number] = value
    return made
