"""Lazy frames: what is to be done with few rows, recorded instead of done.

Analysing, optimising and planning are two thirds of a micro-batch of few rows, and its plan is nearly always the one of
the batch before. So few rows are handed out as a lazy frame: it has a DataFrame's methods and records the calls. When
its rows are wanted, the physical plan that was cached for the same calls runs over these rows (`plan_cache.py`).

What it cannot record is asked of the DataFrame it stands for (`made`), at that DataFrame's cost and in plain sight.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
from pyspark.sql.types import DataType, StructField, StructType

from godwit.engine.file_frame import FileFrame
from godwit.engine.frame import Frame
from godwit.engine.plan_cache import MOST, Leaf, Prepared, java_of, json_of, remembered
from godwit.engine.plan_company import PlanCompany

__all__ = ["Frame", "LazyFrame", "chosen", "joined", "made", "then", "together"]

Make = Callable[..., DataFrame]


class LazyFrame:
    """A DataFrame that is not built yet: rows, or one step over other lazy frames."""

    def __init__(
        self, spark: SparkSession, what: Hashable, make: Make | None, inputs: tuple[LazyFrame, ...], leaf: Leaf | None
    ) -> None:
        self.spark, self.what, self.make, self.inputs, self.leaf = spark, what, make, inputs, leaf
        #: lazy frames of the same calls have the same key
        self.key: Hashable = _key_of(what, tuple(draft.key for draft in inputs))
        self.leaves: dict[int, Leaf] = {} if leaf is None else {leaf.label: leaf}
        for draft in inputs:
            self.leaves |= draft.leaves

    @staticmethod
    def of(spark: SparkSession, table: pa.Table, schema: StructType) -> LazyFrame:
        """These rows."""
        return _rows(spark, Leaf(0, schema, table))

    @staticmethod
    def in_order(spark: SparkSession, table: pa.Table, schema: StructType) -> LazyFrame:
        """These rows, with their columns in order: whoever wrote them, the same plan runs over them."""
        wanted = _ordered(schema)
        return LazyFrame.of(spark, table.select(wanted.names), wanted)

    def in_company(self) -> LazyFrame:
        """These rows, which several shapes read: their plans run together (`plan_company.py`)."""
        assert self.leaf is not None
        return _rows(self.spark, replace(self.leaf, company=PlanCompany()))

    def then(self, what: Hashable, make: Make, *others: LazyFrame) -> LazyFrame:
        """One more step. `make` must do the same whenever `what` is the same."""
        inputs: tuple[LazyFrame, ...] = (self,)
        for other in others:
            inputs += (_apart(inputs, other),)
        return LazyFrame(self.spark, what, make, inputs, None)

    @property
    def rows(self) -> int:
        """How many there are to begin with."""
        return sum(leaf.table.num_rows for leaf in self.leaves.values())

    # --- asked like a DataFrame

    def selectExpr(self, *texts: str) -> LazyFrame:  # noqa: N802 - as Spark has it
        return self.then(("select", texts), lambda frame: frame.selectExpr(*texts))

    def select(self, *names: str) -> LazyFrame:
        if self.leaf is not None:  # rows at hand: nothing for Spark to do
            return _rows(
                self.spark, Leaf(self.leaf.label, chosen(self.leaf.schema, names), self.leaf.table.select(names))
            )
        return self.then(("columns", names), lambda frame: frame.select(*names))

    def where(self, condition: str) -> LazyFrame:
        return self.then(("where", condition), lambda frame: frame.where(condition))

    def drop(self, *names: str) -> LazyFrame:
        gone = [name for name in names if name in self.columns]
        if gone and self.leaf is not None:
            return self.select(*(name for name in self.columns if name not in gone))
        return self.then(("drop", *gone), lambda frame: frame.drop(*gone)) if gone else self

    def coalesce(self, partitions: int) -> LazyFrame:
        return self.then(("coalesce", partitions), lambda frame: frame.coalesce(partitions))

    def hint(self, name: str) -> LazyFrame:
        return self.then(("hint", name), lambda frame: frame.hint(name))

    @property
    def columns(self) -> list[str]:
        return self.schema.names

    @property
    def schema(self) -> StructType:
        return self.leaf.schema if self.leaf is not None else self._prepared().schema

    def toArrow(self) -> pa.Table:  # noqa: N802 - as Spark has it
        return self.leaf.table if self.leaf is not None else self._table

    @cached_property
    def _table(self) -> pa.Table:
        found = self._prepared().run(self.leaves)
        return self.frame.toArrow() if found is None else found

    def with_column(self, name: str, kind: DataType, values: Callable[[pa.Table], pa.Array]) -> LazyFrame:
        """The rows as they are now, with one more column that is made of them here, without Spark.

        For values that change from one micro-batch or epoch to the next: as a text they would make another plan.
        """
        table, schema = self.toArrow(), _and(json_of(self.schema), json_of(_field(name, kind)))
        column, wanted = values(table), to_arrow_type(kind)
        column = column if column.type == wanted else column.cast(wanted)
        return LazyFrame.in_order(self.spark, table.append_column(name, column).combine_chunks(), schema)

    def kept(self, keep: Callable[[pa.Table], pa.Array]) -> LazyFrame:
        """The rows for which it is true, chosen here; for conditions that change like the values above."""
        table = self.toArrow()
        return LazyFrame.of(self.spark, table.filter(keep(table)).combine_chunks(), self.schema)

    def now(self) -> LazyFrame:
        """The rows as they are now, made here. Between joins of joins: Spark takes the result of a join that it has not
        seen for more than one partition can hold, and a plan that shuffles needs a job."""
        return self if self.leaf is not None else LazyFrame.of(self.spark, self.toArrow().combine_chunks(), self.schema)

    def with_all(self, column: str, value: str) -> LazyFrame:
        """The rows that have this value, chosen here; itself, if all have."""
        same = pc.equal(self.toArrow().column(column), value)
        return self if pc.all(same, min_count=0).as_py() else self.kept(lambda rows: same)

    def times(self, other: LazyFrame) -> LazyFrame:
        """Every row with every row of another, made here."""
        mine, theirs = self.toArrow(), other.toArrow()
        numbers = np.arange(mine.num_rows * theirs.num_rows)
        table = mine.take(numbers // max(theirs.num_rows, 1))
        repeated = theirs.take(numbers % max(theirs.num_rows, 1))
        for field, column in zip(repeated.schema, repeated.columns, strict=True):
            table = table.append_column(field, column)
        return LazyFrame.of(self.spark, table.combine_chunks(), _and(json_of(self.schema), json_of(other.schema)))

    @cached_property
    def frame(self) -> DataFrame:
        """The DataFrame it stands for, over its rows."""
        if self.leaf is not None:
            return self.spark.createDataFrame(self.leaf.table, self.leaf.schema)
        assert self.make is not None
        return self.make(*(draft.frame for draft in self.inputs))

    def _prepared(self) -> Prepared:
        java = java_of(self.spark)

        def made_now() -> Prepared:
            if self.leaf is not None:
                return java.standing_for(self.leaf)
            assert self.make is not None
            inputs = [draft._prepared() for draft in self.inputs]
            labels = {rdd: label for one in inputs for rdd, label in one.stands_for.items()}
            return Prepared(java, self.make(*(one.frame for one in inputs)), labels)

        return java.plan(self.key, made_now)

    def relabelled(self, labels: dict[int, int]) -> LazyFrame:
        if self.leaf is not None:
            label = labels.get(self.leaf.label, self.leaf.label)
            return _rows(self.spark, Leaf(label, self.leaf.schema, self.leaf.table))
        return LazyFrame(
            self.spark, self.what, self.make, tuple(draft.relabelled(labels) for draft in self.inputs), None
        )


def then(what: Hashable, make: Make, first: Frame, *others: Frame) -> Frame:
    """`make` of these: one more step of a draft if all are drafts, else done at once."""
    if isinstance(first, LazyFrame) and all(isinstance(other, LazyFrame) for other in others):
        return first.then(what, make, *others)  # type: ignore[arg-type]
    return make(*map(made, (first, *others)))


def made(frame: Frame) -> DataFrame:
    """As a DataFrame, with which anything can be done."""
    return frame.frame if isinstance(frame, LazyFrame | FileFrame) else cast("DataFrame", frame)


def together(frames: Iterable[Frame]) -> Frame:
    """All rows of all of them; what one has no column for is NULL."""

    there = list(frames)
    if len(there) == 1:
        return there[0]
    if all(isinstance(frame, LazyFrame) for frame in there):
        return _put_together(there)  # type: ignore[arg-type]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), map(made, there))


def _put_together(frames: Sequence[LazyFrame]) -> LazyFrame:
    """Here, without Spark: a plan over all of them would be another one for each mixture of rows that may come."""
    schema = _all_of(tuple(json_of(frame.schema) for frame in frames))
    whole = pa.concat_tables([frame.toArrow() for frame in frames], promote_options="permissive")
    table = whole.select(schema.names).cast(_arrow_of(schema)).combine_chunks()
    return LazyFrame.of(frames[0].spark, table, schema)


def joined(left: Frame, right: Frame, condition: str, how: str = "inner") -> Frame:
    """The pairs for which the condition holds (or what else Spark's join of that name gives)."""
    what = ("join", condition) if how == "inner" else ("join", condition, how)
    return then(what, lambda one, other: one.join(other, F.expr(condition), how), left, right)


@remembered
def _ordered(schema: StructType) -> StructType:
    return StructType([StructField(f.name, f.dataType) for f in sorted(schema.fields, key=lambda f: f.name)])


@lru_cache(maxsize=MOST)
def _field(name: str, kind: DataType) -> StructType:
    return StructType([StructField(name, kind)])


@lru_cache(maxsize=MOST)
def _and(one: str, other: str) -> StructType:
    """The columns of two schemas; always the same object, of which other things are remembered."""
    return StructType([*_parsed(one).fields, *_parsed(other).fields])


@lru_cache(maxsize=MOST)
def _all_of(schemas: tuple[str, ...]) -> StructType:
    fields: dict[str, StructField] = {}
    for field in (field for schema in schemas for field in _parsed(schema).fields):
        fields.setdefault(field.name, StructField(field.name, field.dataType))
    return StructType(list(fields.values()))


@remembered
def _arrow_of(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, timezone="UTC")


def chosen(schema: StructType, names: Sequence[str]) -> StructType:
    """Some columns of a schema; always the same object."""
    return _some(json_of(schema), tuple(names))


@lru_cache(maxsize=MOST)
def _some(schema: str, names: tuple[str, ...]) -> StructType:
    return StructType([_parsed(schema)[name] for name in names])


def _parsed(schema: str) -> StructType:
    return StructType.fromJson(json.loads(schema))


@dataclass(frozen=True, eq=False, slots=True)
class PlanKey:
    """Stands for the same calls over the same columns. It is looked up several times in each step of a micro-batch, so
    it is compared as an object, not by its contents."""

    what: Hashable
    inputs: tuple[Hashable, ...]


@lru_cache(maxsize=4 * MOST)
def _key_of(what: Hashable, inputs: tuple[Hashable, ...]) -> PlanKey:
    return PlanKey(what, inputs)


def _rows(spark: SparkSession, leaf: Leaf) -> LazyFrame:
    return LazyFrame(spark, ("rows", leaf.columns, leaf.label), None, (), leaf)


def _apart(before: tuple[LazyFrame, ...], other: LazyFrame) -> LazyFrame:
    """Different rows of one draft have different labels."""
    known = {label: leaf for draft in before for label, leaf in draft.leaves.items()}
    clash = [n for n, leaf in other.leaves.items() if n in known and known[n].table is not leaf.table]
    free = max((*known, *other.leaves)) + 1
    return other.relabelled({n: free + k for k, n in enumerate(clash)}) if clash else other
