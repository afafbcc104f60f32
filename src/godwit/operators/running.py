"""The running aggregate: one total per key, put out whenever rows of the key come in.

State is a log of partials, as for windows: a micro-batch appends its own, and reads those of the keys it touches to
make their new totals. Partials of one key become one when segments are compacted. Where keys are kept for a while only,
partials whose intervals touch belong together (sessions), and a key's total is that of its newest session.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from godwit.engine import lazy_frame as drafts
from godwit.engine.lazy_frame import Frame, LazyFrame
from godwit.model.plan import DELETED, GENERATION, QUERY, VERSION, WINDOW_END, WINDOW_START
from godwit.model.running import RunningAggregate
from godwit.operators.aggregate import ISLAND, islands, united
from godwit.operators.aggregates import final_columns, merge_columns, partial_names
from godwit.operators.base import OperatorContext, StatefulOperator, Watermarks, implements
from godwit.operators.key_index import INDEXES
from godwit.operators.lookup import of_keys
from godwit.protocol.watermarks import NEVER
from godwit.region.state import State, union

#: whether a partial came with this micro-batch
FRESH = "__fresh"
#: the totals without what is fresh
OLD = "__old_"


@implements(RunningAggregate)
class RunningTotals(StatefulOperator):
    """Keeps the partials of every key, for ever or until it has had no rows for long enough."""

    def __init__(self, node: RunningAggregate) -> None:
        self.node = node
        self._ends = node.window.kind == "session"
        #: results of windows before they are final: the key's totals are told apart by window, and go when it closes
        self._windows = node.window.kind not in ("session", "unbounded")

    def step(self, context: OperatorContext, inputs: Sequence[Frame | None]) -> Frame | None:
        state = context.state()
        past = 1 if self._windows else 0  # (a window that ends just when the watermark stands is closed)
        since = {q: clock - self.node.lag_us + past for q, clock in context.released().items() if clock > NEVER}
        fresh = State(context.admit(0, inputs[0], since))
        for arrived in context.arrivals():
            state.live += [segment for part in arrived.parts.values() for segment in part]
        made = self._totals(context, fresh, state) if fresh.live else None
        state.live += fresh.live
        context.hand_over()
        _, now = context.advance()
        self._tidy(context, now)
        return made

    def _totals(self, context: OperatorContext, fresh: State, state: State) -> Frame | None:
        """The new totals of the keys of fresh rows."""
        new = fresh.read(context.spark, sizes=context.sizes)
        assert new is not None
        old = of_keys(context, state, new, self.node.keys, INDEXES)
        few = isinstance(new, LazyFrame) and (old is None or isinstance(old, LazyFrame))
        context.makes_few(context.few)
        rows = union(
            [new.selectExpr("*", f"true AS {FRESH}"), None if old is None else old.selectExpr("*", f"false AS {FRESH}")]
        )
        assert rows is not None
        node = self.node
        rows = context.tables.of_queries(rows.coalesce(1) if few else rows)
        found = drafts.then(("totals", node), lambda frame: totals(frame, node), rows)
        if node.having is None:
            return found.selectExpr("*", f"false AS {DELETED}")
        return self._having(context, found, node.having)

    def _having(self, context: OperatorContext, found: Frame, having: str) -> Frame:
        """A key for which the condition no longer holds loses its row: said once, where it is known that it had one."""
        had = f"{OLD}{self.node.count} > 0 AND coalesce({_of_old(having, self.node)}, false)"
        holds = f"coalesce({having}, false)"
        tables = context.tables
        told = tables.with_parameters(found, having).selectExpr("*", f"NOT {holds} AS {DELETED}")
        if not self._ends:
            # (of two sessions that become one, it is not known which of them had the key's row)
            told = told.where(f"NOT {DELETED} OR ({had})")
        return tables.without_parameters(told).drop(*(f"{OLD}{call.name}" for call in self.node.aggregates))

    def _tidy(self, context: OperatorContext, now: Watermarks) -> None:
        """Partials of one key, of one generation, become one; sessions that nothing can join any more go."""
        node = self.node
        dead = context.dead_before(now) - node.lag_us - (1 if self._ends else 0)
        dead = dead if self._ends or self._windows else NEVER
        # (Rounded, so that not every compaction makes a new plan.)
        ended = dead // node.window.gap_us * node.window.gap_us if self._ends else NEVER

        def merge(rows: DataFrame) -> DataFrame:
            by = [QUERY, *node.keys, GENERATION]
            if self._ends:
                rows, by = islands(rows.where(f"unix_micros({WINDOW_END}) > {ended}"), by), [*by, ISLAND]
            merged = _put_together(rows, by, merge_columns(node.aggregates), node)
            partials = [name for call in node.aggregates for name in partial_names(call)]
            return merged.select(QUERY, *node.keys, WINDOW_START, WINDOW_END, *partials, GENERATION)

        context.tidy(0, dead, lambda frame: drafts.then(("merged totals", node, ended), merge, frame))


def totals(rows: DataFrame, node: RunningAggregate) -> DataFrame:
    """(query, keys, bounds, one column an aggregate, version) of the keys (in sessions: of the sessions) with fresh
    partials; where there is a condition on them, also what each aggregate was before.

    Whatever their generations: rows that are let in belong to all the state of their key that is here (`dual`).
    """
    by = [QUERY, *node.keys]
    if node.window.kind == "session":
        rows, by = islands(rows, by), [*by, ISLAND]
    columns = [F.bool_or(FRESH).alias(FRESH), *merge_columns(node.aggregates)]
    before = [] if node.having is None else merge_columns(node.aggregates, f"NOT {FRESH}", OLD)
    merged = _put_together(rows, by, [*columns, *before], node).where(FRESH)
    finals = final_columns(node.aggregates) + ([] if node.having is None else final_columns(node.aggregates, OLD))
    version = F.struct(F.col(WINDOW_END).alias("at"), F.col(f"{node.count}__0").alias("n"))
    return merged.select(QUERY, *node.keys, WINDOW_START, WINDOW_END, *finals, version.alias(VERSION))


def _put_together(rows: DataFrame, by: list[str], columns: list[Column], node: RunningAggregate) -> DataFrame:
    """One row for equal `by`, and in windows for each of them."""
    if node.window.kind in ("session", "unbounded"):
        return united(rows, by, columns)
    return rows.groupBy(*by, WINDOW_START, WINDOW_END).agg(*columns)


def _of_old(having: str, node: RunningAggregate) -> str:
    """The condition on what the aggregates were before."""
    for call in node.aggregates:
        having = re.sub(rf"\b{call.name}\b", f"{OLD}{call.name}", having)
    return having
