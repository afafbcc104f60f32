"""The as-of join: each row of the left with the newest row of the right that is not newer, by event time.

Rows of the left wait (side 0) until the watermark has passed them; then no row of the right that would be their partner
can come any more. Of the right (side 1) the rows since then stay, and of each key the newest one before; compaction
leaves out the rest. Both sides are put in one order, and a row's partner is the last of the right before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from godwit.engine import lazy_frame as drafts
from godwit.engine.lazy_frame import Frame, LazyFrame
from godwit.model.joins import AsofJoin
from godwit.model.plan import GENERATION, QUERY
from godwit.operators.base import OperatorContext, StatefulOperator, Watermarks, implements
from godwit.operators.due import behind, clocks_of, due_rows, unanswered
from godwit.operators.lookup import of_keys
from godwit.protocol.watermarks import NEVER
from godwit.region.state import State, union

LEFT, RIGHT = 0, 1
_SIDE, _AT, _MINE, _THEIRS, _TIES = "__side", "__at", "__mine", "__theirs", "__ties"
#: compaction goes by whole steps of this length (microseconds), so that not each makes a plan of its own
STEP_US = 10_000_000


@implements(AsofJoin)
class NewestBefore(StatefulOperator):
    def __init__(self, node: AsofJoin) -> None:
        self.node = node

    def step(self, context: OperatorContext, inputs: Sequence[Frame | None]) -> Frame | None:
        node, released = self.node, context.released()
        bounds = [behind(released, lag) for lag in (node.left_lag_us, node.right_lag_us)]
        since = [{q: bound for q, bound in side.items() if bound > NEVER} for side in bounds]
        if node.deleted is not None:
            since[RIGHT] = {}  # a version of a table's row is never too late: it holds for the rows that follow
        for side, rows in enumerate(inputs):
            mine = None if rows is None else context.tables.without_parameters(rows)
            context.state(side).live += context.admit(side, mine, since[side], linked=side == LEFT)
        arrivals = context.arrivals()
        for arrived in arrivals:
            for side, part in arrived.everything.items():
                context.state(side).live += part
        came = State([segment for arrived in arrivals for segment in arrived.everything.get(LEFT, ())])
        passed = self._answered(context, came, *clocks_of(context, arrivals))
        context.hand_over()
        before, now = context.advance()
        made = self._answered(context, context.state(LEFT), before, now)
        self._tidy(context, behind(now, node.wait_us))
        if passed is not None:
            made = union([passed, made])
            context.makes_few(isinstance(made, LazyFrame))
        return made

    def _answered(self, context: OperatorContext, rows: State, before: Watermarks, now: Watermarks) -> Frame | None:
        """Rows of the left that the watermark has passed: in one go, or behind the rows' last owner."""
        node, (closed, closing) = self.node, (behind(clock, self.node.wait_us) for clock in (before, now))
        due = due_rows(context, rows, node.left_time, closed, closing)
        due = unanswered(context, LEFT, due, node.wait_us)
        return None if due is None else self._with_partners(context, due)

    def _with_partners(self, context: OperatorContext, due: Frame) -> Frame | None:
        due, right = context.tables.of_queries(due), context.state(RIGHT)
        if not isinstance(due, LazyFrame) and right.live and context.sizes.is_small(right.rows):
            partners = right.read(context.spark, sizes=context.sizes)
            assert partners is not None
            node = self.node
            partners = context.tables.of_queries(partners)
            versions = drafts.then(("versions", node), lambda rows: until_the_next(rows, node), partners)
            if isinstance(versions, LazyFrame):  # few: put in order here, not by a job before each join
                versions = LazyFrame.of(context.spark, versions.toArrow().combine_chunks(), versions.schema)
            context.makes_few(False)
            return self._told(context, looked_up(due, drafts.made(versions), node, context.tables.only is not None))
        return self._in_one_order(context, due)

    def _in_one_order(self, context: OperatorContext, due: Frame) -> Frame | None:
        node = self.node
        partners = of_keys(context, context.state(RIGHT), self._wanted(context, due), [b for _, b in node.keys])
        if partners is None and not node.outer:
            return None
        rows = due.selectExpr(*_common(node, LEFT))
        few = isinstance(due, LazyFrame) and (partners is None or isinstance(partners, LazyFrame))
        if partners is not None:
            both = union([rows, context.tables.of_queries(partners).selectExpr(*_common(node, RIGHT))])
            assert both is not None
            rows = both.coalesce(1) if few else both
        context.makes_few(few)
        alone = partners is None
        return self._told(context, drafts.then(("asof", node, alone), lambda frame: newest(frame, node, alone), rows))

    def _told(self, context: OperatorContext, found: Frame) -> Frame:
        node = self.node
        if node.residual is not None:
            found = context.tables.with_parameters(found, node.residual)
        holds = f"({node.residual})" if node.residual else "true"
        told = drafts.then(("asof told", node), lambda frame: _told(frame, node, holds), found)
        return context.tables.without_parameters(told)

    def _wanted(self, context: OperatorContext, due: Frame) -> Frame:
        """The keys of these rows, called as on the right."""
        names = [(QUERY, QUERY), *self.node.keys]
        if not isinstance(due, LazyFrame):
            return due.selectExpr(*(f"`{mine}` AS `{theirs}`" for mine, theirs in names))
        table = due.toArrow().select([mine for mine, _ in names]).rename_columns([theirs for _, theirs in names])
        kinds = {field.name: field.dataType for field in due.schema.fields}
        schema = StructType([StructField(theirs, kinds[mine]) for mine, theirs in names])
        return LazyFrame.of(context.spark, table.combine_chunks(), schema)

    def _tidy(self, context: OperatorContext, closing: Watermarks) -> None:
        node, answered = self.node, context.dead_before(closing)
        context.tidy(LEFT, answered - 1)
        passed = answered // STEP_US * STEP_US if abs(answered) < -NEVER else answered
        dead = answered - node.keep_us - 1 if node.keep_us and abs(answered) < -NEVER else NEVER
        context.tidy(
            RIGHT, dead, lambda frame: drafts.then(("newest", node, passed), lambda f: _kept(f, node, passed), frame)
        )


