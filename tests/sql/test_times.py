"""Lengths of time, bands between streams, and how far a time column may lag behind the query's clock."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.ids import QueryId
from godwit.model.plan import Aggregate, Join, Query
from godwit.sql import compile_query
from godwit.sql.bands import Bands, Bound
from godwit.sql.duration import microseconds
from tests.sql.streams import STREAMS

SECOND = 1_000_000


def compiled(sql: str) -> Query:
    return compile_query(sql, STREAMS, QueryId("q"))


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("10 seconds", 10 * SECOND),
        ("10 SECOND", 10 * SECOND),
        ("500 milliseconds", SECOND // 2),
        ("7 microseconds", 7),
        ("0.25 seconds", SECOND // 4),
        ("1 minute 30 seconds", 90 * SECOND),
        ("1 hour -1 second", 3599 * SECOND),
        ("interval 2 hours", 7200 * SECOND),
        ("1 day", 86_400 * SECOND),
        ("2 weeks", 14 * 86_400 * SECOND),
        ("- 5 minutes", -300 * SECOND),
    ],
)
def test_lengths(text: str, us: int) -> None:
    assert microseconds(text) == us


@pytest.mark.parametrize(
    ("condition", "lower", "upper"),
    [
        ("d.ts BETWEEN p.ts - INTERVAL 10 SECONDS AND p.ts + INTERVAL 5 SECONDS", -10 * SECOND, 5 * SECOND),
        ("p.ts BETWEEN d.ts - INTERVAL 10 SECONDS AND d.ts + INTERVAL 5 SECONDS", -5 * SECOND, 10 * SECOND),
        ("d.ts BETWEEN p.ts AND p.ts + INTERVAL 1 MINUTE", 0, 60 * SECOND),
        ("p.ts >= d.ts - INTERVAL '5' SECOND AND p.ts <= d.ts + INTERVAL '2' SECOND", -2 * SECOND, 5 * SECOND),
        ("d.ts > p.ts AND d.ts < p.ts + INTERVAL 1 SECOND", 1, SECOND - 1),
        ("d.ts - p.ts <= INTERVAL 3 SECONDS AND p.ts - d.ts <= INTERVAL 4 SECONDS", -4 * SECOND, 3 * SECOND),
        ("d.ts + INTERVAL 1 SECOND BETWEEN p.ts AND p.ts + INTERVAL 3 SECONDS", -SECOND, 2 * SECOND),
        ("d.ts BETWEEN p.ts + INTERVAL -3 SECONDS AND p.ts + (- INTERVAL 1 SECOND)", -3 * SECOND, -SECOND),
        ("p.ts = d.ts", 0, 0),
        ("(p.ts = d.ts + INTERVAL 7 SECONDS)", -7 * SECOND, -7 * SECOND),
        ("window(p.ts, '10 seconds') = window(d.ts, '10 seconds')", -10 * SECOND + 1, 10 * SECOND - 1),
        (
            "d.ts BETWEEN p.ts AND p.ts + INTERVAL '1 minute 30 seconds' AND d.ts <= p.ts + INTERVAL 9 SECONDS",
            0,
            9 * SECOND,
        ),
    ],
)
def test_bands_in_any_spelling(condition: str, lower: int, upper: int) -> None:
    query = compiled(f"SELECT p.train FROM passengers p JOIN doors d ON p.train = d.train AND {condition}")
    (join,) = (op for op in query.shape.plan.operators if isinstance(op, Join))
    assert (join.left_time, join.right_time) == ("p__ts", "d__ts")
    assert (join.lower_us, join.upper_us) == (lower, upper)
    assert join.residual is None


def test_bands_of_two_pairs_stay_a_condition() -> None:
    """The third stream is paired by one band; the other band that is spoken of is checked too."""
    query = compiled(
        "SELECT a.train FROM passengers a JOIN passengers b ON a.train = b.train AND a.ts = b.ts JOIN passengers c "
        "ON a.train = c.train AND c.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS AND c.ts <= b.ts + INTERVAL 2 SECONDS"
    )
    last = [op for op in query.shape.plan.operators if isinstance(op, Join)][-1]
    spoken = {(last.left_time, last.residual)}
    assert spoken <= {
        ("a__ts", "c__ts <= b__ts + INTERVAL '2' SECONDS"),
        ("b__ts", "c__ts BETWEEN a__ts AND a__ts + INTERVAL '5' SECONDS"),
    }
    assert (last.lower_us, last.upper_us) == (0, 2 * SECOND)


limits = st.integers(-20, 20)


@given(st.dictionaries(st.tuples(*[st.sampled_from("abcd")] * 2).filter(lambda p: p[0] != p[1]), limits, max_size=8))
@settings(deadline=None)
def test_derived_bounds_follow_from_the_given_ones(given_bounds: dict[tuple[str, str], int]) -> None:
    """Any times that keep the given bounds keep the derived ones; the tightest path is found."""
    bands = Bands(Bound(later, earlier, limit) for (later, earlier), limit in given_bounds.items())
    for x in "abcd":
        for y in set("abcd") - {x}:
            between = set("abcd") - {x, y}
            paths = [(x, *middle, y) for n in range(3) for middle in permutations(between, n)]
            steps = [[(p[i], p[i + 1]) for i in range(len(p) - 1)] for p in paths]
            sums = [sum(given_bounds[s] for s in path) for path in steps if all(s in given_bounds for s in path)]
            found = bands.limit(x, y)
            assert (found is None) == (not sums)
            # a contradiction (a cycle below zero) may tighten further than simple paths do
            assert found is None or found <= min(sums)


seconds = st.integers(-8, 8)


@given(
    st.tuples(seconds, seconds, seconds, seconds),
    st.tuples(seconds, seconds),
    st.sampled_from(["a", "b"]),
    st.sampled_from(["a", "b", "c"]),
)
@settings(deadline=None)
def test_no_row_comes_later_than_its_lag(
    ends: tuple[int, int, int, int], offsets: tuple[int, int], third_to: str, column: str
) -> None:
    """Whichever of three rows arrives last, with the clock at its time, the result's time is within the lag."""
    (low1, high1), (low2, high2) = sorted(ends[:2]), sorted(ends[2:])
    query = compiled(
        f"SELECT {column}.ts FROM passengers a "
        f"JOIN passengers b ON a.train = b.train AND b.ts BETWEEN {_plus('a', low1)} AND {_plus('a', high1)} "
        f"JOIN passengers c ON a.train = c.train AND c.ts BETWEEN {_plus(third_to, low2)} AND {_plus(third_to, high2)}"
    )
    times = {"a": 0, "b": low1 + offsets[0] % (high1 - low1 + 1)}
    times["c"] = times[third_to] + low2 + offsets[1] % (high2 - low2 + 1)
    worst = max(times.values()) - times[column]
    assert query.shape.plan.sink.lag_us >= worst * SECOND


