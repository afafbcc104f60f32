"""The dry run's text."""

from __future__ import annotations

from godwit.replan.explain import explained
from godwit.replan.load import BoxLoad
from godwit.replan.wishes import PlanWish, rewritten
from tests.replan.queries import FIXTURES, STREAMS, compiled, load

FIGURE_5 = compiled(load(FIXTURES / "good" / "figure_5.yaml")["sql"])
LOAD = BoxLoad(dict.fromkeys("abcd", 1000.0), {("a", "b"): 1e-3, ("b", "c"): 1e-4, ("c", "d"): 1e-4})


def test_dry_run() -> None:
    lines = explained(FIGURE_5, PlanWish("(b JOIN c) JOIN d JOIN a"), STREAMS, LOAD).splitlines()
    assert lines[:6] == [
        "now:       a JOIN b JOIN c JOIN d",
        "then:      b JOIN c JOIN d JOIN a",
        "shared:    a, b, c, d",
        "computed:  b c, b c d",
        "discarded: 2 of the old plan's",
        "forecast:",
    ]
    assert [line.split()[0] for line in lines[6:]] == ["no", "moving-state", "parallel-track", "->", "no"]
    assert lines[9].startswith("-> background")


def test_what_has_run_is_not_compiled_again() -> None:
    wish = PlanWish("(b JOIN c) JOIN d JOIN a")
    new = rewritten(FIGURE_5, wish, STREAMS)
    assert new is not None
    first, again = (
        next(line for line in explained(FIGURE_5, wish, STREAMS, LOAD, ran=ran).splitlines() if "background" in line)
        for ran in ((), (new.shape.key,))
    )
    assert float(first.split()[2]) > float(again.split()[2])


def test_nothing_to_do() -> None:
    text = explained(FIGURE_5, PlanWish("c JOIN (b JOIN a) JOIN d"), STREAMS, LOAD)
    assert text == "'q' has this plan: c JOIN (b JOIN a) JOIN d; nothing would change"


def test_without_a_load_there_is_no_forecast() -> None:
    text = explained(FIGURE_5, PlanWish("(b JOIN c) JOIN d JOIN a"), STREAMS)
    assert text.splitlines()[-1].startswith("possible:  ")
    assert "forecast" not in text
