"""The next versions of queries that share operators: cases are files in tests/fixtures/replan_shared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from godwit.errors import ConfigError
from godwit.ids import QueryId
from godwit.model.plan import Query
from godwit.model.taps import cut_at, family, find
from godwit.replan.box import JoinBox
from godwit.replan.family import _ReadableStates, for_shared, left_states, next_versions
from godwit.replan.matching import StateMatch
from godwit.replan.wishes import PlanWish, rewritten
from godwit.sql.compile import compile_query
from tests.replan.queries import STREAMS, load

FIXTURES = Path(__file__).parents[1] / "fixtures" / "replan_shared"


def _running(case: dict[str, object]) -> dict[QueryId, Query]:
    """The queries of a case, one after the other, each tapping those before; and the cut of the first."""
    found: dict[QueryId, Query] = {}
    numbers: dict[str, int] = case["queries"]  # type: ignore[assignment]
    for begins, (name, number) in enumerate(numbers.items(), 1):
        query = compile_query(str(case["sql"]).format(number), STREAMS, QueryId(name))
        found[query.id] = replace(query, begins=begins, taps=find(query, found.values()))
    if "cut" in case:
        first = next(iter(found.values()))
        covers = JoinBox.of(first.shape.plan, STREAMS).covers
        index = next(i for i, aliases in covers.items() if sorted(aliases) == str(case["cut"]).split())
        cut = replace(cut_at(first, index, ("a__v",)), id=QueryId("part"), begins=9, internal=True)
        found[cut.id] = replace(cut, taps=dict.fromkeys(first.shape.plan.below(index), first.id))
    return found


@pytest.mark.parametrize("path", sorted((FIXTURES / "good").glob("*.yaml")), ids=lambda p: p.stem)
def test_good(path: Path) -> None:
    case = load(path)
    queries = _running(case)
    members = family(queries[QueryId("q")], queries)
    assert {one.id for one in members} == queries.keys()

    def rewrite(query: Query) -> Query | None:
        changes = query.id in case["changes"] or query.id == "part"
        return rewritten(query, PlanWish(case["order"]), STREAMS) if changes else None

    made = next_versions(members, rewrite, lambda old: QueryId(f"{old.id}~1"), queries, STREAMS)
    assert [one.inherits for one in made] == [one.id for one in members]
    taps = {one.inherits: {leader.removesuffix("~1") for leader in one.taps.values()} for one in made if one.taps}
    assert taps == {reader: {leader} for reader, leader in case["taps"].items()}
    operators = made[0].shape.plan.operators if len(made) < 2 else made[-1].shape.plan.operators
    shared = [type(operators[i]).__name__ for i in sorted(made[-1].taps) if operators[i].stateful]
    assert shared == case["shared"]
    for one in made:
        assert one.reads_since == queries[one.inherits or one.id].begins


@pytest.mark.parametrize("path", sorted((FIXTURES / "bad").glob("*.yaml")), ids=lambda p: p.stem)
def test_bad(path: Path) -> None:
    case = load(path)
    with pytest.raises(ConfigError) as caught:
        for_shared(case["strategy"], False, StateMatch((), (), ()))
    assert case["problem"] in str(caught.value)
    assert case["remedy"] in str(caught.value)
    assert for_shared(case["strategy"], True, StateMatch((), (), ())) == "background"  # where nobody insists


def test_without_the_rule_a_reader_would_tap_rows_that_cannot_be_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ReadableStates, "__call__", lambda *_: True)
    with pytest.raises(AssertionError):
        test_good(FIXTURES / "good" / "rows_of_c_cannot_be_told_apart.yaml")


def test_who_parts_takes_what_was_executed_for_it_since_its_beginning() -> None:
    queries = _running(load(FIXTURES / "good" / "who_taps_changes_alone.yaml"))
    mine, theirs = (list(left_states(queries[QueryId(name)], queries)) for name in "qr")
    assert {(one.executor, one.since) for one in mine} == {("q", 0)}
    assert {(one.executor, one.since) for one in theirs} == {("q", 2)}
    assert [one.operator for one in mine] == [one.operator for one in theirs]


def test_one_that_is_unseen_ends_and_the_oldest_reader_executes() -> None:
    queries = _running(load(FIXTURES / "good" / "who_taps_changes_alone.yaml"))
    queries[QueryId("q")] = replace(queries[QueryId("q")], internal=True)
    members = family(queries[QueryId("r")], queries)
    made = next_versions(members, lambda query: None, lambda old: QueryId(f"{old.id}~1"), queries, STREAMS)
    assert [(one.id, {*one.taps.values()}) for one in made] == [("r~1", set()), ("s~1", {"r~1"})]
