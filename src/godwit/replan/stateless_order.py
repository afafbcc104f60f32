"""Stateless order (ours): joins that keep only rows of the streams; the order of probing is a row of a table.

A change is one epoch, moves nothing and computes nothing. In the calm every row makes its intermediate combinations
again, which a join that keeps them does once.
"""

from __future__ import annotations

from collections.abc import Iterator

from godwit.replan.steps import BoxChange, PlanStep, SetOrder


def refusal(change: BoxChange) -> tuple[str, str] | None:
    if not change.probing:
        return "its joins keep intermediate states", "submit the query with probing joins, or use 'background'"
    return None


def steps(change: BoxChange) -> Iterator[PlanStep]:
    yield SetOrder()
