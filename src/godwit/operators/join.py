"""Join: pairs of rows with equal keys within a time band."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from godwit.engine.lazy_frame import Frame, LazyFrame, joined
from godwit.model.plan import CLASS, DEVICE, GENERATION, MEETING, QUERY, Join, Operator, Shape
from godwit.model.signature import StateKey, filled

Side = Literal["left", "right"]
#: what `MEETING` says of rows: the number of those that they meet, or whether they are new (1) or old (0)
Told = Literal["same", "one is new"]
_MEET: dict[Told, str] = {"same": f"{MEETING} = __m", "one is new": f"{MEETING} + __m > 0"}
#: columns that end with the join
ENDING = (DEVICE, GENERATION, MEETING, CLASS)


def pairs(
    left: Frame,
    right: Frame,
    operator: Join,
    *,
    one_query: bool = False,
    told: Told | None = None,
    hashed: Side | None = None,
) -> Frame:
    """All pairs of a left and a right row that belong together, of the same query and generation.

    `one_query`: all rows are of one query. Equality of generations is written so that Spark does not hash by it: nearly
    all rows have the same, and a join by one number is much faster than one by several columns. `told`: rows meet
    those only of which that holds. `hashed`: rows are few; they are joined in one task that hashes this side. All is
    written as SQL, in few steps: Column objects cost a round trip to Java each, and every step is analysed.
    """
    kept = [f"`{name}`" for name in (*left.columns, *right.columns) if name not in ENDING]
    mine = [f"`{name}`" for name in right.columns if name not in (QUERY, *ENDING)]
    renamed = [f"{QUERY} AS __q", f"{GENERATION} AS __g", *([f"{MEETING} AS __m"] if told else [])]
    if CLASS in right.columns:
        renamed.append(f"{CLASS} AS __c")
    classes = ["coalesce(__c, 0L)" if CLASS in right.columns else "0L"]
    classes += [f"coalesce({CLASS}, 0L)" if CLASS in left.columns else "0L"]
    # A pair is as old as the older of the two: who began later does not see it.
    kept += [f"least({', '.join(classes)}) AS {CLASS}"] if classes != ["0L", "0L"] else []
    if hashed is not None:
        left, right = left.coalesce(1), right.coalesce(1)
    theirs = right.selectExpr(*mine, *renamed)
    # Of one partition each: nothing is shuffled, and nothing broadcast.
    ours = left.hint("shuffle_hash") if hashed == "left" else left
    theirs = theirs.hint("shuffle_hash") if hashed == "right" else theirs
    met = [_MEET[told]] if told else []
    return joined(ours, theirs, " AND ".join([*_conditions(operator, one_query), *met])).selectExpr(
        *dict.fromkeys(kept)
    )


def chosen(
    rows: Frame,
    others: Frame,
    operator: Join,
    side: int,
    having: bool,
    *,
    one_query: bool = False,
    hashed: bool = False,
) -> Frame:
    """Those of a side's rows that have a partner among the others, or those that have none. `rows` has the columns that
    the residual reads. `hashed`: they are few, and joined in one task."""
    names = rows.columns
    mine = [f"`{name}`" for name in others.columns if name not in (QUERY, *ENDING)]
    theirs = others.selectExpr(*mine, f"{QUERY} AS __q", f"{GENERATION} AS __g")
    if hashed:
        rows, theirs = rows.coalesce(1), theirs.coalesce(1).hint("shuffle_hash")
    rest = [f"({operator.residual})"] if operator.residual else []
    condition = " AND ".join([*_conditions(operator, one_query), *rest])
    found = joined(rows, theirs, condition, "left_semi" if having else "left_anti")
    return found.selectExpr(*(f"`{name}`" for name in names))


def _conditions(operator: Join, one_query: bool) -> list[str]:
    apart = f"unix_micros(`{operator.right_time}`) - unix_micros(`{operator.left_time}`)"
    return [
        f"{GENERATION} - __g = 0",
        *([] if one_query else [f"{QUERY} = __q"]),
        *(f"{mine} = {other}" for mine, other in operator.keys),
        f"{apart} >= {operator.lower_us}",
        f"{apart} <= {operator.upper_us}",
    ]


def computed(left: Frame, right: Frame, operator: Operator, literals: Sequence[str]) -> Frame:
    """All that a join makes of the rows of two states, of one query, with the values of its parameters."""
    assert isinstance(operator, Join)
    few = isinstance(left, LazyFrame) and isinstance(right, LazyFrame)
    found = pairs(left, right, operator, one_query=True, hashed="right" if few else None)
    return found if operator.residual is None else found.where(filled(operator.residual, literals))


def join_that_keeps(shape: Shape, state: StateKey) -> Join:
    """The operator of a shape whose state it is."""
    found = shape.plan.operators[shape.signatures.index(state.signature)]
    assert isinstance(found, Join)
    return found


def still_needed(rows: Frame, operator: Operator, side: int, clock: int) -> Frame:
    """Rows of one side that may still find a partner when the watermark stands there."""
    assert isinstance(operator, Join)
    return rows.where(f"unix_micros(`{operator.state[side].time}`) >= {clock - operator.stays_us[side] - 1}")
