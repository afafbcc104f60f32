"""What a query must have answered: computed at once, by brute force, over everything its sources sent it.

Deliberately not the simulator's operators: loops over all rows, as one would write the answer down by hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from godwit.model.joins import AsofJoin, OuterJoin
from godwit.model.plan import Aggregate, Filter, Join, Plan, Query, Sink, Window
from godwit.sim.over import SimOver, SimRanked
from godwit.sim.running import SimRunning
from godwit.sim.schedule import Reading
from godwit.sim.top import SimTop

Answer = Counter[tuple[Any, ...]]


def answer(query: Query, scans: Mapping[int, Sequence[Reading]]) -> Answer:
    """The results of a query over the readings of each of its scans."""
    plan = query.shape.plan
    over = int(query.parameters[0])
    if any(isinstance(op, SimRunning) for op in plan.operators):
        return _running([row for i, _ in plan.scans for row in scans[i] if row[2] > over])
    alone = next((op for op in plan.operators if isinstance(op, SimOver | SimRanked | SimTop)), None)
    if alone is not None:
        rows = [row for i, _ in plan.scans for row in scans[i] if row[2] > over]
        match alone:
            case SimOver(ahead=ahead):
                return _over(rows, ahead)
            case SimRanked():
                return _ranks(rows)
            case SimTop(limit=limit):
                return _top(rows, limit)
    outer = next((op for op in plan.operators if isinstance(op, OuterJoin | AsofJoin)), None)
    aggregate = next((op for op in plan.operators if isinstance(op, Aggregate)), None)
    if outer is not None:
        first, second = (scans[i] for i, _ in plan.scans)
        first = [row for row in first if row[2] > over]
        if isinstance(outer, AsofJoin):
            return _asof(first, second)
        if aggregate is None:
            return _outer(outer, first, second)
        return _windows([a for a in first for _ in range(max(1, len(_near(outer, a, second))))], aggregate.window)
    joins = [op for op in plan.operators if isinstance(op, Join)]
    if len(joins) == 2:
        return _chain(_wanted(plan, scans, over), joins[0].upper_us, aggregate)
    if joins:
        first, second = _wanted(plan, scans, over)
        pairs = [(a, b) for a in first for b in second if a[1] == b[1] and abs(b[0] - a[0]) <= joins[0].upper_us]
        if aggregate is None:
            return Counter((a[0], a[2], b[0], b[2]) for a, b in pairs)
        return _windows([(a[0], a[1], b[2]) for a, b in pairs], aggregate.window)
    assert isinstance(plan.operators[-1], Sink)
    rows = [row for i, _ in plan.scans for row in scans[i] if row[2] > over]
    if aggregate is None:
        return Counter(rows)
    upper = [op.window for op in plan.operators if isinstance(op, Aggregate)][1:]
    if upper:
        below = _windows(rows, aggregate.window)
        return _windows([(end, key, total) for key, end, _, total in below], upper[0])
    return _sessions(rows, aggregate.window.gap_us) if aggregate.window.gap_us else _windows(rows, aggregate.window)


def _wanted(plan: Plan, scans: Mapping[int, Sequence[Reading]], over: int) -> list[Sequence[Reading]]:
    """The readings of each scan; of the one that a filter names, those that it lets through."""
    named = {op.predicate.partition("__")[0] for op in plan.operators if isinstance(op, Filter)}
    return [[row for row in scans[i] if scan.alias not in named or row[2] > over] for i, scan in plan.scans]


def _chain(scans: Sequence[Sequence[Reading]], band: int, aggregate: Aggregate | None) -> Answer:
    found = [
        (a, b, c)
        for a in scans[0]
        for b in scans[1]
        for c in scans[2]
        if a[1] == b[1] == c[1] and abs(b[0] - a[0]) <= band and abs(c[0] - b[0]) <= band
    ]
    if aggregate is None:
        return Counter((a[0], a[2], b[0], b[2], c[0], c[2]) for a, b, c in found)
    return _windows([(b[0], a[1], c[2]) for a, b, c in found], aggregate.window)


def _near(join: OuterJoin, a: Reading, rows: Sequence[Reading]) -> list[Reading]:
    """The partners of a row among those of the other side."""
    return [b for b in rows if a[1] == b[1] and abs(b[0] - a[0]) <= join.upper_us]


def _outer(join: OuterJoin, first: Sequence[Reading], second: Sequence[Reading]) -> Answer:
    if join.how in ("semi", "anti"):
        return Counter((a[0], a[2]) for a in first if bool(_near(join, a, second)) == (join.how == "semi"))
    found: Answer = Counter((a[0], a[2], b[0], b[2]) for a in first for b in _near(join, a, second))
    found.update((a[0], a[2], None, None) for a in first if not _near(join, a, second))
    found.update((None, None, b[0], b[2]) for b in second if not _near(join, b, first))
    return found


def _asof(first: Sequence[Reading], second: Sequence[Reading]) -> Answer:
    """Each row of the left with the newest of the right, of its key, that is not newer."""
    found: Answer = Counter()
    for at, key, number in first:
        newest = max(((b[0], b[2]) for b in second if b[1] == key and b[0] <= at), default=(None, None))
        found[at, number, *newest] += 1
    return found


def _windows(rows: Sequence[Reading], window: Window) -> Answer:
    found: dict[tuple[int, int], list[int]] = {}
    for at, key, number in rows:
        for start in range(at - window.size_us + 1, at + 1):
            if start % window.slide_us == 0:
                found.setdefault((key, start + window.size_us), []).append(number)
    return Counter((key, end, len(numbers), sum(numbers)) for (key, end), numbers in found.items())


def _running(rows: Sequence[Reading]) -> Answer:
    """The numbers 1, 2, 3, ... of each key, and the sum of all its values."""
    found: Answer = Counter()
    for key in {row[1] for row in rows}:
        values = [number for _, k, number in rows if k == key]
        found.update((key, n) for n in range(1, len(values) + 1))
        found[key, "sum", sum(values)] += 1
    return found


def _over(rows: Sequence[Reading], ahead: int) -> Answer:
    """Each row's number among those of its key, the sum so far, and the values before it and so far after it; of the
    last ones nothing is known."""
    found: Answer = Counter()
    for key in {row[1] for row in rows}:
        values = [number for _, k, number in sorted(rows, key=lambda r: (r[0], r[2])) if k == key]
        for n in range(len(values) - ahead):
            found[key, n + 1, sum(values[: n + 1]), values[n - 1] if n else None, values[n + ahead]] += 1
    return found


def _ranks(rows: Sequence[Reading]) -> Answer:
    """Each row's place among those of its key and time."""
    found: Answer = Counter()
    for at, key in {row[:2] for row in rows}:
        values = sorted(number for ts, k, number in rows if (ts, k) == (at, key))
        found.update((key, at, number, n) for n, number in enumerate(values, 1))
    return found


