"""The best rows of each key among all there ever were, put out as changes: a better row moves the others down.

State is a log of rows: of a micro-batch those are appended that are among the best of their key. The best of each key
are read, ranked with the new ones, and what has another row in its place now is put out. Rows that others have moved
out go when segments are compacted. Every appended row carries how many rows its key had by then, as far as they were
counted (not those of a micro-batch none of whose rows is among the best): the row that came last has changed the key
last, so it is still among the best, and the count never goes back. Nor does it when the key goes to an owner that got
the same rows in fewer micro-batches: of these it has counted no less.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from godwit.engine import lazy_frame as drafts
from godwit.engine import segments
from godwit.engine.lazy_frame import Frame, LazyFrame
from godwit.model.plan import DELETED, GENERATION, QUERY, VERSION
from godwit.model.ranking import TopRows
from godwit.operators.base import OperatorContext, StatefulOperator, implements
from godwit.operators.key_index import INDEXES
from godwit.operators.lookup import of_keys
from godwit.protocol.watermarks import NEVER
from godwit.region.state import State, union
from godwit.storage.log import Segment

#: whether a row came with this micro-batch
FRESH = "__fresh"
#: how many rows of its key were counted, and the latest time of them, when a row was appended
SEEN, LATEST = "__seen", "__latest"
#: a row's place before this micro-batch
BEFORE = "__before"


@implements(TopRows)
class BestRows(StatefulOperator):
    """Keeps the first rows of every key, for ever."""

    def __init__(self, node: TopRows) -> None:
        self.node = node
        self._columns = [f"`{name}`" for name in (QUERY, *node.columns, GENERATION)]

    def step(self, context: OperatorContext, inputs: Sequence[Frame | None]) -> Frame | None:
        state = context.state()
        rows = None if inputs[0] is None else inputs[0].selectExpr(*self._columns)
        fresh = State(context.admit(0, rows, {}))
        for arrived in context.arrivals():
            self._take_in(context, [segment for part in arrived.parts.values() for segment in part], state)
        made = self._changes(context, fresh, state) if fresh.live else None
        context.hand_over()
        context.advance()
        node = self.node
        context.tidy(0, NEVER, lambda frame: drafts.then(("best", node), lambda some: best(some, node), frame))
        return made

    def _take_in(self, context: OperatorContext, came: list[Segment], state: State) -> None:
        """State that came. Rows that were sent to both are not counted yet; what comes of them the source has told."""
        counted = [SEEN in segments.struct(segment.schema).fieldNames() for segment in came]
        state.live += [segment for segment, known in zip(came, counted, strict=True) if known]
        copies = State([segment for segment, known in zip(came, counted, strict=True) if not known])
        if copies.live:
            self._changes(context, copies, state)

    def _changes(self, context: OperatorContext, fresh: State, state: State) -> Frame:
        """What has another row in its place now; the new rows among the best become state."""
        node = self.node
        new = fresh.read(context.spark, sizes=context.sizes)
        assert new is not None
        old = of_keys(context, state, new, node.keys, INDEXES)
        few = isinstance(new, LazyFrame) and (old is None or isinstance(old, LazyFrame))
        context.makes_few(few)
        unseen = f"CAST(NULL AS bigint) AS {SEEN}", f"CAST(NULL AS timestamp) AS {LATEST}"
        rows = union(
            [
                new.selectExpr(*self._columns, *unseen, f"true AS {FRESH}"),
                None if old is None else old.selectExpr(*self._columns, SEEN, LATEST, f"false AS {FRESH}"),
            ]
        )
        assert rows is not None
        rows = context.tables.of_queries(rows.coalesce(1) if few else rows)
        found = drafts.then(("top", node), lambda frame: ranked(frame, node), rows)
        if few:  # once, for both that read it
            schema = segments.struct(segments.schema_of(found))
            found = LazyFrame.of(context.spark, found.toArrow().combine_chunks(), schema).coalesce(1)
        appended = found.where(FRESH).selectExpr(*self._columns, SEEN, LATEST)
        state.append(context.write(appended, "top", 0, few))
        moved = found.where(f"{FRESH} OR {BEFORE} <> `{node.place}`")
        version = f"named_struct('at', {LATEST}, 'n', {SEEN}) AS {VERSION}"
        columns = (f"`{name}`" for name in (*node.columns, node.place))
        return moved.selectExpr(QUERY, *columns, version, f"false AS {DELETED}")


def ranked(rows: DataFrame, node: TopRows) -> DataFrame:
    """The best rows of each key with their places now and before, and how many rows were counted now. Whatever their
    generations: those of a key that are here belong together."""
    of_key = f"PARTITION BY {_keys(node)}"
    order = ", ".join(node.order)
    placed = rows.selectExpr(
        "*",
        # An old row stands before a new one that is its equal: nothing moves then.
        f"row_number() OVER ({of_key} ORDER BY {order}, {FRESH}) AS `{node.place}`",
        f"row_number() OVER ({of_key} ORDER BY {FRESH}, {order}) AS {BEFORE}",
        f"coalesce(max({SEEN}) OVER ({of_key}), 0L) + count_if({FRESH}) OVER ({of_key}) AS __now",
        f"greatest(max({LATEST}) OVER ({of_key}), max(`{node.time}`) OVER ({of_key})) AS __at",
    ).where(f"`{node.place}` <= {node.limit}")
    columns = [f"`{name}`" for name in (QUERY, *node.columns, GENERATION, FRESH, node.place, BEFORE)]
    return placed.selectExpr(*columns, f"__now AS {SEEN}", f"__at AS {LATEST}")


def best(rows: DataFrame, node: TopRows) -> DataFrame:
    """What is kept when segments are rewritten."""
    place = f"row_number() OVER (PARTITION BY {_keys(node, GENERATION)} ORDER BY {', '.join(node.order)}) AS __place"
    return rows.selectExpr("*", place).where(f"__place <= {node.limit}").drop("__place")


def _keys(node: TopRows, *more: str) -> str:
    return ", ".join([QUERY, *(f"`{key}`" for key in node.keys), *more])
