"""Which shape is next: in turn among those with news, by time for the others, never one whose step is under way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from godwit.region.schedule import GO_BEFORE, PATIENCE, Hurry, StepSchedule


def scheduled(*keys: str) -> StepSchedule[str]:
    schedule: StepSchedule[str] = StepSchedule()
    for key in keys:
        schedule.add(key)
    return schedule


def test_whoever_always_has_news_waits_for_its_turn() -> None:
    schedule, taken = scheduled("flooded", "calm", "other"), []
    for _ in range(6):
        key = schedule.take(0.0)
        assert key is not None
        taken.append(key)
        schedule.news(key)
    assert taken == ["flooded", "calm", "other"] * 2


def test_who_answers_at_once_goes_first() -> None:
    schedule: StepSchedule[str] = StepSchedule()
    schedule.add("window")
    schedule.add("filter", prompt=True)
    assert [schedule.take(0.0), schedule.take(0.0)] == ["filter", "window"]
    schedule.news("window", 1.0)
    schedule.news("filter", 1.04)
    assert [schedule.take(1.04), schedule.take(1.04)] == ["filter", "window"]


def test_of_those_that_have_waited_long_one_goes_after_every_few_that_answer_at_once() -> None:
    schedule: StepSchedule[str] = StepSchedule()
    for key in ("window", "other window"):
        schedule.add(key)
    schedule.add("filter", prompt=True)
    taken = []
    for turn in range(2 * GO_BEFORE + 2):
        key = schedule.take(10.0 + turn)
        assert key is not None
        taken.append(key)
        schedule.news("filter", 10.0 + turn)
    assert taken == [*["filter"] * GO_BEFORE, "window", *["filter"] * GO_BEFORE, "other window"]


def test_who_keeps_rows_gives_way_to_other_regions_but_not_for_long() -> None:
    schedule: StepSchedule[str] = StepSchedule()
    schedule.add("filter", prompt=True)
    schedule.add("window")
    assert (schedule.take(0.0, give_way=True), schedule.hurries("filter"), schedule.hurries()) == (
        "filter",
        True,
        False,
    )
    assert schedule.take(0.0) == "window"
    schedule.news("window", 1.0)
    assert (schedule.take(1.0, give_way=True), schedule.waits) == (None, True)
    assert (schedule.take(1.0 + PATIENCE, give_way=True), schedule.waits) == ("window", False)


def test_a_region_that_hurries_is_seen_by_the_others_alone() -> None:
    hurry: Hurry[str] = Hurry()
    hurry.say("west", True)
    assert (hurry.elsewhere("west"), hurry.elsewhere("east")) == (False, True)
    hurry.say("west", False)
    assert not hurry.elsewhere("east")


def test_news_of_the_same_shape_is_one_turn() -> None:
    schedule = scheduled("a")
    for _ in range(5):
        schedule.news("a")
    assert [schedule.take(0.0), schedule.take(0.0)] == ["a", None]


def test_a_timer_goes_off_once_and_can_be_put_off() -> None:
    schedule = scheduled("a", "b")
    assert {schedule.take(0.0), schedule.take(0.0)} == {"a", "b"}
    schedule.due("a", 5.0)
    schedule.due("b", 3.0)
    schedule.due("b", 7.0)
    assert (schedule.until(), schedule.take(4.9)) == (5.0, None)
    assert (schedule.take(5.0), schedule.take(5.0), schedule.until()) == ("a", None, 7.0)
    schedule.due("b", None)
    assert (schedule.until(), schedule.take(100.0)) == (None, None)


def test_one_that_is_under_way_is_passed_over_and_keeps_its_news() -> None:
    schedule = scheduled("large", "small")
    schedule.leave("large")
    assert [schedule.take(0.0), schedule.take(0.0)] == ["small", None]
    schedule.back("large")
    assert schedule.take(0.0) == "large"


def test_one_that_is_gone_is_never_taken() -> None:
    schedule = scheduled("a")
    schedule.due("a", 1.0)
    schedule.remove("a")
    schedule.news("a")
    schedule.due("a", 1.0)
    assert (schedule.take(2.0), schedule.until()) == (None, None)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(("news", "due", "away", "back", "take"))), max_size=60)
)
def test_nobody_with_news_is_passed_over_twice(moves: list[tuple[str, str]]) -> None:
    """Between two turns of one shape, every other that had news all along and was not away has had one."""
    schedule, had, away, now = scheduled("a", "b", "c"), {"a", "b", "c"}, set[str](), 0.0
    passed = dict.fromkeys("abc", 0)
    for key, what in moves:
        now += 1.0
        if what == "news":
            schedule.news(key)
            had.add(key)
        elif what == "due":
            schedule.due(key, now)
            had.add(key)
        elif what in ("away", "back"):
            (schedule.leave if what == "away" else schedule.back)(key)
            (away.add if what == "away" else away.discard)(key)
        else:
            found = schedule.take(now)
            assert (found is None) == (not had - away)
            if found is not None:
                had.discard(found)
                for other in had - away:
                    passed[other] += 1
                passed[found] = 0
                assert max(passed[other] for other in "abc" if other not in away) <= 2 or away