def _top(rows: Sequence[Reading], limit: int) -> Answer:
    """The highest values of each key, in their places."""
    found: Answer = Counter()
    for key in {row[1] for row in rows}:
        values = sorted((number for _, k, number in rows if k == key), reverse=True)
        found.update((key, place, number) for place, number in enumerate(values[:limit], 1))
    return found


def in_place(changes: Answer) -> Answer:
    """What stands in each place when all changes have been read, in whichever order; twice where two claim it."""
    found: Answer = Counter()
    for key, place in {row[:2] for row in changes}:
        mine = [row[2:] for row in changes if row[:2] == (key, place)]
        last = max(n for _, n in mine)
        found.update((key, place, number) for number, n in mine if n == last)
    return found


def totals(results: Answer, ended: bool) -> Answer:
    """What a running aggregate emitted, in the same form: sums are known only in the end, if it was not withdrawn."""
    found: Answer = Counter()
    last: dict[int, tuple[int, int]] = {}
    for (key, n, total), times in results.items():
        found[key, n] += times
        last[key] = max(last.get(key, (0, 0)), (n, total))
    found.update((key, "sum", total) for key, (_, total) in last.items() if ended)
    return found


def _sessions(rows: Sequence[Reading], gap: int) -> Answer:
    found: Answer = Counter()
    for key in {row[1] for row in rows}:
        times = sorted((at, number) for at, k, number in rows if k == key)
        session = [times[0]]
        for at, number in times[1:]:
            if at - session[-1][0] >= gap:
                found[key, session[-1][0] + gap, len(session), sum(n for _, n in session)] += 1
                session = []
            session.append((at, number))
        found[key, session[-1][0] + gap, len(session), sum(n for _, n in session)] += 1
    return found
