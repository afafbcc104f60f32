"""An operator whose keys are divided has several owners: a consumer's watermark is the least of what they released."""

from __future__ import annotations

import json
from dataclasses import replace

from godwit.ids import Epoch
from godwit.model.keys import BUCKETS, REST, HashRange, Listed
from godwit.model.routing import Route, RouteTable
from godwit.protocol.handover import Migration
from godwit.protocol.kernel import RegionKernel
from godwit.protocol.ledger import MigrationLedger
from godwit.protocol.progress import Progress, Watermarks
from godwit.protocol.watermarks import NEVER, Mark, WatermarkTracker, source_id
from godwit.sim.worlds import LEFT
from tests.protocol.pair import EAST, NORTH, QUERY, WEST, WINDOW, Pair, deployment

SINK = WINDOW + 1
HALVES = RouteTable.of((Route(HashRange(0, BUCKETS // 2), EAST), Route(REST, WEST)))
ONE_OWNER = deployment(["d1"])
TWO_OWNERS = replace(ONE_OWNER, key_routes={(QUERY.id, WINDOW): HALVES})


def test_the_deployment_asks_the_route_table() -> None:
    assert ONE_OWNER.owners(QUERY, WINDOW) == {WEST}
    assert ONE_OWNER.route(QUERY, WINDOW, None, EAST) == RouteTable.undivided(WEST)
    assert TWO_OWNERS.owners(QUERY, WINDOW) == {WEST, EAST}
    assert TWO_OWNERS.route(QUERY, WINDOW, None, NORTH) == HALVES
    assert TWO_OWNERS.regions_of(QUERY.shape) == {WEST, EAST}
    assert ONE_OWNER.owners(QUERY, SINK) == TWO_OWNERS.owners(QUERY, SINK) == {WEST}


def test_a_consumer_waits_for_every_owner() -> None:
    assert Progress(QUERY.shape, ONE_OWNER).heard(QUERY.id, SINK) == ((WINDOW, "@0:q0"),)
    progress, book = Progress(QUERY.shape, TWO_OWNERS), WatermarkTracker()
    assert progress.heard(QUERY.id, SINK) == ((WINDOW, "@0:q0#east"), (WINDOW, "@0:q0#west"))
    book.hear(WINDOW, "@0:q0#west", Mark(1, 9))
    assert progress.clocks(book, SINK) == {QUERY.id: NEVER}
    book.hear(WINDOW, "@0:q0#east", Mark(1, 5))
    assert progress.clocks(book, SINK) == {QUERY.id: 5}
    book.hear(WINDOW, "@0:q0#east", Mark(1, 12))
    assert progress.clocks(book, SINK) == {QUERY.id: 9}


def test_each_owner_releases_under_its_own_name() -> None:
    for region, told in ((WEST, 7), (EAST, 7), (NORTH, NEVER)):
        book, moves = WatermarkTracker(), MigrationLedger(region, QUERY.shape.plan, Epoch(1))
        book.hear(0, source_id(LEFT, "d1"), Mark(1, 7))
        watermarks = Watermarks(TWO_OWNERS, Progress(QUERY.shape, TWO_OWNERS), book, moves, {})
        watermarks.release(WINDOW, dict.fromkeys(range(SINK + 1), Epoch(1)))
        assert book.mark(WINDOW, f"@0:q0#{region}") == Mark(1, told)


def test_both_owners_publish_what_they_released_and_a_query_that_ends_is_forgotten() -> None:
    pair = Pair(TWO_OWNERS)
    pair.step(WEST, {"d1": Mark(1, 7)})
    pair.rest()
    for name, region in pair.regions.items():
        told = {source: mark for commit in region.commits for _, source, mark in commit.marks}
        assert told[f"@0:q0#{name}"] == Mark(1, 7)
        assert {source for _, source in region.kernel.book.known if source.startswith("@")} == {
            "@0:q0#east",
            "@0:q0#west",
        }
    kernel: RegionKernel = pair.regions[WEST].kernel
    kernel._forget(QUERY.id)
    assert not any(source.startswith("@") for _, source in kernel.book.known)


def test_a_move_says_of_which_keys() -> None:
    whole = Migration(Epoch(2), QUERY.id, WINDOW, WEST, EAST, "w", "e")
    some = [replace(whole, keys=keys) for keys in (HashRange(0, 8), Listed(frozenset({("a", "1"), ("b", "2")})))]
    for move in (whole, *some):
        assert Migration.from_json(json.loads(json.dumps(move.to_json()))) == move
    assert len(whole.to_json()) == 7
    assert sorted([whole, *some]) == sorted([*reversed(some), whole])
    assert {move.instance for move in some} == {(QUERY.id, WINDOW)}
