"""The engine's part of a commit: deltas lead to the same memory as whole ones, and cost what changed."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from godwit.errors import StateError
from godwit.storage.segment import Segment
from godwit.storage.state_memory import StateMemory, difference, remembered, since_snapshot
from godwit.storage.store import Store


def segment(number: int) -> Segment:
    return Segment((f"data/{number}.parquet",), number, 10 * number, "{}", sums=(number,))


def changed(memory: StateMemory, rng: random.Random, number: int) -> StateMemory:
    """Some states get a segment, lose some, are rewritten, begin or end."""
    states = {name: list(live) for name, live in memory.states.items()}
    name = rng.choice("abc")
    live = states.setdefault(name, [])
    live.append(segment(number))
    states[name] = [one for one in live if rng.random() < 0.9]
    if rng.random() < 0.1:
        states.pop(rng.choice(sorted(states)))
    rooms = {} if rng.random() < 0.5 else {'["parked"]': (segment(number),)}
    rest = {"underway": [{"n": number}] if rng.random() < 0.2 else [], "seen": {}}
    return StateMemory({k: tuple(v) for k, v in states.items()}, rooms, rest)


@pytest.mark.parametrize("seed", range(20))
def test_deltas_lead_to_the_same_memory(seed: int) -> None:
    rng, now, known = random.Random(seed), StateMemory(rest={"underway": [], "seen": {}}), None
    for number in range(60):
        before, now = now, changed(now, rng, number)
        memory: dict[str, Any] = {"delta": difference(before, now)} if number % 16 else {"whole": now.to_json()}
        known = remembered(known, [json.loads(json.dumps({"memory": memory}))])
        assert known == now


def test_a_delta_costs_what_changed_and_not_what_there_is() -> None:
    many = tuple(map(segment, range(1000)))
    before = StateMemory({"a": many, "b": many})
    after = StateMemory({"a": (*many[1:], segment(2000)), "b": many})
    assert len(json.dumps(difference(before, after))) < 400


def test_a_restart_says_which_commits_are_missing() -> None:
    log = Store.memory().log("commits")
    for number in range(1, 5):
        log.append({"protocol": {"snapshot": 2}, "number": number})
    assert [record["number"] for record in since_snapshot(log)] == [2, 3, 4]
    list(log.drop(4))
    with pytest.raises(StateError, match="lacks commits from 2 on"):
        since_snapshot(log)
