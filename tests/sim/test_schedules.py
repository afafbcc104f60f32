"""Random schedules of rows, changes, delays, losses and crashes, each judged by the oracle.

GODWIT_SCHEDULES says how many; a failing one prints its seed and its script. To see one alone:
`python -m godwit.sim.run --seed N`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from godwit.ids import DeviceId, QueryId
from godwit.migration.phases import KEY_STRATEGIES
from godwit.model.changes import DeviceAdded, DeviceRemoved
from godwit.model.changes import apply as apply_changes
from godwit.model.keys import listed
from godwit.model.topology import Device, Topology
from godwit.protocol.commit import ProtocolCommit, recall
from godwit.protocol.idle import IdleSources
from godwit.protocol.kernel import RegionKernel
from godwit.protocol.memory import Snapshot
from godwit.sim.run import play, run, story
from godwit.sim.schedule import (
    Action,
    ChangePlan,
    Deliver,
    Move,
    MoveKeys,
    Put,
    Schedule,
    Send,
    Sight,
    SubmitQuery,
    Tick,
    Timeout,
    Wait,
    draw,
    draw_keys,
    draw_moving_sinks,
    draw_outer,
    draw_outer_keys,
    draw_passing,
    draw_ranked_keys,
    draw_replicas,
    draw_scattered,
    draw_single_keys,
)
from godwit.sim.world import World
from godwit.sim.worlds import LEFT, STREAMS, topology
from tests.sim.broken import (
    BROKEN,
    BROKEN_KEYS,
    BROKEN_ORDER,
    BROKEN_OUTER,
    BROKEN_OUTER_KEYS,
    BROKEN_RANKED_KEYS,
    BROKEN_SCATTERED,
    BROKEN_SINKS,
    BROKEN_STRATEGIES,
    PASSED_BY,
    only_by,
    ranked_by,
)

SCHEDULES = int(os.environ.get("GODWIT_SCHEDULES", "10000"))


@pytest.mark.timeout(900)  # beside tests that keep the cores busy
def test_every_schedule_ends_with_the_oracles_answer() -> None:
    bad = run(SCHEDULES)
    assert not bad, f"{len(bad)} of {SCHEDULES} schedules failed; the first:\n{story(draw(bad[0]))}"


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_schedules() -> None:
    bad = run(100_000, first=1_000_000)
    assert not bad, f"{len(bad)} schedules failed; the first:\n{story(draw(bad[0]))}"


@pytest.mark.parametrize(
    "seed",
    [
        1_006_314,  # a query begins while a device is away, and nobody ran its shape where the device was last
        1_043_708,
        1_033_948,  # a device is away when the epoch that brought it there is taken back
        1_061_075,  # a region takes in several epochs at once, and with them two sessions of a device
    ],
)
def test_schedules_that_were_wrong_once(seed: int) -> None:
    assert not play(draw(seed)), story(draw(seed))


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_rule_is_caught(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    owner, name, rule, told = BROKEN[broken]
    schedule = draw(told) if isinstance(told, int) else told
    assert play(schedule) == []
    monkeypatch.setattr(owner, name, rule)
    assert play(schedule)


@pytest.mark.parametrize("broken", BROKEN_KEYS)
def test_a_broken_rule_of_key_migration_is_caught(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    owner, name, rule, told = BROKEN_KEYS[broken]
    schedule = draw_keys(told) if isinstance(told, int) else told
    assert play(schedule) == []
    monkeypatch.setattr(owner, name, rule)
    assert play(schedule)


@pytest.mark.parametrize(("strategy", "broken"), BROKEN_STRATEGIES)
def test_a_broken_rule_of_each_strategy_is_caught(monkeypatch: pytest.MonkeyPatch, strategy: str, broken: str) -> None:
    owner, name, rule, told = BROKEN_STRATEGIES[strategy, broken]
    schedule = only_by(strategy, told)
    assert play(schedule) == []
    monkeypatch.setattr(owner, name, rule)
    assert play(schedule)


def test_every_strategy_has_a_rule_that_is_broken() -> None:
    assert {strategy for strategy, _ in BROKEN_STRATEGIES} == set(KEY_STRATEGIES)


def test_keys_that_stay_do_not_wait_for_those_that_come() -> None:
    """The watermark is held for the keys whose state is on its way, not for all keys of the operator."""
    world = World(PASSED_BY)
    for action in PASSED_BY.actions:
        world.play(action)
    east = next(runner for (region, _), runner in world.runners.items() if region == "east")
    assert [move.keys for move in east.kernel.moves.incoming] == [listed("0")]
    assert world.emitted(QueryId("q0")) == {(1, 30, 2, 11): 1}
    assert play(PASSED_BY) == []


@pytest.mark.parametrize(
    "seed",
    [
        2689,  # a copy is opened at a region that still waits for the state of the same keys
        30048,  # a query that is suspended for its keys loses its place
        20649,  # a query that is suspended for its keys is moved by a change of the topology
    ],
)
def test_key_schedules_that_were_wrong_once(seed: int) -> None:
    assert not play(draw_keys(seed)), story(draw_keys(seed))


def test_a_key_that_comes_back_while_the_range_around_it_is_copied_is_counted_once() -> None:
    actions: tuple[Action, ...] = (
        SubmitQuery("q0", "hopping", 0),
        MoveKeys("q0", (1, 2), "a1", "delta"),
        MoveKeys("q0", ("buckets", 7, 38), "b2", "hot-backup"),  # of the rest: 1 and 2 are listed
        MoveKeys("q0", (2,), "c", "delta"),  # in the epoch that opens the copy
        MoveKeys("q0", (2,), "b1", "full-restart"),
        Send("d2", "left", ((36, 0, 2), (34, 2, 3))),
    )
    schedule = Schedule(0, "top-down", "incremental", actions)
    assert not play(schedule), story(schedule)


@pytest.mark.parametrize("operator", [3, 5])
@pytest.mark.parametrize("strategy", ["falcon", "falcon-oop", "hot-backup"])
def test_keys_that_are_copied_in_the_last_of_several_stages(operator: int, strategy: str) -> None:
    """Their operator, or the one above, is stopped and deployed for a hand placement that was requested with them."""
    keys, put = MoveKeys("q0", (0,), "a1", strategy), Put("q0", operator, "b2")
    schedule = Schedule(0, "top-down", "holistic-concurrent", (SubmitQuery("q0", "chain", 0), keys, put))
    assert not play(schedule), story(schedule)


def test_a_query_without_a_place_is_not_suspended_for_its_keys() -> None:
    """It would be taken for one that has a place, and never get one."""
    actions = (
        SubmitQuery("q0", "counted_chain", 0),
        Timeout(),
        ChangePlan("q0", "(a JOIN c) JOIN b", "moving-state"),
        Move("d2", "b2"),
        MoveKeys("q0", (1,), "b1", "full-restart"),
    )
    schedule = Schedule(0, "top-down", "holistic-concurrent", actions)
    assert not play(schedule), story(schedule)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("drawing", "count"),
    [(draw_keys, SCHEDULES // 5), (draw_single_keys, SCHEDULES // 40), (draw_replicas, SCHEDULES // 40)],
)
def test_every_schedule_that_migrates_keys_ends_with_the_oracles_answer(
    drawing: Callable[[int], Schedule], count: int
) -> None:
    bad = run(count, drawing=drawing)
    assert not bad, f"{len(bad)} of {count} schedules failed; the first:\n{story(drawing(bad[0]))}"


def test_every_schedule_of_outer_joins_ends_with_the_oracles_answer() -> None:
    bad = run(SCHEDULES // 10, drawing=draw_outer)
    assert not bad, f"{len(bad)} of {SCHEDULES // 10} schedules failed; the first:\n{story(draw_outer(bad[0]))}"


def test_rows_of_a_device_come_out_as_it_sent_them() -> None:
    bad = run(SCHEDULES // 10, drawing=draw_passing)
    assert not bad, f"{len(bad)} of {SCHEDULES // 10} schedules failed; the first:\n{story(draw_passing(bad[0]))}"


@pytest.mark.parametrize("broken", BROKEN_ORDER)
def test_a_broken_rule_of_the_order_is_caught(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    owner, name, rule, seed = BROKEN_ORDER[broken]
    assert play(draw_passing(seed)) == []
    monkeypatch.setattr(owner, name, rule)
    assert play(draw_passing(seed))


def test_results_that_leave_where_they_are_made_are_all_there_in_order() -> None:
    bad = run(SCHEDULES // 20, drawing=draw_scattered)
    assert not bad, f"{len(bad)} of {SCHEDULES // 20} schedules failed; the first:\n{story(draw_scattered(bad[0]))}"


@pytest.mark.parametrize("broken", BROKEN_SCATTERED)
def test_a_broken_rule_of_results_that_leave_where_they_are_made_is_caught(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    owner, name, rule, seed = BROKEN_SCATTERED[broken]
    assert play(draw_scattered(seed)) == []
    monkeypatch.setattr(owner, name, rule)
    assert play(draw_scattered(seed))


@pytest.mark.timeout(900)
def test_every_schedule_with_sinks_that_move_keeps_the_order() -> None:
    bad = run(SCHEDULES // 10, drawing=draw_moving_sinks)
    assert not bad, f"{len(bad)} of {SCHEDULES // 10} schedules failed; the first:\n{story(draw_moving_sinks(bad[0]))}"


@pytest.mark.parametrize("broken", BROKEN_SINKS)
def test_a_broken_rule_of_sinks_that_move_is_caught(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    owner, name, rule, seed = BROKEN_SINKS[broken]
    assert play(draw_moving_sinks(seed)) == []
    monkeypatch.setattr(owner, name, rule)
    assert play(draw_moving_sinks(seed))


@pytest.mark.parametrize("broken", BROKEN_OUTER)
def test_a_broken_rule_of_outer_joins_is_caught(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    owner, name, rule, seed = BROKEN_OUTER[broken]
    assert play(draw_outer(seed)) == []
    monkeypatch.setattr(owner, name, rule)
    assert play(draw_outer(seed))


@pytest.mark.timeout(900)
def test_every_schedule_that_migrates_keys_of_outer_joins_ends_with_the_oracles_answer() -> None:
    bad = run(SCHEDULES // 25, drawing=draw_outer_keys)
    assert not bad, f"{len(bad)} of {SCHEDULES // 25} schedules failed; the first:\n{story(draw_outer_keys(bad[0]))}"


@pytest.mark.parametrize("broken", BROKEN_OUTER_KEYS)
def test_a_broken_rule_of_outer_joins_keys_is_caught(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    owner, name, rule, told = BROKEN_OUTER_KEYS[broken]
    schedule = draw_outer_keys(told) if isinstance(told, int) else told
    assert play(schedule) == []
    monkeypatch.setattr(owner, name, rule)
    assert play(schedule)


@pytest.mark.timeout(900)
def test_every_schedule_that_migrates_keys_of_ranks_ends_with_the_oracles_answer() -> None:
    bad = run(SCHEDULES // 20, drawing=draw_ranked_keys)
    assert not bad, f"{len(bad)} of {SCHEDULES // 20} schedules failed; the first:\n{story(draw_ranked_keys(bad[0]))}"


@pytest.mark.parametrize("broken", BROKEN_RANKED_KEYS)
def test_a_broken_rule_of_ranks_whose_keys_migrate_is_caught(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    owner, name, rule, *told = BROKEN_RANKED_KEYS[broken]
    assert play(ranked_by(*told)) == []
    monkeypatch.setattr(owner, name, rule)
    assert play(ranked_by(*told))


def test_deltas_lead_to_the_same_memory_as_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """After every commit of every schedule: the last whole memory and the deltas since, as read from JSON."""
    whole: dict[tuple[str, str, int], Snapshot] = {}
    commit = RegionKernel.commit

    def remembering(kernel: RegionKernel, inputs: Any, decision: Any, number: int, *rest: Any) -> ProtocolCommit:
        made = commit(kernel, inputs, decision, number, *rest)
        whole[kernel.region, kernel.shape.key, number] = kernel.snapshot()
        return made

    monkeypatch.setattr(RegionKernel, "commit", remembering)
    deltas = 0
    for seed in range(40):
        whole.clear()
        world = World(draw(seed))
        for action in world.schedule.actions:
            world.play(action)
        world.finish()
        for (name, shape), runner in world.runners.items():
            known = None
            for number, made in enumerate(runner.commits, start=1):
                deltas += "delta" in made.memory
                known = recall(known, json.loads(json.dumps([made.memory])))
                assert known == whole[name, shape, number], f"seed {seed}, {name}, commit {number}"
    assert deltas > 300


@pytest.mark.parametrize("ignored", [False, True], ids=["as it is", "idle sources ignored"])
def test_windows_close_when_a_device_is_silent_for_too_long(monkeypatch: pytest.MonkeyPatch, ignored: bool) -> None:
    monkeypatch.setitem(STREAMS, LEFT, replace(STREAMS[LEFT], idle_seconds=60.0))
    if ignored:
        monkeypatch.setattr(IdleSources, "mark", lambda *_: None)
    actions: tuple[Action, ...] = (
        SubmitQuery("q0", "tumbling", 0),
        Send("d1", "left", ((21, 0, 1),)),
        Send("d2", "left", ((21, 0, 2),)),
        *(Tick(region, Sight()) for region in ("west", "cloud", "west", "cloud")),
        Wait(30),
        Send("d1", "left", ((45, 0, 1),)),
        *(Tick(region, Sight()) for region in ("west", "cloud", "west", "cloud")),
        Wait(31),
        *(Tick(region, Sight()) for region in ("west", "cloud", "west", "cloud")),
    )
    world = World(Schedule(0, "bottom-up", "incremental", actions))
    for action in actions:
        world.play(action)
    assert bool(world.emitted(QueryId("q0"))) is not ignored


def test_the_same_seed_is_the_same_schedule_and_the_script_can_be_read() -> None:
    assert draw(17) == draw(17)
    assert draw(17) != draw(18)
    script = draw(17).script()
    assert script.startswith("seed 17: rule ")
    assert "SubmitQuery(name='q0'" in script


def test_a_schedule_written_by_hand() -> None:
    """d1 carries an open session from west to east while its rows are still being read."""
    actions = (
        SubmitQuery("q0", "session", 0),
        Send("d1", "left", ((20, 0, 1), (21, 0, 2))),
        Move("d1", "b1"),
        Send("d1", "left", ((23, 0, 3),)),
        Move("d1", None),
        Send("d1", "left", ((26, 0, 4), (40, 0, 1))),
    )
    schedule = Schedule(0, "bottom-up", "incremental", actions)
    assert play(schedule) == []
    assert "Move(device='d1', site='b1')" in story(schedule)


def _d3_is_somewhere() -> Topology:
    """As the others, but nobody has attached d3 yet."""
    return apply_changes(topology(), [DeviceRemoved(DeviceId("d3")), DeviceAdded(Device(DeviceId("d3")))])


EVERYWHERE = [Tick(region, Sight()) for region in ("west", "east", "cloud")]


@pytest.mark.parametrize("kind", ["tumbling", "both", "counted_join"])
def test_a_device_that_was_never_attached_holds_nobody_back(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Windows close without it; when it comes, what it sends from then on counts."""
    monkeypatch.setattr("godwit.sim.world.topology", _d3_is_somewhere)
    sends = [
        Send(device, stream, ((20, 0, 3), (45, 0, 3)))
        for device, stream in (("d1", "left"), ("d2", "left"), ("d2", "right"))
    ]
    comes = [Move("d3", "b1"), Deliver(9), *EVERYWHERE * 2, Deliver(9)]
    later = [
        Send(d, s, ((at, 0, 4),)) for d, s in (("d3", "right"), ("d2", "right"), ("d1", "left")) for at in (50, 80)
    ]
    world = World(Schedule(0, "bottom-up", "incremental", ()))
    for action in [SubmitQuery("q0", kind, 1), Deliver(9), *EVERYWHERE, *sends, *EVERYWHERE * 4]:
        world.play(action)
    assert world.emitted(QueryId("q0"))
    for action in [*comes, *later, *EVERYWHERE * 4]:
        world.play(action)
    world.finish()
    assert world.faults() == []


def test_a_device_that_comes_at_any_moment_and_sends_nothing_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("godwit.sim.world.topology", _d3_is_somewhere)
    for seed in range(400):
        schedule = draw(seed)
        silent = tuple(a for a in schedule.actions if not (isinstance(a, Send) and a.device == "d3"))
        schedule = replace(schedule, actions=silent)
        assert not play(schedule), story(schedule)