def _plus(alias: str, length: int) -> str:
    return f"{alias}.ts + INTERVAL {length} SECONDS"


@pytest.mark.parametrize(
    ("window", "bound", "lag"),
    [
        ("window(ts, '10 seconds')", "window.end", 0),
        ("window(ts, '10 seconds')", "window.start", 10),
        ("window(ts, '60 seconds', '20 seconds')", "window.start", 60),
        ("session_window(ts, '10 seconds')", "session_window.end", 0),
        ("session_window(ts, '10 seconds')", "session_window.start", None),
    ],
)
def test_lag_of_window_bounds(window: str, bound: str, lag: int | None) -> None:
    sink = compiled(f"SELECT train, {bound} AS t FROM passengers GROUP BY train, {window}").shape.plan.sink
    assert (sink.time, sink.lag_us) == (("t", lag * SECOND) if lag is not None else (None, 0))


def test_a_window_over_a_window_start_waits_for_it() -> None:
    query = compiled(
        "SELECT count(*) AS n FROM (SELECT window.start AS s FROM passengers GROUP BY train, window(ts, '10 seconds')) "
        "w GROUP BY window(s, '1 minute')"
    )
    lags = [op.lag_us for op in query.shape.plan.operators if isinstance(op, Aggregate)]
    assert lags == [0, 10 * SECOND]


def test_an_expression_of_a_time_is_no_time() -> None:
    sink = compiled("SELECT ts + INTERVAL 1 SECOND AS a, date_trunc('HOUR', ts) AS b FROM passengers").shape.plan.sink
    assert sink.time is None


def test_union_takes_the_larger_lag() -> None:
    sink = compiled(
        "SELECT window.start AS t FROM passengers GROUP BY window(ts, '10 seconds') UNION ALL SELECT ts FROM doors"
    ).shape.plan.sink
    assert (sink.time, sink.lag_us) == ("t", 10 * SECOND)
