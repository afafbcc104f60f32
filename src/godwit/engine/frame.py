"""Frames: the rows of a step, and what may be done with them. Two engines have one interface.

    DataFrame    rows in files; what is asked for becomes a job of Spark's
    LazyFrame    rows at hand; what is asked for is recorded, and runs as a cached, directly executed plan

Nothing outside this interface works on both. What needs more than these methods is a function over DataFrames:

    then(what, make, frame, ...)     one step more; `make` must do the same whenever `what` is the same
    together(frames)                 all rows of all
    joined(left, right, condition)   pairs
    made(frame)                      as a DataFrame, at that DataFrame's cost

These stand beside the engine that treats them differently (`lazy_frame.py`). Which engine rows get is decided by
`size_policy.py` when they are read (`segments.read`).
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa
from pyspark.sql.types import StructType


class Frame(Protocol):
    """As Spark names them. Expressions are SQL texts: Column objects cost a round trip to Java each."""

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""

    @property
    def schema(self) -> StructType:
        """Names and types."""

    def select(self, *names: str) -> Frame:
        """Some of the columns."""

    def selectExpr(self, *texts: str) -> Frame:  # noqa: N802 - as Spark has it
        """Expressions over the columns."""

    def where(self, condition: str) -> Frame:
        """The rows for which the condition holds."""

    def drop(self, *names: str) -> Frame:
        """All columns but these."""

    def coalesce(self, partitions: int) -> Frame:
        """In at most this number of partitions."""

    def hint(self, name: str) -> Frame:
        """Told to Spark's planner."""

    def toArrow(self) -> pa.Table:  # noqa: N802 - as Spark has it
        """The rows, computed."""
