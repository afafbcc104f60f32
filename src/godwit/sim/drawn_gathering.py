"""Schedules in which devices send little by little, and rows gather; now and then a device or keys move."""

from __future__ import annotations

from random import Random

from godwit.migration.phases import KEY_STRATEGIES
from godwit.sim.schedule import (
    Action,
    CancelKeys,
    Deliver,
    Move,
    MoveKeys,
    Schedule,
    Send,
    Settle,
    Sight,
    SubmitQuery,
    Tick,
)
from godwit.sim.worlds import FEEDS, LEAVES, REGIONS

#: whose results come with the watermark, and one of which some do
GATHER = ("tumbling", "hopping", "session", "both", "counted_join", "nested", "counted_outer", "ranked", "joined")


def draw_gathering(seed: int, longest: int = 60) -> Schedule:
    """A random schedule; the same seed gives the same one."""
    rng = Random(seed)
    rule = rng.choice(["bottom-up", "bottom-up", "top-down", "nearest-common-ancestor"])
    kind = rng.choice(GATHER)
    actions: list[Action] = [SubmitQuery("q0", kind, 0)]
    if rng.random() < 0.3:
        actions.append(SubmitQuery("q1", rng.choice([kind, rng.choice(GATHER)]), 1))
    calm = rng.random() < 0.5
    at = 10
    for _ in range(rng.randint(longest // 2, longest)):
        at += rng.choice([0, 0, 1, 2])
        actions += _some(rng, at, calm)
    return Schedule(seed, rule, "incremental", tuple(actions), gathers=True)


def _some(rng: Random, at: int, calm: bool) -> list[Action]:
    kind = rng.random()
    device = rng.choice([name for devices in FEEDS.values() for name in devices])
    if kind < 0.6:
        stream = rng.choice([stream for stream, devices in FEEDS.items() if device in devices])
        times = sorted(at + rng.randint(-1, 1) for _ in range(rng.randint(1, 2)))
        return [Send(device, stream, tuple((ts, rng.randint(0, 3), rng.randint(0, 3)) for ts in times))]
    if kind < 0.75:
        seen = Sight((rng.randint(0, 2), rng.randint(0, 2)), rng.randint(0, 2), rng.random() < 0.8)
        return [Tick(rng.choice(list(REGIONS)), seen, rng.choice(["", "", "", "staged", "committed"]))]
    if kind < 0.93 or calm:
        return [Settle()]
    if kind < 0.97:
        return [Move(device, rng.choice(LEAVES)), Deliver(rng.randint(0, 3))]
    some = tuple(sorted({rng.randint(0, 3), rng.randint(0, 3)}))
    moved = MoveKeys("q0", some, rng.choice(LEAVES), rng.choice(sorted(KEY_STRATEGIES)))
    steps: list[Action] = [moved, Deliver(2), CancelKeys()]
    return steps[: rng.randint(2, 3)]
