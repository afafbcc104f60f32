"""A query that others tap: whose watermark waits for whom, and what goes on when it has no place or fails."""

from __future__ import annotations

from dataclasses import replace

from godwit.ids import Epoch, NodeId, QueryId
from godwit.model.deployment import Delta
from godwit.model.instances import instance_id
from godwit.protocol.memory import Failure
from godwit.protocol.watermarks import NEVER, Mark
from godwit.sim.worlds import tumbling
from tests.protocol.pair import EAST, QUERY, WEST, WINDOW, Pair, deployment, window_at

READER = replace(tumbling("r", 0), taps=dict.fromkeys(range(WINDOW + 1), QUERY.id), begins=3)


def reader_at(site: str) -> Delta:
    """The reader's names of what it taps are where its executor's are."""
    return Delta({READER.id: READER}, {instance_id(READER.id, k): NodeId(site) for k in (WINDOW, WINDOW + 1)})


def test_a_reader_waits_for_the_state_of_whom_it_taps() -> None:
    """It came after the window had begun to move: nothing of its own is on its way."""
    pair = Pair(deployment(["d1"]))
    pair.step(WEST, {"d1": Mark(1, 10)})
    pair.step(EAST)
    pair.apply(window_at("e"))
    pair.step(EAST)
    pair.apply(reader_at("e"))
    pair.step(EAST)
    assert pair.regions[EAST].kernel.moves.incoming
    pair.step(WEST, {"d1": Mark(1, 50)})
    kernel = pair.regions[EAST].kernel
    assert set(kernel.released[WINDOW].values()) == {NEVER}
    pair.rest()
    assert kernel.released[WINDOW] == {QUERY.id: 50, READER.id: 50}


def test_rows_wait_when_neither_has_a_place() -> None:
    pair = Pair(deployment(["d1"]))
    pair.apply(reader_at("w"))
    kernel = pair.regions[WEST].kernel
    pair.apply(Delta(parked={QUERY.id: "no place"}))
    pair.step(WEST, {"d1": Mark(1, 20)})
    assert kernel.released[WINDOW][READER.id] == 20
    pair.apply(Delta(parked={READER.id: "no place"}))
    pair.step(WEST, {"d1": Mark(1, 30)})
    assert kernel.released[WINDOW][READER.id] == 20
    pair.apply(Delta(parked={READER.id: None}))
    pair.rest()
    assert kernel.released[WINDOW][READER.id] == 30


def test_who_fails_goes_on_for_those_who_tap_it() -> None:
    pair = Pair(deployment(["d1"]))
    pair.apply(reader_at("w"))
    pair.step(WEST, {"d1": Mark(1, 10)})
    kernel = pair.regions[WEST].kernel
    kernel.exclude({QUERY.id: Failure(Epoch(2), "a reason")})
    assert {name: query.internal for name, query in kernel.queries.items()} == {QUERY.id: True, READER.id: False}
    assert kernel.released[WINDOW][QUERY.id] == 10
    kernel.exclude({QueryId("r"): Failure(Epoch(2), "another")})
    assert not kernel.queries
    assert not kernel.released[WINDOW]
