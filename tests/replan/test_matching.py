"""match(old, new): cases are files in tests/fixtures/replan, bad orders are refused with place and remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from godwit.errors import ConfigError
from godwit.model.plan import Query
from godwit.model.signature import StateKey
from godwit.replan.box import JoinBox, reordered
from godwit.replan.matching import match
from tests.replan.queries import STREAMS, cases, compiled, load


def _kept(query: Query, key: StateKey) -> str:
    """The aliases of a state's rows, or the operator's kind."""
    index = query.shape.signatures.index(key.signature)
    operator = query.shape.plan.operators[index]
    box = JoinBox.of(query.shape.plan, STREAMS)
    if index not in box.joins:
        return type(operator).__name__
    child = operator.inputs[key.side]
    leaves = {leaf.root: frozenset((leaf.alias,)) for leaf in box.conditions.leaves}
    return " ".join(sorted(box.covers.get(child) or leaves[child]))


def _both(case: Any) -> tuple[Query, Query]:
    old = compiled(case["sql"])
    if "new_sql" in case:
        return old, compiled(case["new_sql"])
    return old, reordered(old, JoinBox.of(old.shape.plan, STREAMS).order(case["order"]), STREAMS)


@pytest.mark.parametrize("path", cases("good"), ids=lambda p: p.stem)
def test_good(path: Path) -> None:
    case = load(path)
    old, new = _both(case)
    found = match(old, new, STREAMS)
    assert sorted(_kept(new, m.new) for m in found.matched) == case["matched"]
    assert all(_kept(new, m.new) == _kept(old, m.old) for m in found.matched)
    assert [" ".join(step.covers) for step in found.recompute] == case["recompute"]
    assert sorted(_kept(old, key) for key in found.discard) == case["discard"]
    assert sorted(_kept(new, key) for key in found.empty) == case.get("empty", [])
    assert {" ".join(m.covers): m.short_us / 1e6 for m in found.short} == {k: s for k, s in case["short"].items() if s}


@pytest.mark.parametrize("path", cases("bad"), ids=lambda p: p.stem)
def test_bad(path: Path) -> None:
    case = load(path)
    with pytest.raises(ConfigError) as caught:
        match(*_both(case), STREAMS)
    problem, *rest = str(caught.value).split("\n  ")
    assert problem == case["problem"]
    assert rest[-1].startswith(f"remedy: {case['remedy']}")


def test_recomputed_states_come_after_what_they_are_made_of() -> None:
    old = compiled(load(cases("good")[0].parent / "figure_5.yaml")["sql"])
    box = JoinBox.of(old.shape.plan, STREAMS)
    for tree in box.orders():
        found = match(old, reordered(old, tree, STREAMS), STREAMS)
        there = {m.new for m in found.matched}
        for step in found.recompute:
            assert {step.left, step.right} <= there
            there.add(step.new)
