"""The model of a change of plan against the oracle: every strategy, any trees, any arrivals; broken rules are found."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.replan import rules
from godwit.replan.join_tree import JoinTree, parse, trees
from godwit.sim.join_box import BoxRow, Combination, SimBox, expected
from godwit.sim.plan_change import NAMES, STRATEGIES, ChangeRules, SimPlanChange, run, run_in_a_row

#: Figure 4
OLD, NEW = parse("a JOIN b JOIN c JOIN d"), parse("(b JOIN c) JOIN d JOIN a")
CASES = list(product(("old", "new"), repeat=4))


def _row(alias: str, time: int, number: int = 0) -> BoxRow:
    return BoxRow(alias, time, (), number)


@pytest.mark.parametrize("strategy", NAMES)
@pytest.mark.parametrize("case", CASES, ids=[f"{i + 1}-{''.join(w[0] for w in case)}" for i, case in enumerate(CASES)])
def test_the_sixteen_cases(case: tuple[str, ...], strategy: str) -> None:
    """One row a stream, some before the change and some after it: the result comes once, from the box that owes it."""
    rows = [_row(alias, 10 if age == "old" else 20) for alias, age in zip("abcd", case, strict=True)]
    arrivals = sorted(rows, key=lambda row: (row.time, row.alias))
    later = [_row(alias, time) for time in (60, 120, 180) for alias in "abcd"]
    change = SimPlanChange(OLD, NEW, 10, [*arrivals, *later], at=case.count("old"), building=1)
    made = run(strategy, change).made
    first = [name for name, combination in made if combination == tuple(rows)]
    assert len(first) == 1
    assert len(made) == 4
    if strategy in ("parallel-track", "pause-drain-resume"):
        assert first == ["new" if case.count("old") == 0 else "old"]


@st.composite
def changes(draw: st.DrawFn) -> SimPlanChange:
    """Trees of two to five streams without cross joins; times in order per stream, streams in any order."""
    aliases = "abcde"[: draw(st.integers(2, 5))]
    links = [draw(st.sampled_from([f"{x}{y}" for x in aliases[:i]])) for i, y in enumerate(aliases) if i]
    orders = list(trees(aliases, lambda left, right: any(_links(link, left, right) for link in links)))
    seed, window = draw(st.integers(0, 10**6)), draw(st.integers(1, 12))
    return _random_change(seed, draw(st.sampled_from(orders)), draw(st.sampled_from(orders)), links, window)


def _links(link: str, left: frozenset[str], right: frozenset[str]) -> bool:
    return (link[0] in left and link[1] in right) or (link[1] in left and link[0] in right)


def _random_change(seed: int, old: JoinTree, new: JoinTree, links: list[str], window: int) -> SimPlanChange:
    rng = random.Random(seed)
    queues = {
        alias: [
            BoxRow(alias, time, tuple((link, rng.randrange(2)) for link in links if alias in link), number)
            for number, time in enumerate(sorted(rng.randrange(40) for _ in range(rng.randrange(2, 9))))
        ]
        for alias in old.aliases
    }
    arrivals: list[BoxRow] = []
    while any(queues.values()):
        arrivals.append(queues[rng.choice([alias for alias, queue in queues.items() if queue])].pop(0))
    at = rng.randrange(len(arrivals) + 1)
    return SimPlanChange(old, new, window, arrivals, at, rng.randrange(10), rng.random() < 0.5)


def _oracle(change: SimPlanChange) -> list[Combination]:
    return expected(change.arrivals, change.old.aliases, change.window)


@pytest.mark.parametrize("strategy", NAMES)
@settings(max_examples=150, deadline=None)
@given(change=changes())
def test_nothing_is_lost_and_nothing_comes_twice(strategy: str, change: SimPlanChange) -> None:
    assert run(strategy, change).results == _oracle(change)


@settings(max_examples=200, deadline=None)
@given(change=changes(), data=st.data())
def test_changes_in_a_row(change: SimPlanChange, data: st.DataObject) -> None:
    """Two or three, by any strategies, some asked for before the one before is over."""
    ats = sorted(data.draw(st.lists(st.integers(0, len(change.arrivals)), min_size=2, max_size=3)))
    names = [data.draw(st.sampled_from(sorted(STRATEGIES))) for _ in ats]
    orders = [change.new if k % 2 == 0 else change.old for k in range(len(ats))]
    out = run_in_a_row(list(zip(names, orders, ats, strict=True)), change)
    assert out.results == _oracle(change)


def test_a_stream_that_lies_far_behind_meets_all_it_owes() -> None:
    """c is far ahead of b, so that its rows have purged the pair of a and d; only the combination with c has it yet."""
    old, new = parse("a JOIN d JOIN c JOIN b"), parse("a JOIN d JOIN b JOIN c")
    a, d, c = (BoxRow(alias, 10, (), 0) for alias in "adc")
    arrivals = [a, d, c, BoxRow("c", 30, (), 1), BoxRow("b", 10, (), 0)]
    change = SimPlanChange(old, new, 3, arrivals, at=4)
    assert len(_oracle(change)) == 1
    for strategy in NAMES:
        assert run(strategy, change).results == _oracle(change), strategy


@settings(max_examples=100, deadline=None)
@given(change=changes())
def test_times_stay_in_order_where_the_new_results_wait(change: SimPlanChange) -> None:
    """Section 4.2.3: what comes out of parallel track obeys the order that purging above it relies on."""
    made = [tuple(row.time for row in c) for _, c in run("parallel-track", replace(change, held=True)).made]
    assert all(rules.is_ordered(a, b) for i, a in enumerate(made) for b in made[i + 1 :])


@settings(max_examples=100, deadline=None)
@given(change=changes())
def test_lemmas(change: SimPlanChange) -> None:
    """2.1: the output of a box is ordered. 2.2: purging changes no result."""
    box = SimBox(change.old, change.window)
    made = [[row.time for row in c] for arrival in change.arrivals for c in box.push(arrival)]
    assert all(rules.is_ordered(a, b) for i, a in enumerate(made) for b in made[i + 1 :])
    never = SimBox(change.old, change.window, purgeable=lambda stored, arrived, window: False)
    kept = [c for arrival in change.arrivals for c in never.push(arrival)]
    assert sorted(kept) == _oracle(change)
    assert box.intermediate <= never.intermediate


BROKEN = {
    "new rows meet new rows at the old root": ("parallel-track", ChangeRules(old_root_joins=lambda a, b: True)),
    "the old root joins old rows only": (
        "parallel-track",
        ChangeRules(old_root_joins=lambda a, b: a is b is rules.Age.OLD),
    ),
    "purged by the latest time": (
        "moving-state",
        ChangeRules(purgeable=lambda stored, arrived, window: arrived.most - stored.most > window),
    ),
    "purged by the earliest time": (
        "moving-state",
        ChangeRules(purgeable=lambda stored, arrived, window: arrived.most - stored.least > window),
    ),
    "not drained": ("moving-state", ChangeRules(drains=False)),
    "switched before the last stream is past what was let go": ("background", ChangeRules(drains=False)),
    "rows go while the last stream is waited for": ("moving-state", ChangeRules(keeps=False)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found(name: str) -> None:
    """Each rule is needed: without it some change loses a result or repeats one."""
    strategy, broken = BROKEN[name]
    for seed in range(400):
        change = _random_change(seed, OLD, NEW, ["ab", "bc", "cd"], 6)
        assert run(strategy, change).results == _oracle(change)
        if run(strategy, replace(change, rules=broken)).results != _oracle(change):
            return
    pytest.fail(f"{name}: nothing was lost and nothing came twice in 400 changes")


def test_parallel_track_lasts_two_windows() -> None:
    """Equation 4: 2W where a join stands above another, W where there is one join."""
    for tree, expected_length in ((OLD, 6), (JoinTree.left_deep("ab"), 3)):
        rows = [_row(alias, time) for time in range(20) for alias in tree.aliases]
        change = SimPlanChange(tree, tree, 3, rows, at=8 * len(tree.aliases))
        length = run("parallel-track", change).length / len(tree.aliases)
        assert expected_length <= length <= expected_length + 2
