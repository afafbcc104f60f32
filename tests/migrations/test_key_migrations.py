"""The state machine of key migrations: phases one after the other, disjoint keys side by side, others queue."""

from __future__ import annotations

import pytest

from godwit.control.control_plane import ControlPlane
from godwit.control.events import Publish
from godwit.control.restore import Hints, restore
from godwit.errors import ConfigError, DeploymentError
from godwit.ids import Epoch, QueryId, RegionId, SiteId
from godwit.migration.key_migrations import KeyMigration, KeyMigrations, RouteKeys
from godwit.migration.phases import AUTO, KEY_STRATEGIES, Await, Cancel, Copy, Switch, chosen, phases
from godwit.model.keys import HashRange, KeySet, listed
from godwit.model.ranking import Ranked, TopRows
from godwit.model.running import OverAhead
from godwit.protocol.handover import Migration
from godwit.sim.worlds import FEEDS, STREAMS, asof, full_join, joined, running, session, topology, tumbling

QUERY, WEST, EAST = QueryId("q"), RegionId("west"), RegionId("east")


class Player:
    """Publishes what is asked for, and lets state arrive when told to."""

    def __init__(self) -> None:
        self.keys, self.epoch = KeyMigrations(), 0
        self.told: list[str] = []

    def ask(self, strategy: str, *keys: str) -> int:
        return self.keys.ask(QUERY, 3, listed(*keys), EAST, "b1", strategy).number

    def publish(self) -> list[Migration]:
        """One epoch for all phases that can be carried out."""
        changes = list(self.keys.changes(lambda one: [(WEST, one.keys)]))
        self.epoch += bool(changes)
        moves = [self._move(change) for change in changes]
        self.told += [f"{c.number} {type(c.phase).__name__}" for c in changes]
        self.keys.published(Epoch(self.epoch), [c.number for c in changes], moves)
        return moves

    def _move(self, change: RouteKeys) -> Migration:
        copy = isinstance(change.phase, Copy | Cancel)
        flags = {"copy": copy, "cancel": isinstance(change.phase, Cancel)}
        place = (QUERY, change.operator, WEST, EAST, "a", "b")
        return Migration(Epoch(self.epoch), *place, change.keys, change.number, **flags)  # type: ignore[misc]


def test_falcon_copies_awaits_switches_and_awaits() -> None:
    assert [type(p) for p in phases("falcon")] == [Copy, Await, Switch, Await]
    player = Player()
    number = player.ask("falcon", "k1")
    (copy,) = player.publish()
    assert player.publish() == []
    player.keys.arrived(copy)
    (switch,) = player.publish()
    assert (copy.copy, switch.copy) == (True, False)
    player.keys.arrived(copy)  # told twice: nothing
    assert number in player.keys.active
    player.keys.arrived(switch)
    assert not player.keys.active
    assert [(one.number, outcome, one.epochs) for one, outcome in player.keys.ended] == [(number, "done", (1, 2))]


def test_migrations_that_are_held_begin_together_when_they_are_released() -> None:
    player = Player()
    for key in ("k1", "k2"):
        player.keys.ask(QUERY, 3, listed(key), EAST, "b1", "delta", held=True)
    player.ask("delta", "k2", "k3")
    assert player.publish() == []
    assert player.keys.held == {(QUERY, 3)}
    assert player.keys.busy
    assert [one.reason for one in player.keys.queued][2] == "migration 2 has keys of it under way"
    player.keys.release(QUERY, 4)
    assert player.publish() == []
    player.keys.release(QUERY, 3)
    (both,) = player.publish()
    assert both.keys == listed("k1", "k2")
    player.keys.arrived(both)
    (third,) = player.publish()
    assert third.keys == listed("k2", "k3")


def test_disjoint_keys_go_side_by_side_and_overlapping_ones_queue_with_the_reason() -> None:
    player = Player()
    player.ask("delta", "k1", "k2")
    player.ask("delta", "k2", "k3")
    player.ask("partial-pause", "k4")
    player.ask("delta", "k3")
    first, third = player.publish()
    assert player.told == ["1 Switch", "3 Switch"]
    assert [(one.number, one.reason) for one in player.keys.queued] == [
        (2, "migration 1 has keys of it under way"),
        (4, "migration 2 has keys of it under way"),
    ]
    player.keys.arrived(third)
    assert player.publish() == []
    player.keys.arrived(first)
    (second,) = player.publish()
    player.keys.arrived(second)
    player.publish()
    assert player.told == ["1 Switch", "3 Switch", "2 Switch", "4 Switch"]


