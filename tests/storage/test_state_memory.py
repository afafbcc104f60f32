"""The engine's part of a commit: deltas lead to the same memory as whole ones, and cost what changed."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from godwit.errors import StateError
from godwit.storage.inline import InlineRows, encode
from godwit.storage.segment import Segment
from godwit.storage.state_memory import StateMemory, difference, remembered, since_snapshot
from godwit.storage.store import Store


def segment(number: int) -> Segment:
    """Every other one travels in the record."""
    inline = InlineRows.of(pa.table({"n": [number]})) if number % 2 else None
    files = () if inline else (f"data/{number}.parquet",)
    return Segment(files, number, 10 * number, "{}", sums=() if inline else (number,), inline=inline)


def read_back(store: Store, record: dict[str, Any]) -> dict[str, Any]:
    """As another process reads it."""
    store.log("l").append(record)
    log = Store(store.disk).log("l")
    found = log.read(log.last)
    assert found is not None
    return found


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
    store = Store.memory()
    rng, now, known = random.Random(seed), StateMemory(rest={"underway": [], "seen": {}}), None
    for number in range(60):
        before, now = now, changed(now, rng, number)
        memory: dict[str, Any] = {"delta": difference(before, now)} if number % 16 else {"whole": now.to_json()}
        known = remembered(known, [read_back(store, {"memory": memory})])
        assert known == now


def test_a_delta_costs_what_changed_and_not_what_there_is() -> None:
    many = tuple(map(segment, range(1000)))
    before = StateMemory({"a": many, "b": many})
    after = StateMemory({"a": (*many[1:], segment(2000)), "b": many})
    assert len(encode(difference(before, after), {}).text) < 400


def test_a_restart_says_which_commits_are_missing() -> None:
    log = Store.memory().log("commits")
    for number in range(1, 5):
        log.append({"protocol": {"snapshot": 2}, "number": number})
    assert [record["number"] for record in since_snapshot(log)] == [2, 3, 4]
    list(log.drop(4))
    with pytest.raises(StateError, match="lacks commits from 2 on"):
        since_snapshot(log)