def _common(node: AsofJoin, side: int) -> list[str]:
    """Both sides' rows in the same columns."""
    keys = [f"`{pair[side]}` AS __k{n}" for n, pair in enumerate(node.keys)]
    columns, time, name = (node.left, node.left_time, _MINE) if side == LEFT else (node.right, node.right_time, _THEIRS)
    row = f"struct({', '.join(f'`{column.name}`' for column in columns)}) AS {name}"
    ties = [f"struct({', '.join(f'`{tie}`' for tie in node.ties)}) AS {_TIES}"] if side == RIGHT else []
    # Of rows of one time, those of the right come first; unless a partner must be older.
    place = (1 if node.strict else 2) if side == LEFT else (2 if node.strict else 1)
    return [QUERY, *keys, f"`{time}` AS {_AT}", f"{place} AS {_SIDE}", row, *ties]


def newest(rows: DataFrame, node: AsofJoin, alone: bool) -> DataFrame:
    """The left's rows with the columns of their partner, and whether it is one (`__has`). `alone`: there is none."""
    mine = [f"{_MINE}.`{c.name}` AS `{c.name}`" for c in node.left]
    if alone:
        nothing = [f"CAST(NULL AS {c.type}) AS `{c.name}`" for c in node.right]
        return rows.selectExpr(QUERY, *mine, *nothing, "false AS __has")
    keys = [f"__k{n}" for n in range(len(node.keys))]
    order = f"PARTITION BY {', '.join([QUERY, *keys])} ORDER BY {_AT}, {_SIDE}, {_TIES}"
    last = f"OVER ({order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    place = 1 if node.strict else 2
    found = rows.selectExpr(
        "*",
        f"last({_THEIRS}, true) {last} AS __partner",
        f"last(CASE WHEN {_SIDE} <> {place} THEN {_AT} END, true) {last} AS __when",
    ).where(f"{_SIDE} = {place}")
    has = ["__partner IS NOT NULL", *(f"{key} IS NOT NULL" for key in keys), *_holds(node, "__partner.", "__when", _AT)]
    theirs = [f"__partner.`{c.name}` AS `{c.name}`" for c in node.right]
    return found.selectExpr(QUERY, *mine, *theirs, f"{' AND '.join(has)} AS __has")


