"""The dry run's text."""

from __future__ import annotations

from godwit.replan.explain import explain_change
from godwit.replan.join_tree import parse
from godwit.replan.load import BoxLoad
from tests.replan.queries import FIXTURES, STREAMS, compiled, load

FIGURE_5 = compiled(load(FIXTURES / "good" / "figure_5.yaml")["sql"])
LOAD = BoxLoad(dict.fromkeys("abcd", 1000.0), {("a", "b"): 1e-3, ("b", "c"): 1e-4, ("c", "d"): 1e-4})


def test_dry_run() -> None:
    lines = explain_change(FIGURE_5, parse("(b JOIN c) JOIN d JOIN a"), STREAMS, LOAD).splitlines()
    assert lines[:5] == [
        "q: a JOIN b JOIN c JOIN d  ->  b JOIN c JOIN d JOIN a",
        "shared:    a, b, c, d",
        "computed:  b c, b c d",
        "discarded: 2 of the old plan's",
        "forecast:",
    ]
    assert [line.split()[0] for line in lines[5:]] == ["no", "moving-state", "parallel-track", "->", "no"]
    assert lines[8].startswith("-> background")


def test_nothing_to_do() -> None:
    text = explain_change(FIGURE_5, parse("c JOIN (b JOIN a) JOIN d"), STREAMS, LOAD)
    assert text == "q: a JOIN b JOIN c JOIN d is the order it has; nothing would change"