def test_keys_that_lie_in_several_places_become_several_migrations() -> None:
    keys = KeyMigrations()
    keys.ask(QUERY, 3, listed("k1", "k2"), EAST, "b1", "falcon")

    def split(one: KeyMigration) -> list[tuple[RegionId, KeySet]]:
        return [(WEST, listed("k1")), (RegionId("north"), listed("k2"))]

    assert [(c.number, c.keys) for c in keys.changes(split)] == [(1, listed("k1")), (2, listed("k2"))]
    keys.ask(QUERY, 3, listed("k9"), EAST, "b1", "delta")
    assert not list(keys.changes(lambda one: []))
    assert [outcome for _, outcome in keys.ended] == ["all there already"]


def test_keys_that_begin_together_and_go_the_same_way_go_as_one() -> None:
    player = Player()
    numbers = [player.ask("falcon", key) for key in ("k1", "k2", "k3")]
    other = player.ask("delta", "k4")
    copy, apart = player.publish()
    assert (copy.keys, copy.number, apart.number) == (listed("k1", "k2", "k3"), numbers[0], other)
    waits = player.ask("falcon", "k2")
    player.publish()
    assert [one.reason for one in player.keys.queued] == ["migration 1 has keys of it under way"]
    player.keys.arrived(copy)
    (switch,) = player.publish()
    player.keys.arrived(switch)
    done = [(one.number, one.keys, outcome, one.epochs) for one, outcome in player.keys.ended]
    assert done == [(n, listed(k), "done", (1, 2)) for n, k in zip(numbers, ("k1", "k2", "k3"), strict=True)]
    assert [move.number for move in player.publish()] == [waits]


@pytest.mark.parametrize("cancelled", [0, 1])
def test_one_of_several_that_go_together_is_cancelled_and_the_others_begin_again(cancelled: int) -> None:
    player = Player()
    numbers = [player.ask("falcon", key) for key in ("k1", "k2", "k3")]
    player.publish()
    player.keys.cancel(numbers[cancelled])
    (cancel,) = player.publish()
    assert (cancel.cancel, cancel.keys) == (True, listed("k1", "k2", "k3"))
    assert [(one.number, outcome) for one, outcome in player.keys.ended] == [(numbers[cancelled], "cancelled")]
    (again,) = player.publish()
    assert again.keys == (listed("k2", "k3") if cancelled == 0 else listed("k1", "k3"))
    assert again.number != cancel.number, "what is left of the copy that was given up may still be there"


def test_a_replica_is_refreshed_and_taken_over_by_the_last_difference_alone() -> None:
    player = Player()
    replica = player.ask("replica", "k1")
    (first,) = player.publish()
    assert player.keys.busy
    player.keys.arrived(first)
    assert player.publish() == []
    assert not player.keys.busy, "a replica that stands holds nobody up"
    for _ in range(3):
        player.keys.refresh()
        (again,) = player.publish()
        player.keys.arrived(again)
    assert player.keys.active[replica].copies == (again,)
    number = player.ask("hot-backup", "k1")
    (switch,) = player.publish()
    assert (switch.number, switch.copy) == (replica, False)
    player.keys.arrived(switch)
    assert [(one.number, outcome) for one, outcome in player.keys.ended] == [(number, "done")]
    assert player.told == ["1 Copy", *["1 Copy"] * 3, "1 Switch"]


def test_a_replica_of_keys_that_go_elsewhere_is_given_up_first() -> None:
    player = Player()
    player.ask("replica", "k1", "k2")
    (first,) = player.publish()
    player.keys.arrived(first)
    player.ask("delta", "k1")
    player.publish()
    player.publish()
    assert player.told == ["1 Copy", "1 Cancel", "2 Switch"]


def test_only_a_copy_can_be_cancelled() -> None:
    player = Player()
    number = player.ask("falcon", "k1")
    (copy,) = player.publish()
    player.keys.cancel(number)
    (cancel,) = player.publish()
    assert cancel.cancel
    assert [outcome for _, outcome in player.keys.ended] == ["cancelled"]
    player.keys.arrived(copy)  # it was on its way
    number = player.ask("falcon", "k1")
    (copy,) = player.publish()
    player.keys.arrived(copy)
    player.publish()
    with pytest.raises(DeploymentError, match="migrate them back"):
        player.keys.cancel(number)
    with pytest.raises(DeploymentError, match="none under way"):
        player.keys.cancel(77)


