"""The cost models with the parameters of the paper's Table 2."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from godwit.replan import auto
from godwit.replan.forecast import (
    DEFAULTS,
    ChangeCase,
    ChangeFeatures,
    CostConstants,
    background_features,
    equation_8,
    fit,
    forecasts,
    moving_state_features,
    parallel_track_features,
    track_length,
)
from godwit.replan.join_tree import JoinTree, parse
from godwit.replan.load import BoxLoad, loads, spans_of, window
from tests.replan.queries import STREAMS, compiled

OLD, NEW = parse("A JOIN B JOIN C JOIN D"), parse("(B JOIN C) JOIN D JOIN A")
#: the paper's nested loop on the paper's machine, about
PAPER = CostConstants(
    epoch_s=0, job_s=0, read_s=0, pair_s=2e-6, insert_s=1e-5, match_s=0, cursor_s=0, direct_s=0, rehearse_s=0, lines=0
)


def _load(a: float, b: float, c: float, d: float, ab: float, bc: float, cd: float) -> BoxLoad:
    """Inter-arrival times in ms, and reduction factors."""
    rates = {alias: 1000 / gap for alias, gap in zip("ABCD", (a, b, c, d), strict=True)}
    return BoxLoad(rates, {("A", "B"): ab, ("B", "C"): bc, ("C", "D"): cd})


def _set1(w: float) -> ChangeCase:
    return ChangeCase(OLD, NEW, _load(100, 100, 100, 100, 0.1, 0.05, 0.02), window(w), PAPER)


def _set2(gap_b: float) -> ChangeCase:
    return ChangeCase(OLD, NEW, _load(50, gap_b, 50, 50, 0.1, 0.05, 0.02), window(1), PAPER)


def _set3(w: float) -> ChangeCase:
    return ChangeCase(OLD, NEW, _load(100, 12, 12, 12, 0.1, 0.1, 0.1), window(w), PAPER)


@pytest.mark.parametrize("w", [0.5, 1, 2, 4, 8])
@pytest.mark.parametrize("make", [_set1, _set3])
def test_equation_8(make: object, w: float) -> None:
    case = make(w)  # type: ignore[operator]
    b, c, d = (case.load.rates[x] for x in "BCD")
    sbc, scd = case.load.sigma["B", "C"], case.load.sigma["C", "D"]
    tj, ts = PAPER.pair_s, PAPER.insert_s
    expected = b * c * w**2 * (tj + ts * sbc) + 2 * b * c * d * w**3 * (tj * sbc + ts * sbc * scd)
    assert equation_8(case) == pytest.approx(expected)
    # What is computed from computed states is less: BC within one window, not of all that a running box keeps.
    ours = b * c * w**2 * (tj + ts * sbc) + b * c * d * w**3 * (tj * sbc + ts * sbc * scd)
    assert moving_state_features(case).seconds(PAPER) == pytest.approx(ours)


def test_equation_2() -> None:
    first, *_ = loads(OLD, _set1(2).load, window(2))
    assert first.rate == pytest.approx(2 * 10 * 10 * 2 * 0.1)
    assert (first.left_rows, first.right_rows) == (20, 20)


def test_equation_4() -> None:
    assert track_length(OLD, window(3)) == 6
    assert track_length(JoinTree.left_deep("AB"), window(3)) == 3
    assert track_length(parse("(A JOIN B) JOIN (C JOIN D)"), window(3)) == 6
    # Where it is known how far apart rows of a result lie, both plans run twice as long.
    assert parallel_track_features(replace(_set1(3), span_s=1.5)).waits_s == 3


def test_figures_9_and_10_length_against_the_window() -> None:
    """Parallel track grows with W, moving state faster than W squared."""
    track = [parallel_track_features(_set1(w)).seconds(PAPER) for w in (1, 2, 4)]
    moving = [moving_state_features(_set1(w)).seconds(PAPER) for w in (1, 2, 4)]
    assert track == [2, 4, 8]
    assert moving[1] / moving[0] > 4
    assert moving[2] / moving[1] > moving[1] / moving[0]


def test_figure_11_length_against_the_rate() -> None:
    """A faster B changes moving state only."""
    assert len({parallel_track_features(_set2(gap)).seconds(PAPER) for gap in (100, 50, 20)}) == 1
    moving = [moving_state_features(_set2(gap)).seconds(PAPER) for gap in (100, 50, 20)]
    assert moving == sorted(moving)
    assert moving[2] / moving[0] == pytest.approx(5)


def test_figure_12_the_two_cross_once() -> None:
    windows = [w / 4 for w in range(1, 80)]
    moving = [moving_state_features(_set3(w)).seconds(PAPER) for w in windows]
    track = [parallel_track_features(_set3(w)).seconds(PAPER) for w in windows]
    faster = [m < t for m, t in zip(moving, track, strict=True)]
    assert faster[0]
    assert not faster[-1]
    assert faster == sorted(faster, reverse=True)


def test_shared_sub_plans_are_not_computed() -> None:
    case = ChangeCase(OLD, parse("A JOIN B JOIN D JOIN C"), _set1(2).load, window(2), PAPER)
    assert [str(j.tree) for j in case.unmatched] == ["A JOIN B JOIN D"]
    assert moving_state_features(ChangeCase(OLD, OLD, case.load, window(2))).jobs == 0


def test_constants_are_found_again() -> None:
    """From lengths with noise of 5 %, forecasts within 10 %."""
    truth = CostConstants(0.4, 0.3, 2e-6, 0.0, 3e-6, 0.0, 0.0)
    rng = random.Random(3)
    cases = [
        ChangeCase(OLD, NEW, _load(*(rng.uniform(0.02, 2) for _ in range(4)), 1e-4, 5e-5, 1e-4), window(w), truth)
        for w in (5, 10, 20, 40, 60)
        for _ in range(6)
    ]
    measured = [(f, f.seconds(truth) * rng.gauss(1, 0.05)) for f in map(moving_state_features, cases)]
    found = fit(measured)
    for features, _ in measured:
        assert features.seconds(found) == pytest.approx(features.seconds(truth), rel=0.1)
    assert fit([]) == CostConstants()
    assert fit([(ChangeFeatures(epochs=1), 0.7)]).epoch_s == pytest.approx(0.7)
    # What is known beforehand stays, and is not explained by the others.
    one = ChangeFeatures(epochs=2, direct=5)
    told = fit([(one, 1.0)], CostConstants(direct_s=0.1), only=("epoch_s",))
    assert (told.epoch_s, told.direct_s) == (pytest.approx(0.25), 0.1)


def test_silence_and_work() -> None:
    """What ours promises: next to no silence, and far less work than parallel track where states are to be computed."""
    case = ChangeCase(OLD, NEW, _load(1, 1, 1, 1, 1e-5, 1e-5, 1e-5), window(60))
    found = forecasts(case)
    assert found["moving-state"].silence_s == found["moving-state"].length_s
    assert found["parallel-track"].silence_s == 0
    assert 0 < found["background"].silence_s < 0.1 * found["moving-state"].silence_s
    assert forecasts(case, calm_gap_s=0.1)["background"].silence_s == 0
    assert found["background"].extra_rows < 0.5 * found["parallel-track"].extra_rows
    assert found["background"].length_s < found["parallel-track"].length_s
    assert found["background"].length_s >= found["moving-state"].length_s
    assert found["stateless-order"].length_s == case.constants.order_s
    assert background_features(case).direct > 0


@pytest.mark.parametrize("strategy", ["moving-state", "background", "parallel-track"])
def test_epochs_wait_for_micro_batches(strategy: str) -> None:
    """Over large states these are what a change takes longest for."""
    load = _load(1, 1, 1, 1, 1e-5, 1e-5, 1e-5)
    quick, slow = (
        forecasts(ChangeCase(OLD, NEW, replace(load, batch_s=each), window(60)))[strategy] for each in (0.0, 2.5)
    )
    assert slow.length_s == pytest.approx(quick.length_s + 3 * DEFAULTS.epoch_batches * 2.5, rel=0.05)


def test_a_plan_that_has_not_run_is_compiled() -> None:
    case, constants = _set1(2), replace(PAPER, compile_s=0.3)
    known, fresh = (moving_state_features(replace(case, fresh=each)).seconds(constants) for each in (False, True))
    assert fresh == pytest.approx(known + 3 * 0.3)


def test_a_change_waits_for_rows_of_every_stream() -> None:
    """The latest of independent streams: (1 + 1/2 + .. + 1/n) / rate."""
    load = _load(100, 100, 100, 100, 1e-5, 1e-5, 1e-5)  # (milliseconds between rows)
    (waits,) = {moving_state_features(ChangeCase(OLD, order, load, window(2))).heard_s for order in (OLD, NEW)}
    assert waits == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 10)


def test_auto_takes_what_hurts_least() -> None:
    found = forecasts(ChangeCase(OLD, NEW, _load(1, 1, 1, 1, 1e-5, 1e-5, 1e-5), window(60)))
    assert auto.best(found, ("moving-state", "parallel-track", "background")).strategy == "background"
    assert auto.best(found, ("moving-state",)).strategy == "moving-state"
    assert auto.best(found, tuple(found)).strategy == "stateless-order"
    lines = auto.explain(found, ("moving-state", "background")).splitlines()
    assert [line[:2] for line in lines] == ["no", "  ", "no", "->", "no"]


def test_spans_of_a_query() -> None:
    query = compiled(
        "SELECT a.v FROM a JOIN b ON b.k = a.k AND b.ts BETWEEN a.ts - INTERVAL 1 SECONDS AND a.ts + INTERVAL 1 SECONDS"
        " JOIN c ON c.k = b.k AND c.ts BETWEEN b.ts - INTERVAL 10 SECONDS AND b.ts + INTERVAL 10 SECONDS"
    )
    geometry = spans_of(query, STREAMS)
    assert geometry(parse("a JOIN b")).width_s == 2
    bushy = geometry(parse("a JOIN (b JOIN c)"))
    assert (bushy.width_s, bushy.left_s, bushy.right_s) == (2, 11, 1)
    turned = geometry(parse("(b JOIN c) JOIN a"))
    assert (turned.left_s, turned.right_s) == (1, 11)
