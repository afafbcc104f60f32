"""The oracle as a property: random queries, data, batch boundaries, placements, moves and crashes; always equal.

Queries come from a small grammar over the tests' stream. A failing example prints its queries and its script.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.engine.size_policy import USUAL, SizePolicy
from godwit.region.runner import MOMENTS
from tests.region.world import (
    MODES,
    SITES,
    Action,
    Attach,
    Crash,
    Detach,
    Move,
    Push,
    Step,
    Submit,
    Withdraw,
    World,
    executed,
    sized,
)
from tests.sampled import sampled

TRAINS = 3
NUMBERS = ["boarded", "alighted", "coach", "boarded + alighted", "boarded * 2 - coach"]
AGGREGATES = [
    "count(*)",
    "sum({x})",
    "min({x})",
    "max({x})",
    "avg({x})",
    "stddev({x})",
    "count(DISTINCT {x})",
    "median({x})",
    "percentile_approx({x}, 0.7)",
    "mode({x})",
    "collect_set({x})",
]
#: of rows that are all there: what needs the end of a window
LISTS = ["collect_list({x})", "listagg({x}, '-')", "array_agg({x} ORDER BY boarded DESC)"]
WINDOWS = ["window(ts, '4 seconds')", "window(ts, '6 seconds', '2 seconds')", "session_window(ts, '1 second')"]


@st.composite
def predicates(draw: st.DrawFn) -> str:
    number, limit = draw(st.sampled_from(NUMBERS)), draw(st.integers(0, 9))
    return draw(
        st.sampled_from([f"{number} > {limit}", f"{number} <= {limit}", f"train = 't{limit % TRAINS}'", "true"])
    )


@st.composite
def filters(draw: st.DrawFn) -> str:
    return f"SELECT train, {draw(st.sampled_from(NUMBERS))} AS n, ts FROM passengers WHERE {draw(predicates())}"


@st.composite
def aggregates(draw: st.DrawFn) -> str:
    window, key = draw(st.sampled_from(WINDOWS)), draw(st.sampled_from(["train", "line", "coach % 2"]))
    calls = draw(st.lists(st.sampled_from([*AGGREGATES, *LISTS]), min_size=1, max_size=3, unique=True))
    columns = [call.format(x=draw(st.sampled_from(NUMBERS))) + f" AS a{i}" for i, call in enumerate(calls)]
    bound = "session_window.end" if window.startswith("session") else "window.end"
    having = draw(st.sampled_from(["", " HAVING count(*) > 1"]))
    keys = draw(st.sampled_from([key, f"ROLLUP({key}, alighted % 3)", f"GROUPING SETS (({key}), (), ({key}))"]))
    return (
        f"SELECT {key} AS k, {', '.join(columns)}, {bound} AS until FROM passengers WHERE {draw(predicates())} "
        f"GROUP BY {keys}, {window}{having}"
    )


@st.composite
def joins(draw: st.DrawFn) -> str:
    before, after = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    band = f"a.ts BETWEEN b.ts - INTERVAL {before} SECONDS AND b.ts + INTERVAL {after} SECONDS"
    band = draw(st.sampled_from([band, "window(a.ts, '2 seconds') = window(b.ts, '2 seconds')"]))
    more = draw(st.sampled_from(["a.boarded > b.boarded", "a.boarded + b.alighted > 5", "a.line = 'S41'"]))
    return (
        "SELECT a.train, b.train AS other, a.ts, b.ts AS met FROM passengers a "
        f"JOIN passengers b ON a.coach = b.coach AND {band} WHERE {more}"
    )


@st.composite
def outer_joins(draw: st.DrawFn) -> str:
    before, after = draw(st.integers(-1, 2)), draw(st.integers(1, 2))
    band = f"b.ts BETWEEN a.ts - INTERVAL {before} SECONDS AND a.ts + INTERVAL {after} SECONDS"
    more = draw(st.sampled_from(["a.boarded > b.boarded", "a.boarded + b.alighted > 9", "a.line = 'S41'", "true"]))
    how = draw(st.sampled_from(["LEFT", "RIGHT", "FULL OUTER", "LEFT SEMI", "LEFT ANTI"]))
    columns = "a.train, a.ts" if how in ("LEFT SEMI", "LEFT ANTI") else "a.train, b.train AS other, a.ts, b.ts AS met"
    where = draw(st.sampled_from(["", " WHERE a.coach > 0", " WHERE a.alighted > 2 OR a.alighted IS NULL"]))
    on = f"a.coach = b.coach AND {band} AND {more}"
    return f"SELECT {columns} FROM passengers a {how} JOIN passengers b ON {on}{where}"


@st.composite
def asof_joins(draw: st.DrawFn) -> str:
    keep = draw(st.sampled_from(["forever", "1 second"]))
    how, sign = draw(st.sampled_from(["", " LEFT"])), draw(st.sampled_from([">", ">="]))
    more = draw(st.sampled_from(["", " AND a.boarded > b.boarded"]))
    return (
        f"SELECT /*+ keep('{keep}') */ a.train, b.train AS other, a.ts, b.ts AS met FROM passengers a ASOF{how} JOIN "
        f"passengers b MATCH_CONDITION (a.ts {sign} b.ts) ON a.coach = b.coach{more} WHERE {draw(predicates_of_a())}"
    )


@st.composite
def predicates_of_a(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(["true", "a.boarded > 3", "a.train = 't1'"]))


@st.composite
def totals(draw: st.DrawFn) -> str:
    key, number = draw(st.sampled_from(["train", "line, coach", "coach % 2"])), draw(st.sampled_from(NUMBERS))
    keep = draw(st.sampled_from(["forever", "1 second", "400 milliseconds"]))
    call = draw(st.sampled_from(AGGREGATES)).format(x=number)
    having = draw(st.sampled_from(["", f" HAVING avg({number}) > 3", " HAVING count(*) % 2 = 0"]))
    where = draw(predicates())
    return (
        f"SELECT /*+ keep('{keep}') */ {key}, {call} AS a, max(ts) AS newest FROM passengers WHERE {where} "
        f"GROUP BY {key}{having}"
    )


@st.composite
def overs(draw: st.DrawFn) -> str:
    key, number = draw(st.sampled_from(["train", "line", "coach % 2"])), draw(st.sampled_from(NUMBERS))
    order = f"PARTITION BY {key} ORDER BY ts"
    frame = st.sampled_from(["ROWS 2 PRECEDING", "RANGE INTERVAL 1 SECOND PRECEDING", "ROWS UNBOUNDED PRECEDING", ""])
    call = st.sampled_from(["count(*)", f"sum({number})", f"min({number})", f"avg({number})"])
    calls = [f"{draw(call)} OVER ({order} {draw(frame)})", f"lag({number}, 2) OVER ({order})"]
    calls.append(f"row_number() OVER ({order})")
    ahead = [
        f"lead({number}, 2, 0) OVER ({order})",
        f"max({number}) OVER ({order} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    ]
    forwards = draw(st.booleans())
    offered = [*ahead, calls[1]] if forwards else calls
    made = draw(st.lists(st.sampled_from(offered), min_size=1, max_size=3, unique=True))
    columns = ", ".join(f"{call} AS a{i}" for i, call in enumerate(made))
    kept = not forwards and any("RANGE" not in call for call in made) and draw(st.booleans())
    hint = "/*+ keep('700 milliseconds') */ " if kept else ""
    return f"SELECT {hint}{key} AS k, {columns}, ts FROM passengers WHERE {draw(predicates())}"


@st.composite
def counted(draw: st.DrawFn) -> str:
    key, size = draw(st.sampled_from(["train", "line", "coach % 2"])), draw(st.integers(1, 4))
    call = draw(st.sampled_from(AGGREGATES)).format(x=draw(st.sampled_from(NUMBERS)))
    slide, hint = draw(st.integers(1, size)), draw(st.sampled_from(["", "/*+ keep('700 milliseconds') */ "]))
    return (
        f"SELECT {hint}{key} AS k, {call} AS a, count_window.end AS until FROM passengers WHERE {draw(predicates())} "
        f"GROUP BY {key}, count_window(ts, {size}, {slide})"
    )


queries = st.one_of(filters(), aggregates(), joins(), outer_joins(), asof_joins(), totals(), overs(), counted())
trains, sites = st.integers(0, TRAINS - 1), st.sampled_from(SITES)


@st.composite
def scripts(draw: st.DrawFn, names: list[str]) -> list[Action]:
    """Rows of all trains second by second, with all sorts of things in between."""
    script: list[Action] = []
    movable = st.sampled_from(names)
    between = st.one_of(
        st.builds(Step, st.lists(st.integers(0, 8), min_size=1, max_size=3).map(tuple)),
        st.builds(Attach, trains, sites),
        st.builds(Detach, trains),
        st.builds(Move, movable, sites, st.one_of(st.none(), st.integers(0, 3))),
        st.builds(Crash, st.sampled_from(MOMENTS)),
    )
    for second in range(0, 12, 4):
        script += [Push(train, float(second), draw(st.integers(1, 5))) for train in range(TRAINS)]
        script += draw(st.lists(between, max_size=4))
    late_comer = draw(queries)
    script.insert(draw(st.integers(0, len(script))), Submit("late-comer", late_comer))
    if draw(st.booleans()):
        script.append(Withdraw(names[-1]))
    return script


@st.composite
def stories(draw: st.DrawFn) -> tuple[dict[str, str], list[Action]]:
    chosen = {f"q{i}": sql for i, sql in enumerate(draw(st.lists(queries, min_size=1, max_size=2)))}
    return chosen, draw(scripts(list(chosen)))


Story = tuple[dict[str, str], list[Action]]


def check(spark: SparkSession, story: Story, sizes: SizePolicy = USUAL) -> None:
    chosen, script = story
    for name, sql in chosen.items():
        note(f"{name}: {sql}")
    note("\n".join(map(str, script)))
    with tempfile.TemporaryDirectory() as folder:
        world = World(sized(lambda **options: Fleet(Path(folder), spark, **options), sizes), chosen, trains=TRAINS)
        world.play(script)
        wrong = [str(verdict) for verdict in world.finish() if not verdict.equal]
        world.fleet.stop()
    assert wrong == []


SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]


@settings(max_examples=15, deadline=None, suppress_health_check=SLOW, derandomize=True)
@given(story=stories())
def test_results_equal_the_batch_whatever_happens(
    spark: SparkSession, story: tuple[dict[str, str], list[Action]]
) -> None:
    check(spark, story)


@pytest.mark.parametrize("mode", sampled(MODES, "large", "direct, many queries"))
@settings(max_examples=2, deadline=None, suppress_health_check=SLOW, derandomize=True, phases=[Phase.generate])
@given(story=stories())
def test_results_equal_the_batch_in_every_execution_mode(spark: SparkSession, mode: str, story: Story) -> None:
    with executed(spark, mode) as sizes:
        check(spark, story, sizes)


@pytest.mark.full
@pytest.mark.timeout(3600)
@settings(max_examples=int(os.environ.get("GODWIT_STORIES", "150")), deadline=None, suppress_health_check=SLOW)
@given(story=stories())
def test_results_equal_the_batch_whatever_happens_at_length(spark: SparkSession, story: Story) -> None:
    check(spark, story)
