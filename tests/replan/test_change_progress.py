"""What a change under way can do next, of versions as their regions say they are; and rules that are broken, seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from godwit.ids import Epoch, QueryId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.plan import Query
from godwit.model.taps import family, find
from godwit.replan.change_progress import ChangeProgress, NextStep, RunnerView
from godwit.replan.family import next_versions
from godwit.replan.wishes import PlanWish, rewritten
from tests.replan.queries import STREAMS, compiled

NEAR = "BETWEEN {0}.ts - INTERVAL 4 SECONDS AND {0}.ts + INTERVAL 3 SECONDS"
SQL = (
    f"SELECT a.v AS x, b.v AS y, c.v AS z FROM a JOIN b ON a.k = b.k AND b.ts {NEAR.format('a')} "
    f"JOIN c ON b.k = c.k AND c.ts {NEAR.format('b')}"
)
Q, R, Q1, R1 = map(QueryId, ("q", "r", "q~1", "r~1"))
ENDED = Epoch(5)


def _running(*names: QueryId) -> dict[QueryId, Query]:
    found: dict[QueryId, Query] = {}
    for begins, name in enumerate(names, 1):
        query = replace(compiled(SQL), id=name, begins=begins)
        found[name] = replace(query, taps=find(query, found.values()))
    return found


def _changed(queries: Mapping[QueryId, Query]) -> dict[QueryId, Query]:
    """The first of them alone gets another plan; all old versions have ended."""

    def rewrite(query: Query) -> Query | None:
        return rewritten(query, PlanWish("(b JOIN c) JOIN a"), STREAMS) if query.id == Q else None

    members = family(queries[Q], queries)
    made = next_versions(members, rewrite, lambda old: QueryId(f"{old.id}~1"), queries, STREAMS)
    ended = {name: replace(query, until=int(ENDED), internal=True) for name, query in queries.items()}
    return {**ended, **{one.id: one for one in made}}


def _progress(queries: Mapping[QueryId, Query], waiting: frozenset[QueryId] = frozenset()) -> ChangeProgress:
    """All regions work under the epoch, all old versions have answered; those that wait lack their state."""
    published = {operator: ENDED for query in queries.values() for operator in range(len(query.shape.plan.operators))}
    clocks = {operator: dict.fromkeys(queries, 9) for operator in published}
    view = RunnerView(ENDED, frozenset(), waiting, published, clocks, RegionId("west"))
    deployment = Deployment(ENDED, queries, streams=STREAMS)
    yes = lambda version: True  # noqa: E731
    return ChangeProgress(deployment, lambda shape: [view], lambda version: 9, yes, yes, {})


def _steps(progress: ChangeProgress) -> dict[QueryId, NextStep | None]:
    versions = [query for query in progress.deployment.queries.values() if not query.until]
    return {query.id: progress.next(query) for query in versions}


def test_versions_that_shared_operators_end_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the last state that one of them lacks: what it is made of goes with the first that ends."""
    queries = _changed(_running(Q, R))
    assert not queries[R1].taps
    assert _steps(_progress(queries)) == {Q1: NextStep.RETIRE, R1: NextStep.RETIRE}
    waits = _progress(queries, frozenset({Q1}))
    assert _steps(waits) == {Q1: None, R1: None}
    monkeypatch.setattr(ChangeProgress, "next", ChangeProgress._own)  # each for itself
    assert _steps(waits)[R1] is NextStep.RETIRE


def _prepared(ahead: bool, view: RunnerView) -> ChangeProgress:
    """A query that shares nothing, with a version to come."""
    (old,) = _running(Q).values()
    new = rewritten(old, PlanWish("(b JOIN c) JOIN a"), STREAMS)
    assert new is not None
    queries = {Q: replace(old, successor=replace(new, id=Q1, ahead=ahead))}
    progress = _progress(queries)
    clocks = {operator: {Q: 9} for operator in range(len(old.shape.plan.operators))}
    return replace(progress, runners=lambda shape: [replace(view, released=clocks)])


def _view(**told: Any) -> RunnerView:
    return RunnerView(ENDED, frozenset({Q1}), frozenset(), {}, {}, RegionId("west"), **told)


def test_background_waits_until_missing_states_are_made() -> None:
    assert _steps(_prepared(False, _view())) == {Q: NextStep.SWITCH}
    assert _steps(_prepared(True, _view())) == {Q: None}
    assert _steps(_prepared(True, _view(made={QueryId("q~0"): ""}))) == {Q: None}  # of a change that was given up
    assert _steps(_prepared(True, _view(made={Q1: ""}))) == {Q: NextStep.SWITCH}


def test_a_change_is_given_up_where_missing_states_cannot_be_made() -> None:
    progress = _prepared(True, RunnerView.from_json(_view(made={Q1: "division by zero"}).to_json()))
    assert _steps(progress) == {Q: NextStep.GIVE_UP}
    assert progress.failure(progress.deployment.queries[Q]) == "division by zero"
    switched = replace(progress.deployment.queries[Q], until=int(ENDED))
    assert progress.next(switched) is None
