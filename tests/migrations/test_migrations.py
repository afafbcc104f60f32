"""What migrates must not show in the results: the cases of tests/fixtures/migrations, simulated and on Spark."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from godwit.api.fleet import Fleet
from godwit.errors import GodwitError
from tests.migrations.case import Case, cases
from tests.migrations.players import SimPlayer, SparkPlayer

GOOD, BAD = cases("good"), cases("bad")
goods = pytest.mark.parametrize("case", GOOD, ids=lambda case: case.name)
bads = pytest.mark.parametrize("case", BAD, ids=lambda case: case.name)


@goods
def test_the_simulator_answers_as_written(case: Case) -> None:
    assert SimPlayer(case).run() == list(case.results)


@goods
def test_a_fleet_answers_as_written(case: Case, open_fleet: Callable[..., Fleet]) -> None:
    assert SparkPlayer(case, open_fleet).run() == list(case.results)


@bads
def test_the_simulator_refuses(case: Case) -> None:
    with pytest.raises(GodwitError, match=re.escape(str(case.error))):
        SimPlayer(case).run()


@bads
def test_a_fleet_refuses(case: Case, open_fleet: Callable[..., Fleet]) -> None:
    with pytest.raises(GodwitError, match=re.escape(str(case.error))):
        SparkPlayer(case, open_fleet).run()


def test_there_are_cases_of_every_sort() -> None:
    assert len(GOOD) >= 8
    assert len(BAD) >= 5
    assert {case.kind for case in GOOD} >= {"tumbling", "session", "joined"}
