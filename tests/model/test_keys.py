"""Key sets and route tables: what is in a set, what overlaps, and how a table changes when keys move."""

from __future__ import annotations

import json
import random

import pytest

from godwit.ids import RegionId
from godwit.model.codec import decode, encode
from godwit.model.keys import (
    BUCKETS,
    REST,
    HashRange,
    KeySet,
    Listed,
    Rest,
    bucket_of,
    contains,
    covers,
    listed,
    overlap,
    ranges,
)
from godwit.model.routing import RouteTable

WEST, EAST, CLOUD = map(RegionId, ("west", "east", "cloud"))
KEYS = [(f"k{n}",) for n in range(200)]
SETS: list[KeySet] = [
    REST,
    listed("k1", "k2"),
    listed("k2", "k3"),
    HashRange(0, 20),
    HashRange(10, 64),
    HashRange(0, 64, frozenset({("k1",), ("k5",)})),
    Rest((listed("k1"), HashRange(0, 20))),
    Rest((HashRange(0, 64),)),
]


@pytest.mark.parametrize("one", SETS)
@pytest.mark.parametrize("other", SETS)
def test_overlap_and_cover_never_say_what_is_not(one: KeySet, other: KeySet) -> None:
    both = [key for key in KEYS if contains(one, key) and contains(other, key)]
    if both:
        assert overlap(one, other)
    if covers(one, other):
        assert all(contains(one, key) for key in KEYS if contains(other, key))


def test_buckets_are_a_checksum_that_does_not_change() -> None:
    assert [bucket_of(key) for key in KEYS[:4]] == [63, 41, 19, 5]
    assert {bucket_of(key) for key in KEYS} <= set(range(BUCKETS))
    assert ranges([1, 2, 3, 7]) == [HashRange(1, 4), HashRange(7, 8)]


def test_a_table_after_any_moves_sends_every_key_where_it_was_last_sent() -> None:
    rng = random.Random(4)
    for _ in range(100):
        table, where = RouteTable.undivided(CLOUD), dict.fromkeys(KEYS, CLOUD)
        turns = 0
        for _ in range(12):
            to = rng.choice([WEST, EAST, CLOUD])
            if rng.random() < 0.5:
                some: KeySet = listed(*rng.sample(KEYS, 3))
                moved = [key for key in KEYS if contains(some, key)]
            else:
                low, high = sorted(rng.sample(range(BUCKETS + 1), 2))
                some = HashRange(low, high)
                # Keys that a finer route names are no part of a range.
                moved = [key for _, part in table.portions(some) for key in KEYS if contains(part, key)]
            table = table.moved(some, to)
            where |= dict.fromkeys(moved, to)
            assert {key: table.route_of(key).process for key in KEYS} == where
            assert table.turn > turns
            turns = table.turn


def test_the_rest_follows_the_placement_and_other_keys_stay() -> None:
    table = RouteTable.undivided(CLOUD).moved(listed("k1"), WEST)
    there = table.following(EAST)
    assert there.route_of(("k1",)).process == WEST
    assert there.route_of(("k2",)).process == EAST
    assert there.turn_of(EAST) > table.turn_of(WEST) > table.turn_of(CLOUD) == 0
    assert there.effective(REST) == Rest((listed("k1"),))


def test_a_dual_route_is_opened_and_given_up() -> None:
    table = RouteTable.undivided(CLOUD).copied(listed("k1"), WEST)
    assert table.route_of(("k1",)).receivers == (CLOUD, WEST)
    assert table.route_of(("k2",)).receivers == (CLOUD,)
    assert table.owners() == {CLOUD}
    assert table.uncopied(listed("k1")).route_of(("k1",)).receivers == (CLOUD,)
    backup = RouteTable.undivided(CLOUD).copied(listed("k1"), WEST, rows=False)
    assert backup.route_of(("k1",)).receivers == (CLOUD,)
    assert backup.regions() == {CLOUD, WEST}


@pytest.mark.parametrize("rows", [True, False], ids=["rows are copied", "state is copied"])
def test_a_key_that_comes_back_is_no_part_of_a_range_that_is_being_copied(rows: bool) -> None:
    key, all_buckets = KEYS[1], HashRange(0, BUCKETS)
    away = RouteTable.undivided(CLOUD).moved(listed(key), WEST)
    ((_, before),) = away.copied(all_buckets, EAST, rows, 7).portions(all_buckets)
    back = away.copied(all_buckets, EAST, rows, 7).moved(listed(key), CLOUD)
    ((_, then),) = back.portions(all_buckets)
    assert before == then, "the range would be switched over with a key that was not copied"
    assert not contains(then, key)
    assert back.route_of(key).process == CLOUD
    # Once the copy is given up the key needs no row of its own.
    assert not back.uncopied(all_buckets).moved(listed(key), CLOUD).listed


def test_a_change_of_a_large_table_is_as_small_as_what_it_changes() -> None:
    many = Listed(frozenset((f"x{k}",) for k in range(20_000)))
    before = RouteTable.undivided(CLOUD).moved(many, WEST, "w")
    assert [route.process for route in before.coarse] == [WEST, CLOUD]
    for changed in (before.moved(listed("x7"), EAST), before.moved(listed("x7"), CLOUD), before.copied(many, EAST)):
        edit = changed.since(before)
        keys = {key for route in edit.listed if isinstance(route.keys, Listed) for key in route.keys.keys}
        assert keys | edit.unlisted.keys == ({("x7",)} if changed.turn > before.turn else many.keys)
        read = decode(json.loads(json.dumps(encode(edit))))
        assert before.edited(read) == changed
    assert decode(json.loads(json.dumps(encode(before)))) == before


@pytest.mark.parametrize("seed", range(20))
def test_differences_lead_from_any_table_to_any_other(seed: int) -> None:
    rng = random.Random(seed)
    table = first = RouteTable.undivided(CLOUD)
    for _ in range(6):
        keys, to = rng.choice(SETS), rng.choice([WEST, EAST, CLOUD])
        then = table.moved(keys, to)
        assert table.edited(then.since(table)) == then
        assert then.ways == RouteTable.of(then.routes).ways
        table = then
    assert first.edited(table.since(first)) == table


@pytest.mark.parametrize("columns", [1, 2])
def test_a_large_set_that_is_in_use_is_read_once(columns: int) -> None:
    """Many records name it: to make a million keys again for each takes longer than the migration."""
    many = Listed(frozenset((f"x{k:05}", "y")[:columns] for k in range(5_000)))
    other = Listed(frozenset((many.keys - {("x00777", "y")[:columns]}) | {("x00777z", "y")[:columns]}))
    first, again, third = (decode(json.loads(json.dumps(encode(one)))) for one in (many, many, other))
    assert first is again
    assert (first, third) == (many, other)
    assert decode(json.loads(json.dumps(encode(many)))) == many
