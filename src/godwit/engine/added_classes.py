"""Classes of ours in the Java of a session, where its tasks find them: compiled by Janino, which Spark carries, and
added to the package of a class that is there. A cluster's executors do not have them."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import Any, cast

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_ADD = """
package godwit;
import java.lang.invoke.MethodHandles;
public class Adding {
    public static Class beside(Class known, byte[] code) throws Exception {
        return MethodHandles.privateLookupIn(known, MethodHandles.lookup()).defineClass(code);
    }
}
"""
#: (the gateway to a Java, a class) -> whether it is there
_known: dict[tuple[int, str], bool] = {}
#: a class can be added once; regions ask from threads of their own
_adding = threading.Lock()


def added(spark: SparkSession, name: str, source: str, beside: str, without: str) -> bool:
    """Whether a class is there; the classes of its source are added when it is first asked for. `beside`: a class of
    the same package; `without`: what happens if they cannot be, for the log."""
    context = spark.sparkContext
    key = (id(context._gateway), name)
    with _adding:
        if key not in _known:
            local = str(context.master).startswith("local")
            _known[key] = local and _added(cast("Any", context._jvm), name, source, beside, without)
        return _known[key]


def java_class(spark: SparkSession, name: str) -> Any:
    """By its whole name; asked for part by part, Java would look for each in all packages."""
    return JavaClass(name, cast("Any", spark.sparkContext._gateway)._gateway_client)


def _added(jvm: Any, name: str, source: str, beside: str, without: str) -> bool:
    with suppress(Py4JError):  # an earlier session of this Java may have added it
        jvm.java.lang.Class.forName(name)
        return True
    try:
        known = jvm.java.lang.Class.forName(beside)
        adding = _compiled(jvm, _ADD, known).getClassLoader().loadClass("godwit.Adding").getMethods()[0]
        for code in _compiled(jvm, source, known).getBytecodes().values():
            adding.invoke(None, _array(jvm, known, code))
    except Py4JError as error:
        log.warning("%s: %s", without, error)
        return False
    return True


def _compiled(jvm: Any, source: str, known: Any) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(known.getClassLoader())
    compiler.cook(source)
    return compiler


def _array(jvm: Any, *values: Any) -> Any:
    made = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.lang.Object"), len(values))
    for number, value in enumerate(values):
        made[number] = value
    return made
