"""What all tests share: one Spark session for the whole run."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.engine.session import spark_session

#: folders whose Spark tests run in the other lane, last, in a session of its own: so both lanes take equally long
BESIDE = ("mobility", "workloads", "bench")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lane", choices=("session", "other"), help="tests that share a Spark session, or the rest")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Two lanes run side by side (`scripts/test.sh`): the Spark session leaves much of the second core free."""
    lane = config.getoption("--lane")
    if lane is None:
        return
    config.hook.pytest_deselected(items=[item for item in items if _lane(item) != lane])
    mine = [item for item in items if _lane(item) == lane]
    items[:] = sorted(mine, key=lambda item: lane == "other" and _is_beside(item) and _needs_spark(item))


def pytest_collection_finish() -> None:
    """Thousands of tests and all packages stay for good: the collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # or libraries that count their objects at the end call them leaked


def _lane(item: pytest.Item) -> str:
    """Tests that build on each other say where they run; the others where their fixtures are."""
    said = item.get_closest_marker("lane")
    if said is not None:
        return str(said.args[0])
    return "session" if _needs_spark(item) and not _is_beside(item) else "other"


def _is_beside(item: pytest.Item) -> bool:
    return item.path.relative_to(Path(__file__).parent).parts[0] in BESIDE


def _needs_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Interpreting plans instead of compiling them: tests run many small ones, each a few times."""
    session = spark_session(app="godwit-tests", quick=True)
    yield session
    session.stop()


@pytest.fixture
def open_fleet(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Fleet]]:
    """Open (or open again) the fleet in this test's folder; stopped at the end."""
    opened: list[Fleet] = []

    def open_(**options: object) -> Fleet:
        fleet = Fleet(tmp_path / "fleet", spark, **options)  # type: ignore[arg-type]
        opened.append(fleet)
        return fleet

    yield open_
    for fleet in opened:
        fleet.stop()
