"""Decisions of the kernel that no random schedule draws: idle sources, lost regions, and what a commit says."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from godwit.ids import DeviceId, SiteId
from godwit.model.deployment import Delta
from godwit.protocol.commit import ProtocolCommit
from godwit.protocol.inputs import Inputs
from godwit.protocol.watermarks import NEVER, Mark, source_id
from tests.protocol.pair import EAST, LEFT, NORTH, QUERY, WEST, WINDOW, Pair, deployment, window_at


def test_a_source_becomes_idle_without_any_other_input() -> None:
    """B9: the kernel says when, and a micro-batch at that time releases the watermark."""
    pair = Pair(deployment(["d1", "d2"], idle_seconds=5.0))
    kernel = pair.regions[WEST].kernel
    assert kernel.next_due(99.0) is None, "nobody has spoken yet"
    pair.step(WEST, {"d1": Mark(1, 50), "d2": Mark(1, 10)}, now=100.0)
    assert kernel.next_due(100.0) == 105.0
    pair.step(WEST, {"d1": Mark(1, 60)}, now=103.0)
    assert kernel.next_due(103.0) == 105.0
    assert not pair.step(WEST, now=104.9).commit
    assert pair.step(WEST, now=105.0).commit
    assert kernel.released[WINDOW] == {QUERY.id: 60}
    assert kernel.next_due(105.0) == 108.0, "now the other one"
    assert kernel.own_marks[0, source_id(LEFT, "d2"), 1].idle


def test_sources_that_are_idle_at_once_are_so_in_the_order_in_which_they_fell_silent() -> None:
    """A late micro-batch finds both idle: as if it had come in time, the watermark follows the one heard from last."""
    pair = Pair(deployment(["d1", "d2"], idle_seconds=5.0))
    kernel = pair.regions[WEST].kernel
    pair.step(WEST, {"d1": Mark(1, 50), "d2": Mark(1, 10)}, now=100.0)
    assert kernel.next_due(100.0) == 105.0
    pair.step(WEST, {"d1": Mark(1, 60)}, now=103.0)
    assert pair.step(WEST, now=120.0).commit
    assert kernel.released[WINDOW] == {QUERY.id: 60}
    assert kernel.next_due(120.0) == 108.0, "the other one, in a micro-batch of its own"
    pair.step(WEST, now=120.0)
    assert all(mark.idle for mark in kernel.own_marks.values())
    assert kernel.next_due(120.0) is None


def test_a_source_that_is_away_never_becomes_idle() -> None:
    pair = Pair(deployment(["d1", "d2"], idle_seconds=5.0))
    pair.step(WEST, {"d1": Mark(1, 50), "d2": Mark(1, 10)}, now=100.0)
    pair.apply(Delta(devices={DeviceId("d2"): None}))
    pair.step(WEST, {"d1": Mark(1, 60)}, now=103.0)
    assert pair.regions[WEST].kernel.next_due(103.0) == 108.0


def test_a_region_that_is_lost_holds_nobody_up() -> None:
    """B13: north once ran the shape and says nothing any more; a hand-over waits for it until it is fenced."""
    pair = Pair(deployment(["d1"]))
    for name, other in ((WEST, EAST), (EAST, WEST)):
        pair.step(name, peers=(other, NORTH))
    pair.apply(window_at("e"))
    for _ in range(5):
        for name, other in ((WEST, EAST), (EAST, WEST)):
            pair.step(name, peers=(other, NORTH))
    assert pair.regions[WEST].kernel.moves.outgoing
    assert pair.regions[EAST].kernel.moves.incoming
    pair.publish(pair.deployment.apply(Delta()), fenced=frozenset({NORTH}))
    for _ in range(5):
        for name, other in ((WEST, EAST), (EAST, WEST)):
            pair.step(name, peers=(other, NORTH))
    assert not pair.regions[WEST].kernel.moves.outgoing
    assert not pair.regions[EAST].kernel.moves.incoming


def test_state_that_a_lost_region_never_sent_is_not_waited_for() -> None:
    pair = Pair(deployment(["d1"]))
    pair.rest()
    pair.apply(window_at("e"))
    pair.step(EAST)
    (move,) = pair.regions[EAST].kernel.moves.incoming
    after = pair.deployment.apply(Delta(devices={DeviceId("d1"): SiteId("e")}, sessions={DeviceId("d1"): 2}))
    pair.publish(after, fenced=frozenset({WEST}))
    decision = pair.step(EAST)
    assert decision.lost == (move,)
    assert pair.regions[EAST].kernel.members((WEST,)) == {EAST}
    assert decision.markers[WINDOW] == after.epoch


def test_marks_are_published_once_and_again_to_a_newcomer() -> None:
    pair = Pair(deployment(["d1", "d2"]))
    pair.step(WEST, {"d1": Mark(1, 5), "d2": Mark(1, 6)})
    for k in range(20):
        pair.step(WEST, {"d1": Mark(1, 10 + k)})
    commits = pair.regions[WEST].commits
    assert [c.snapshot for c in commits[:17]] == [1] * 16 + [17]
    told = [{source for _, source, _ in commit.marks} for commit in commits]
    assert told[0] == {"left/d1", "left/d2", "@0:q0"}
    assert told[5] == {"left/d1"}
    assert told[16] == {"left/d1"}, "a whole memory is for the restart"
    assert [set(commit.messages) for commit in commits] == [{EAST}] + 20 * [set()], "the east keeps no clocks"
    pair.step(WEST, peers=(EAST, NORTH))
    newest = pair.regions[WEST].commits[-1]
    assert newest.messages == {EAST: 2, NORTH: 1}
    assert {source for _, source, _ in newest.marks} == told[0]


def test_a_region_that_begins_to_keep_clocks_is_told_everything_and_the_ends_of_sessions_always() -> None:
    pair = Pair(deployment(["d1", "d2"]))
    pair.step(WEST, {"d1": Mark(1, 5), "d2": Mark(1, 6)})
    pair.rest()
    pair.step(WEST, {"d1": Mark(1, 10)})
    commits, east = pair.regions[WEST].commits, pair.regions[EAST].kernel
    assert not commits[-1].messages
    pair.step(WEST, {"d1": Mark(1, 20, over=True, following=3)})
    assert EAST in commits[-1].messages, "it is forgotten here once it was told"
    pair.step(WEST, {"d2": Mark(1, 30)})
    pair.rest()
    assert east.book.mark(0, source_id(LEFT, "d2")) == Mark(1, 6)
    pair.apply(window_at("e"))
    pair.rest()
    assert east.book.mark(0, source_id(LEFT, "d2")) == Mark(1, 30)
    pair.step(WEST, {"d2": Mark(1, 40)})
    assert EAST in commits[-1].messages


def test_a_commit_without_news_makes_no_message_but_to_whom_it_has_rows_for() -> None:
    pair = Pair(deployment(["d1"]))
    pair.step(WEST, {"d1": Mark(1, 5)})
    pair.rest()
    kernel, number = pair.regions[WEST].kernel, len(pair.regions[WEST].commits)
    inputs: Inputs[Any] = Inputs(peers=(EAST,), positions=kernel.positions)
    decision = kernel.take_in(inputs, 0.0)
    assert not decision.commit
    kernel.commit(inputs, decision, number + 1)  # how far it is drained, though nobody waits for that
    before = dict(kernel.outbox)
    assert kernel.commit(inputs, decision, number + 2).messages == {}
    assert kernel.commit(inputs, decision, number + 3, {EAST}).messages == {EAST: before[EAST] + 1}


def test_a_region_that_was_lost_and_comes_back_is_told_everything() -> None:
    pair = Pair(deployment(["d1"]))
    pair.step(WEST, {"d1": Mark(1, 5)})
    pair.rest()
    pair.publish(pair.deployment.apply(Delta()), fenced=frozenset({EAST}))
    pair.step(WEST, peers=())
    assert EAST not in pair.regions[WEST].commits[-1].messages
    pair.publish(pair.deployment.apply(Delta()))
    pair.step(WEST)
    newest = pair.regions[WEST].commits[-1]
    assert EAST in newest.messages
    assert "left/d1" in {source for _, source, _ in newest.marks}


def test_a_commit_survives_being_written_and_read() -> None:
    pair = Pair(deployment(["d1"]))
    pair.step(WEST, {"d1": Mark(1, 5)})
    pair.apply(window_at("e"))
    pair.rest()
    for region in pair.all():
        records = [json.loads(json.dumps(commit.to_json())) for commit in region.commits]
        assert [ProtocolCommit.from_json(record) for record in records] == region.commits


def test_a_watermark_from_before_a_withdrawal_is_not_the_new_querys() -> None:
    """The east reads what the west released for a query only after it was withdrawn and another has taken its name."""
    pair = Pair(deployment(["d1"]))
    pair.rest()
    pair.step(WEST, {"d1": Mark(1, 50)})
    assert pair.regions[WEST].kernel.released[WINDOW] == {QUERY.id: 50}
    pair.apply(Delta({QUERY.id: None}))
    pair.apply(Delta({QUERY.id: replace(QUERY, begins=3)}))
    pair.step(EAST)
    released = {s: marks for (at, s), marks in pair.regions[EAST].kernel.book.known.items() if at == WINDOW}
    assert all(mark.clock == NEVER for marks in released.values() for mark in marks), released
