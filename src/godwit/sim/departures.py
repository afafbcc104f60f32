"""Schedules in which devices leave and come back, made of others: nothing of a device that left may be missed or held.

Whoever comes back is far ahead of all others: what it sends can then be late only by a mistake.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from godwit.sim.schedule import Action, Enter, Forget, Leave, Put, Schedule, Send, draw
from godwit.sim.worlds import DEVICES, LEAVES, PARENT

#: longer than a schedule lasts, in event time
LATER = 1000


def draw_departures(seed: int) -> Schedule:
    """The schedule of a seed, with devices that leave and come back, and operators that are put elsewhere by hand."""
    rng, schedule = Random(seed), draw(seed)
    base, away = dict.fromkeys(DEVICES, 0), set[str]()
    joins = 0
    actions: list[Action] = []
    for action in schedule.actions:
        if isinstance(action, Send):
            if action.device in away:
                continue
            moved = tuple((at + base[action.device], k, v) for at, k, v in action.readings)
            action = replace(action, readings=moved)
        actions.append(action)
        chance = rng.random()
        if chance < 0.08:
            device = rng.choice(DEVICES)
            if device in away:
                joins += 1
                base[device] = joins * LATER
                away.discard(device)
                actions.append(Enter(device, rng.choice([*LEAVES, "c"])))
            elif len(away) < len(DEVICES) - 1:
                away.add(device)
                actions.append(Leave(device))
        elif chance < 0.13:
            actions.append(Forget())
        elif chance < 0.16:
            actions.append(Put("q0", 3, rng.choice(list(PARENT))))
    return replace(schedule, actions=tuple(actions))