def test_a_copy_that_an_earlier_process_opened_is_given_up() -> None:
    keys = KeyMigrations(7000)
    keys.give_up(12, QUERY, 3, listed("k1"), EAST, dual=True)
    assert keys.ask(QUERY, 3, listed("k1"), EAST, "b1", "delta").number == 7001
    (change,) = keys.changes(lambda one: [(WEST, one.keys)])
    assert (change.number, change.phase, change.dual) == (12, Cancel(), True)
    assert [one.reason for one in keys.queued] == ["migration 12 has keys of it under way"]
    keys.published(Epoch(8), [12], ())
    assert [change.number for change in keys.changes(lambda one: [(WEST, one.keys)])] == [7001]


@pytest.mark.parametrize("released", [False, True])
def test_state_that_an_earlier_process_had_regions_hold_back_goes_after_a_restart(released: bool) -> None:
    """The next epoch lets it go: the process that comes up sees to it that there is one, and only one."""
    plane = ControlPlane(topology(), streams=STREAMS, feeds=FEEDS)
    plane.submit(tumbling("q", 0))
    plane.settle()
    (stops,) = plane.migrate(QUERY, 3, HashRange(0, 20), SiteId("b1"), "partial-pause")
    assert isinstance(stops, Publish)
    assert [(move.epoch, move.held) for move in stops.moves] == [(plane.epoch, True)]
    if released:
        told = [one for region in sorted(plane.planner.regions) for one in plane.acknowledge(region, plane.epoch)]
        assert [[move.release for move in one.moves] for one in told if isinstance(one, Publish)] == [[True]]

    again = ControlPlane(topology(), streams=STREAMS, feeds=FEEDS, epoch=plane.epoch)
    restore(again.planner, plane.deployment, Hints())
    published = [one for one in again.resume((), stops.moves) if isinstance(one, Publish)]
    assert [[move.release for move in one.moves] for one in published] == ([] if released else [[True]])
    assert not again.keys.busy
    assert again.deployment.key_routes == plane.deployment.key_routes


def test_a_query_that_goes_takes_its_migrations_with_it() -> None:
    player = Player()
    player.ask("delta", "k1")
    player.ask("delta", "k1")
    player.publish()
    player.keys.forget(QUERY)
    assert not player.keys.active
    assert not player.keys.queued


def test_what_stopped_for_nothing_goes_on() -> None:
    player = Player()
    player.ask("full-restart", "k1")
    keys = player.keys
    for expected in ("Suspend", "Switch", "Proceed"):
        (change,) = keys.changes(lambda one: [(WEST, one.keys)])
        assert type(change.phase).__name__ == expected
        keys.published(Epoch(1), [change.number], ())  # the switch moves nothing
        keys.in_force(Epoch(1))
    assert not keys.active


def test_auto_takes_what_the_operator_declares_and_what_cannot_work_is_refused() -> None:
    window = tumbling("q", 0).shape.plan.operators[3]
    dual = running("q", 0).shape.plan.operators[2]
    join = joined("q", 0).shape.plan.operators[3]
    outer = full_join("q", 0).shape.plan.operators[3]
    newest = asof("q", 0).shape.plan.operators[3]
    sessions = session("q", 0).shape.plan.operators[3]
    ahead = OverAhead((0,), ("k", "ts"), ("k",), "ts", (), ())
    ranked, best = Ranked((0,), ("k", "ts"), ("ts",), "ts", ()), TopRows((0,), ("k",), ("k",), (), 1, "place", "ts")
    nodes = (window, dual, join, outer, newest, ahead, ranked, best)
    taken = ["delta", "falcon", "delta", "delta", "falcon", "falcon", "falcon", "falcon"]
    assert [chosen(AUTO, node) for node in nodes] == taken
    any_way = (window, join, outer, newest, ahead, ranked)
    assert all(chosen(name, node) == name for name in KEY_STRATEGIES for node in any_way)
    for name, node, said in (
        ("delta", dual, "cannot run before its state is there"),
        ("delta", best, "cannot run before its state is there"),
        ("hot-backup", sessions, "sessions grow"),
        ("magic", window, "there is no strategy 'magic'"),
    ):
        with pytest.raises(ConfigError, match=said):
            chosen(name, node)
