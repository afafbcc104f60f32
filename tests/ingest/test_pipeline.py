"""Pushes that are on their way together: in order, what gathers goes at once, and what fails is told from which on."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from godwit.errors import SourceError
from godwit.ingest.batches import Batches, as_table, together
from godwit.ingest.pipeline import ROWS, TOGETHER, Pipeline


class Taker:
    """Takes batches when it is let; remembers the groups in which they came."""

    def __init__(self) -> None:
        self.let, self.groups = threading.Event(), list[tuple[str, list[int]]]()
        self.wrong: set[int] = set()
        self.unfit: set[int] = set()

    def __call__(
        self, stream: str, batches: Sequence[tuple[int, Any]], device: str, dead: list[dict[str, Any]]
    ) -> None:
        assert self.let.wait(10)
        numbers = [number for number, _ in batches]
        if self.wrong & set(numbers):
            msg = "no such column"
            raise SourceError(msg)
        self.groups.append((device, numbers))
        dead.extend({"n": number} for number in numbers if number in self.unfit)


@pytest.fixture
def taker() -> Taker:
    return Taker()


def rows(n: int) -> pa.Table:
    return pa.table({"n": [n, n]})


def test_what_gathers_behind_a_push_goes_together_and_in_order(taker: Taker) -> None:
    with Pipeline(taker, window=100) as pipeline:
        for number in range(1, 81):
            pipeline.push("s", rows(number), device="a", sequence=number)
        taker.let.set()
        pipeline.flush()
    assert [number for _, numbers in taker.groups for number in numbers] == list(range(1, 81))
    assert len(taker.groups) <= 4
    assert max(len(numbers) for _, numbers in taker.groups) == TOGETHER


def test_no_more_rows_go_together_than_are_few(taker: Taker) -> None:
    many = pa.table({"n": range(ROWS // 3)})
    with Pipeline(taker) as pipeline:
        for number in range(1, 9):
            pipeline.push("s", many, device="a", sequence=number)
        pipeline.push("s", pa.table({"n": range(ROWS * 2)}), device="a", sequence=9)
        taker.let.set()
        pipeline.flush()
    assert [number for _, numbers in taker.groups for number in numbers] == list(range(1, 10))
    assert max(len(numbers) for _, numbers in taker.groups) == 3
    assert taker.groups[-1] == ("a", [9]), "one that is larger goes alone"


def test_who_is_too_fast_waits_for_room(taker: Taker) -> None:
    with Pipeline(taker, window=3) as pipeline:
        pushed = threading.Semaphore(0)

        def push() -> None:
            for number in range(1, 6):
                pipeline.push("s", rows(number), device="a", sequence=number)
                pushed.release()

        pushes = threading.Thread(target=push)
        pushes.start()
        for _ in range(3):
            assert pushed.acquire(timeout=10)
        assert not pushed.acquire(timeout=0.2)
        taker.let.set()
        pushes.join(10)
        assert not pushes.is_alive()


def test_what_fails_takes_those_behind_it_along_and_nothing_before_it(taker: Taker) -> None:
    taker.wrong = {4}
    pipeline = Pipeline(taker)
    for number in range(1, 7):
        pipeline.push("s", rows(number), device="a", sequence=number)
    pipeline.push("s", rows(1), device="b", sequence=1)
    taker.let.set()
    with pytest.raises(
        SourceError, match="device 'a' for 's' from sequence number 4 on were not taken: no such column"
    ):
        pipeline.flush()
    assert [n for device, numbers in taker.groups for n in numbers if device == "a"] == [1, 2, 3]
    assert ("b", [1]) in taker.groups
    taker.wrong = set()
    pipeline.push("s", rows(4), device="a", sequence=4)  # sent again, it goes on
    pipeline.flush()
    assert taker.groups[-1] == ("a", [4])
    pipeline.close()


def test_rows_that_do_not_fit_are_told_and_stop_nothing(taker: Taker) -> None:
    taker.unfit = {2, 5}
    taker.let.set()
    with Pipeline(taker) as pipeline:
        for number in range(1, 7):
            pipeline.push("s", rows(number), device="a", sequence=number)
    assert list(pipeline.dead) == [{"n": 2}, {"n": 5}]


def test_what_has_come_through_before_is_left_out() -> None:
    batches = Batches(pa.table({"n": [1, 1, 2, 3, 3]}), ((5, 2), (7, 1), (8, 2)))
    assert batches.after(4) is batches
    assert batches.after(7) == Batches(pa.table({"n": [3, 3]}), ((8, 2),))
    assert batches.after(8).parts == ()


def test_neighbours_with_the_same_columns_go_together() -> None:
    groups = together("s", [(1, [{"n": 1}]), (2, rows(2)), (3, [{"n": 3, "m": 4}])])
    assert [group.parts for group in groups] == [((1, 1), (2, 2)), ((3, 1),)]


def test_numbers_that_do_not_rise_are_refused() -> None:
    with pytest.raises(SourceError, match="must rise"):
        together("s", [(2, rows(1)), (2, rows(1))])
    with pytest.raises(SourceError, match="have 3 rows, and there are 2"):
        Batches(rows(1), ((1, 3),))


def test_rows_without_a_column_have_none_there_and_what_is_no_table_is_refused() -> None:
    assert as_table("s", [{"n": 1}, {"n": 2, "m": "x"}]).to_pylist() == [{"n": 1, "m": None}, {"n": 2, "m": "x"}]
    assert as_table("s", {"n": 1}).to_pylist() == [{"n": 1}]
    for wrong in ([{"n": 1}, {"n": "two"}], ["n"]):
        with pytest.raises(SourceError, match="rows for 's' cannot become a table"):
            as_table("s", wrong)