def _holds(node: AsofJoin, partner: str, since: str, at: str) -> list[str]:
    """What makes the newest row a partner."""
    deleted = [] if node.deleted is None else [f"NOT {partner}`{node.deleted}`"]
    return [*deleted, *([f"unix_micros({at}) - unix_micros({since}) <= {node.keep_us}"] if node.keep_us else [])]


def until_the_next(right: DataFrame, node: AsofJoin) -> DataFrame:
    """Few rows of the right, each with its key (`__r0`, ..) and since when and until when it is the newest."""
    keys = [f"`{b}`" for _, b in node.keys]
    order = ", ".join([f"`{node.right_time}`", *(f"`{tie}`" for tie in node.ties)])
    until = f"lead(`{node.right_time}`) OVER (PARTITION BY {', '.join([QUERY, *keys])} ORDER BY {order}) AS __until"
    columns = [
        f"{QUERY} AS __q",
        *(f"{key} AS __r{n}" for n, key in enumerate(keys)),
        *(f"`{c.name}`" for c in node.right),
    ]
    made = right.coalesce(1).selectExpr(*columns, f"`{node.right_time}` AS __since", until)
    return made.where("__until IS NULL OR __until > __since")


def looked_up(due: Frame, versions: DataFrame, node: AsofJoin, alone: bool = False) -> DataFrame:
    """As `newest`, of many rows on the left and few on the right: those are looked up, and nothing is sorted. `alone`:
    all are of one query, whose name need not be compared (a key that is one number is looked up faster)."""
    at = f"`{node.left_time}`"
    after, before = (">", "<=") if node.strict else (">=", "<")
    keys = [f"`{mine}` = __r{n}" for n, (mine, _) in enumerate(node.keys)]
    same = [] if alone else [f"{QUERY} = __q"]
    on = [*same, *keys, f"{at} {after} __since", f"(__until IS NULL OR {at} {before} __until)"]
    found = drafts.made(due).join(F.broadcast(versions), F.expr(" AND ".join(on)), "left" if node.outer else "inner")
    has = ["__since IS NOT NULL", *_holds(node, "", "__since", at)]
    columns = [f"`{c.name}`" for c in (*node.left, *node.right)]
    return found.selectExpr(QUERY, *columns, f"{' AND '.join(has)} AS __has")


def _told(rows: DataFrame, node: AsofJoin, holds: str) -> DataFrame:
    both = f"__has AND coalesce({holds}, false)"
    if not node.outer:
        return rows.where(both).drop("__has")
    names = {c.name for c in node.right}
    columns = [f"CASE WHEN {both} THEN `{c}` END AS `{c}`" if c in names else f"`{c}`" for c in rows.columns]
    return rows.selectExpr(*(c for c in columns if c != "`__has`"))


def _kept(rows: DataFrame, node: AsofJoin, passed: int) -> DataFrame:
    """What may still be somebody's partner: rows since `passed`, and of each key the newest before."""
    keys = [QUERY, GENERATION, *(f"`{b}`" for _, b in node.keys)]
    before = f"unix_micros(`{node.right_time}`) < {passed}"
    order = ", ".join(f"`{name}` DESC" for name in (node.right_time, *node.ties))
    place = F.expr(f"row_number() OVER (PARTITION BY {', '.join(keys)}, {before} ORDER BY {order})")
    return rows.withColumn("__place", place).where(f"__place = 1 OR NOT ({before})").drop("__place")
