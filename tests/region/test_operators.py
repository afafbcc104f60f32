"""A stateful operator that nobody in `src` knows of: a node, an implementation, and a plan with it.

De-duplication cannot merge late state: the new owner would put out rows that the old one has seen. So it says "dual",
and waits for its state whatever the fleet's strategy is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import pytest

from godwit.api.fleet import Fleet
from godwit.engine.lazy_frame import Frame, made
from godwit.ids import Epoch, QueryId, RegionId
from godwit.model.codec import decode, encode
from godwit.model.plan import GENERATION, QUERY, Aggregate, Operator, Plan, Query, Shape, Sink, StateSpec, Window
from godwit.operators.base import OperatorContext, StatefulOperator, implementation, implements
from godwit.protocol.handover import Migration as Moved
from godwit.protocol.watermarks import NEVER
from godwit.region.state import State
from godwit.region.transfer import StateTransfer
from godwit.sql import compile_query
from godwit.storage.store import Store
from tests.region.world import Action, Attach, Crash, Move, Push, Step, World, rooms_of

SECOND = 1_000_000
ROWS: list[Action] = [Push(train, second, 6) for second in range(0, 36, 3) for train in range(4)]
ALL = "SELECT coach, date_trunc('minute', ts) AS minute, ts FROM passengers WHERE boarded > {}"


@dataclass(frozen=True)
class Deduplicate(Operator):
    """The first row of each key within a horizon."""

    inputs: tuple[int, ...]
    keys: tuple[str, ...]
    time: str
    horizon_us: int
    per_device: ClassVar[bool] = False
    stateful: ClassVar[bool] = True
    late_state: ClassVar[Literal["merge", "dual", "wait"]] = "dual"

    @property
    def state(self) -> tuple[StateSpec, ...]:
        return (StateSpec(self.keys, self.time),)


@implements(Deduplicate)
class _Deduplication(StatefulOperator):
    def __init__(self, node: Deduplicate) -> None:
        self.node = node

    def step(self, context: OperatorContext, inputs: Sequence[Frame | None]) -> Frame | None:
        rows = inputs[0] if inputs[0] is None else context.tables.without_parameters(inputs[0])
        since = {query: clock for query, clock in context.released().items() if clock > NEVER}
        fresh, state = State(context.admit(0, rows, since)), context.state()
        for arrived in context.arrivals():
            state.live += [segment for part in arrived.parts.values() for segment in part]
        found = self._unseen(context, fresh, state)
        state.live += fresh.live
        context.hand_over()
        _, now = context.advance()
        context.tidy(0, context.dead_before(now) - self.node.horizon_us)
        return found

    def _unseen(self, context: OperatorContext, fresh: State, state: State) -> Frame | None:
        new, old = fresh.read(context.spark), state.read(context.spark)
        if new is None:
            return None
        by = [QUERY, *self.node.keys]
        first = made(new).drop(GENERATION).dropDuplicates(by)
        return first if old is None else first.join(made(old).select(*by), by, "left_anti")


def with_deduplication(query: Query) -> Query:
    """The plan with one more operator below its sink."""
    *below, sink = query.shape.plan.operators
    assert isinstance(sink, Sink)
    last = len(below)
    dedup = Deduplicate(sink.inputs, ("coach", "minute"), "ts", 90 * SECOND)
    plan = Plan((*below, dedup, replace(sink, inputs=(last,))))
    return replace(query, shape=Shape(plan, query.shape.parameters))


@pytest.fixture
def deduplicating(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a front end would: every query of the fleet is de-duplicated."""
    monkeypatch.setattr("godwit.api.operations.compile_query", lambda *given: with_deduplication(compile_query(*given)))


class Remembering(World):
    """Knows what was sent."""

    def __init__(self, *given: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        super().__init__(*given)

    def _rows(self, train: int, second: float, rows: int) -> list[dict[str, Any]]:
        made = super()._rows(train, second, rows)
        self.sent += made
        return made

    def distinct(self, threshold: int) -> list[tuple[int, str]]:
        return sorted({(row["coach"], f"{row['ts']:%H:%M}") for row in self.sent if row["boarded"] > threshold})


@pytest.mark.parametrize("strategy", ["delta", "adhoc-query"])
@pytest.mark.usefixtures("deduplicating")
def test_an_operator_from_outside(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    """Two queries of one shape; their instances move, twice at once, and the process dies in between."""
    queries = {"few": ALL.format(6), "many": ALL.format(1)}
    world = Remembering(lambda **options: open_fleet(state=strategy, **options), queries)
    script = [*ROWS[:8], Step((0, 1, 2)), Move("few", "west"), *ROWS[8:12], Step((0, 1)), Move("many", "east")]
    script += [*ROWS[12:20], Step((2, 1, 0)), Move("few", "east"), Attach(0, "east"), *ROWS[20:28], Crash("staged")]
    script += [Move("many", "west"), *ROWS[28:]]
    world.play(script)
    world.finish()
    for name, threshold in (("few", 6), ("many", 1)):
        rows = world.fleet.query(name).results().selectExpr("coach", "date_format(minute, 'HH:mm')").collect()
        assert sorted(map(tuple, rows)) == world.distinct(threshold)
    told = [record for runner in world.fleet.pool.runners.values() for _, record in runner.commits.after(0)]
    assert any(room[0] == "waiting" for record in told for room in rooms_of(record))


def test_the_operator_is_asked_before_the_strategy() -> None:
    transfer = StateTransfer(Store.memory(), "delta")
    move = Moved(Epoch(3), QueryId("q"), 4, RegionId("a"), RegionId("b"), "x", "y")
    dedup = Deduplicate((3,), ("k",), "ts", SECOND)
    window = Aggregate((3,), Window("ts", SECOND, SECOND), ("k",), ())
    assert transfer.waits(move, dedup)
    assert not transfer.waits(move, window)
    assert StateTransfer(Store.memory(), "transfer").waits(move, window)


def test_a_plan_in_a_log_is_read_again() -> None:
    node = Deduplicate((3,), ("k",), "ts", SECOND)
    assert decode(encode(node)) == node
    assert type(implementation(node)) is _Deduplication
