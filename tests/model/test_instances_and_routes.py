"""Instances and routes are values: they read as people write them, and a table always divides all keys."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.errors import DeploymentError
from godwit.ids import DeviceId, QueryId, RegionId
from godwit.model.codec import decode, encode
from godwit.model.deployment import Delta, Deployment, between
from godwit.model.instances import ONCE, InstanceId, Scope, instance_id
from godwit.model.keys import BUCKETS, REST, HashRange, Listed
from godwit.model.routing import Route, RouteTable

WEST, EAST, CLOUD = RegionId("west"), RegionId("east"), RegionId("cloud")
NAMES = st.text("abc-_.0", min_size=1, max_size=8)


@given(NAMES, st.integers(0, 99), st.sampled_from(["once", "device", "keys"]), NAMES)
def test_an_instance_reads_back_as_it_was_written(query: str, operator: int, kind: str, name: str) -> None:
    scope = Scope(kind, "" if kind == "once" else name)  # type: ignore[arg-type]
    one = InstanceId(QueryId(query), operator, scope)
    assert InstanceId.parse(str(one)) == one


def test_the_scope_says_whose_rows_they_are() -> None:
    assert instance_id(QueryId("q"), 1, DeviceId("t7")).device == "t7"
    assert instance_id(QueryId("q"), 1).device is None
    assert str(instance_id(QueryId("q"), 1, DeviceId("t7"))) == "q/1@t7"


@pytest.mark.parametrize("text", ["", "q", "q/", "/1", "q/x", "q/1@", "q/1#", "q/-1"])
def test_what_names_no_instance_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(DeploymentError, match="query/operator@device"):
        InstanceId.parse(text)


def test_listed_keys_win_over_ranges_and_ranges_over_rest() -> None:
    hot = Route(Listed(frozenset({("k1",)})), WEST)
    half = Route(HashRange(0, BUCKETS // 2), EAST)
    table = RouteTable.of((hot, half, Route(REST, CLOUD)))
    assert table.route_of(("k1",), 3) == hot.way
    assert table.route_of(("k2",), 3) == half
    assert table.route_of(("k2",), BUCKETS - 1).process == CLOUD
    assert table.owners() == {WEST, EAST, CLOUD}
    assert table.only is None


def test_an_undivided_operator_has_rest_alone() -> None:
    table = RouteTable.undivided(WEST)
    assert table.only == WEST
    assert table.route_of(("anything",), 0).emits
    assert RouteTable.of((Route(REST, WEST, copies=(EAST,)),)).only is None


@pytest.mark.parametrize(
    ("routes", "fault"),
    [
        ((), "exactly one route must be for `rest`"),
        ((Route(HashRange(0, 1), WEST),), "exactly one route must be for `rest`"),
        ((Route(REST, WEST), Route(REST, EAST)), "exactly one route must be for `rest`"),
        ((Route(REST, WEST), Route(HashRange(0, 1), EAST)), "must be the last"),
        ((Route(HashRange(0, 3), WEST), Route(HashRange(2, 4), EAST), Route(REST, CLOUD)), "bucket 2 is in two ranges"),
        ((Route(HashRange(5, 5), WEST), Route(REST, CLOUD)), "not within"),
        ((Route(HashRange(0, BUCKETS + 1), WEST), Route(REST, CLOUD)), "not within"),
        (
            (
                Route(Listed(frozenset({("a",)})), WEST),
                Route(Listed(frozenset({("a",)})), EAST),
                Route(REST, CLOUD),
            ),
            "key a is listed twice",
        ),
        ((Route(REST, WEST, copies=(WEST,)),), "process the same rows twice"),
    ],
)
def test_a_table_that_does_not_divide_the_keys_is_refused(routes: tuple[Route, ...], fault: str) -> None:
    with pytest.raises(DeploymentError, match=fault):
        RouteTable.of(routes)


@pytest.mark.parametrize("scope", [ONCE, Scope("device", "t@7#1"), Scope("keys", "hot")])
def test_instances_are_written_and_read_as_keys_and_values(scope: Scope) -> None:
    one = InstanceId(QueryId("q~2"), 3, scope)
    rows = {one: (one, scope), "set": frozenset({one})}
    read = decode(json.loads(json.dumps(encode(rows))))
    assert read == rows
    assert isinstance(next(iter(read)), InstanceId)


def test_instances_sort_by_query_operator_and_scope() -> None:
    texts = ["q/2", "q/10", "q/1@b", "p/9", "q/1", "q/1#a", "q/1@a"]
    found = [str(one) for one in sorted(map(InstanceId.parse, texts))]
    assert found == ["p/9", "q/1@a", "q/1@b", "q/1#a", "q/1", "q/2", "q/10"]


DIVIDED = RouteTable.of((Route(Listed(frozenset({("k1",)})), WEST, (EAST,), emits=False), Route(REST, CLOUD)))


def test_key_routes_are_rows_of_the_deployment() -> None:
    delta = Delta(key_routes={(QueryId("q"), 3): DIVIDED})
    assert decode(json.loads(json.dumps(encode(delta)))) == delta
    before = Deployment()
    after = before.apply(delta)
    assert after.key_routes == {(QueryId("q"), 3): DIVIDED}
    assert between(before, after) == delta
    assert not after.apply(delta.inverse(before)).key_routes


def test_rows_that_only_a_key_tells_apart_go_to_all_who_have_to_do_with_them() -> None:
    assert not RouteTable.undivided(WEST).divided
    assert DIVIDED.divided
    assert DIVIDED.only is None
    assert DIVIDED.receivers() == {WEST, EAST, CLOUD}
