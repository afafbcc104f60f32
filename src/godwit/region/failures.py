"""One bad query must not stop the others: which query makes a micro-batch fail.

An expression may raise for a certain row (`element_at(x, 0)`, a pattern that is none). All queries of a shape share a
micro-batch, so it fails for all of them. Then it is run again with some of them, without a commit, until it is known
who fails on his own; these are stopped, here and, by the commit that says so, in all regions, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from godwit.ids import QueryId

#: what Spark raises where an expression, a type or a pattern is at fault; and, now and then, where a disk is
SPARK_ERRORS = (PySparkException, Py4JError)
#: what its client raises when Java has gone, at first and from then on
JAVA_ENDED = (Py4JNetworkError, ConnectionRefusedError)
GONE = (
    "Spark's Java has ended: killed, perhaps by the system for want of memory. Open the fleet again, in a new process "
    "and with more memory if it needs it (spark_session(memory=..)); nothing that was committed is lost"
)
#: conditions, or words, of errors that are no query's fault
NOBODYS = (
    "FAILED_READ_FILE",
    "java.lang.OutOfMemoryError",
    "No space left on device",
    "SparkContext was shut down",
    "stopped SparkContext",
)
REMEDY = "withdraw it, correct it and submit it again"


class BatchFailedError(Exception):
    """Spark refused to run a micro-batch of these queries."""

    def __init__(self, fault: Exception, queries: Sequence[QueryId], epoch: int) -> None:
        super().__init__(str(fault))
        self.fault, self.queries, self.epoch = fault, tuple(queries), epoch


def blame(queries: Sequence[QueryId], fails: Callable[[Sequence[QueryId]], str | None]) -> dict[QueryId, str]:
    """The queries that fail on their own, with the reasons. `fails`: why some of them, run alone, fail; None: they do
    not."""
    if not queries or (reason := fails(queries)) is None:
        return {}
    if len(queries) == 1:
        return {queries[0]: reason}
    half = len(queries) // 2
    return blame(queries[:half], fails) | blame(queries[half:], fails)


def reason(fault: Exception) -> str | None:
    """What the query's user should read of an error; None: it is no query's fault."""
    text = str(fault)
    if any(word in text for word in NOBODYS):
        return None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = next((line for line in lines if "[" in line and "]" in line), lines[0] if lines else type(fault).__name__)
    return f"{told[:500]} ({REMEDY})"
