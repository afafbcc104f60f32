"""Sources that move between edges: up at once, down after a dwell, and nothing for ping-pong."""

from __future__ import annotations

import random

from godwit.ids import SiteId
from godwit.migration.source_mobility import HoldAndSort, KeyGoes, MobilityAdvice, SourceMobility, StopGoing

CAR = ("car",)
ROOT, E1, E2, METRO, M1, M2 = map(SiteId, ("root", "e1", "e2", "metro", "m1", "m2"))
PARENTS = {E1: ROOT, E2: ROOT, METRO: ROOT, M1: METRO, M2: METRO}


def at(policy: SourceMobility, site: SiteId, now: float) -> list[MobilityAdvice]:
    return [*policy.seen(CAR, site, now), *policy.tick(now)]


def settled_at_e1() -> SourceMobility:
    policy = SourceMobility(PARENTS)
    assert at(policy, E1, 0.0) == []
    assert at(policy, E1, 4.9) == []
    assert at(policy, E1, 5.0) == [KeyGoes(CAR, E1)]
    assert list(policy.arrived(CAR)) == []
    assert policy.keys[CAR].at == E1
    return policy


def test_a_new_key_is_the_roots_and_goes_down_when_it_stays() -> None:
    settled_at_e1()


def test_a_car_that_moves_on_goes_up_once_and_down_after_the_dwell() -> None:
    policy = settled_at_e1()
    assert at(policy, E2, 10.0) == [KeyGoes(CAR, ROOT)]
    assert at(policy, E2, 11.0) == []
    assert list(policy.arrived(CAR)) == []
    assert at(policy, E2, 14.9) == []
    assert at(policy, E2, 15.0) == [KeyGoes(CAR, E2)]


def test_a_key_that_somebody_else_has_put_elsewhere_goes_up_from_there() -> None:
    policy = SourceMobility(PARENTS)
    assert at(policy, E1, 0.0) == []
    policy.put(CAR, E1)
    assert at(policy, E2, 1.0) == [KeyGoes(CAR, ROOT)]
    policy.put(CAR, E1)  # it is on its way
    assert list(policy.arrived(CAR)) == []
    assert policy.keys[CAR].at == ROOT


def test_many_edges_in_a_row_cost_one_migration() -> None:
    policy = settled_at_e1()
    assert at(policy, E2, 10.0) == [KeyGoes(CAR, ROOT)]
    list(policy.arrived(CAR))
    told = [advice for n in range(30) for advice in at(policy, [E1, M1, M2, E2][n % 4], 12.0 + 2 * n)]
    assert told == []


def test_back_while_on_its_way_up_is_let_finish() -> None:
    policy = settled_at_e1()
    at(policy, E2, 10.0)
    assert at(policy, E1, 10.2) == [HoldAndSort(CAR, 10.2 + 0.1)]
    assert list(policy.arrived(CAR)) == []
    assert policy.keys[CAR].at == ROOT
    assert at(policy, E1, 15.2) == [KeyGoes(CAR, E1)]


def test_away_while_on_its_way_down_is_cancelled() -> None:
    policy = settled_at_e1()
    at(policy, E2, 10.0)
    list(policy.arrived(CAR))
    assert at(policy, E2, 15.0) == [KeyGoes(CAR, E2)]
    assert at(policy, E1, 15.1) == [StopGoing(CAR), HoldAndSort(CAR, 15.1 + 0.1)]
    assert policy.keys[CAR].at == ROOT
    assert list(policy.arrived(CAR)) == []


def test_in_a_deeper_hierarchy_it_goes_no_further_up_than_it_must() -> None:
    policy = SourceMobility(PARENTS)
    at(policy, M1, 0.0)
    assert at(policy, M1, 5.0) == [KeyGoes(CAR, M1)]
    list(policy.arrived(CAR))
    assert at(policy, M2, 6.0) == [KeyGoes(CAR, METRO)]
    list(policy.arrived(CAR))
    assert at(policy, E1, 7.0) == [KeyGoes(CAR, ROOT)]


def test_whatever_a_source_does_its_key_ends_where_its_rows_pass() -> None:
    rng = random.Random(1)
    for _ in range(200):
        policy, now = SourceMobility(PARENTS), 0.0
        for _ in range(40):
            now += rng.choice([0.1, 1.0, 6.0])
            for advice in at(policy, rng.choice([E1, E2, M1, M2]), now):
                assert isinstance(advice, KeyGoes | StopGoing | HoldAndSort)
            if rng.random() < 0.5:
                list(policy.arrived(CAR))
        for _ in range(4):
            now += 6.0
            list(policy.arrived(CAR))
            list(policy.tick(now))
        list(policy.arrived(CAR))
        assert policy.keys[CAR].at == policy.keys[CAR].edge
        assert policy.keys[CAR].going is None


def test_a_parent_knows_the_keys_of_its_children_only() -> None:
    policy = SourceMobility(PARENTS)
    policy.place(CAR, M1, M1, 0.0)
    policy.place(("bus",), ROOT, E1, 0.0)
    policy.place(("tram",), E2, E2, 0.0)
    assert policy.below(ROOT) == {E1: frozenset(), E2: {("tram",)}, METRO: {CAR}}
    assert policy.below(METRO) == {M1: {CAR}, M2: frozenset()}


def test_what_could_not_be_cancelled_is_judged_when_it_ends() -> None:
    policy = settled_at_e1()
    at(policy, E2, 10.0)
    list(policy.arrived(CAR))
    at(policy, E2, 15.0)
    assert at(policy, E1, 15.1)[0] == StopGoing(CAR)
    policy.still_going(CAR, E2)
    assert list(policy.arrived(CAR)) == [KeyGoes(CAR, ROOT)], "it is at e2 now, and its source is at e1"


def test_what_was_refused_is_tried_again_after_a_dwell() -> None:
    policy = SourceMobility(PARENTS)
    at(policy, E1, 0.0)
    assert at(policy, E1, 5.0) == [KeyGoes(CAR, E1)]
    policy.not_moved(CAR, 6.0)
    assert at(policy, E1, 10.9) == []
    assert at(policy, E1, 11.0) == [KeyGoes(CAR, E1)]
