"""What is read at once, and what may wait, by the marks alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from godwit.ids import Epoch, RegionId, StreamId
from godwit.model.plan import Aggregate, Window
from godwit.protocol.gathering import Gathering, Patience, answers_with_watermark
from godwit.protocol.inputs import PeerCommit, Sent, SourceEntry
from godwit.protocol.watermarks import NEVER, Mark, source_id
from godwit.sim import worlds
from tests.protocol.pair import EAST, LEFT, QUERY, WEST, WINDOW, Pair, deployment, window_at

PATIENCE = Patience(seconds=2.0, records=4, rows=100)


class Lists:
    """The logs that one region reads."""

    def __init__(self) -> None:
        self.sources: list[SourceEntry[Any]] = []
        self.sent: list[PeerCommit[Any]] = []
        self.epochs_unread = False

    def peers(self) -> list[RegionId]:
        return [EAST]

    def messages(self, peer: RegionId, after: int | None) -> Iterator[tuple[int, PeerCommit[Any]]]:
        yield from list(enumerate(self.sent, 1))[after or 0 :]

    def entries(self, index: int, scan: Any, after: int | None) -> Iterator[tuple[int, SourceEntry[Any]]]:
        yield from list(enumerate(self.sources, 1))[after or 0 :]

    def grown(self, log: str, after: int | None) -> bool:
        return self.epochs_unread


class West:
    """The region of the devices and, unless it is said otherwise, of the window, which ends every 10."""

    def __init__(self, window: str = "w", idle_seconds: float | None = None, target: str | None = None) -> None:
        query = replace(QUERY, target=None if target is None else StreamId(target))
        self.pair = Pair(deployment(["d1", "d2"], query, idle_seconds))
        self.pair.apply(window_at(window))
        self.pair.rest()
        self.pair.step(WEST, {"d1": Mark(1, 21), "d2": Mark(1, 21)})
        self.pair.rest()
        self.logs, self.kernel = Lists(), self.pair.regions[WEST].kernel
        self.gathering: Gathering[Any] = Gathering(WEST, query.shape, self.logs, PATIENCE)  # type: ignore[arg-type]

    def read(self, count: int = 0, now: float = 0.0, **marks: Mark | int) -> float | None:
        told = {name: mark if isinstance(mark, Mark) else Mark(1, mark) for name, mark in marks.items()}
        if told:
            self.logs.sources.append(SourceEntry(told, "rows", count=count))
        return self.gathering.until(self.kernel, now)

    def hear(self, *marks: tuple[int, str, Mark], **more: Any) -> float | None:
        self.logs.sent.append(PeerCommit(Epoch(0), {}, marks, **more))
        return self.gathering.until(self.kernel, 0.0)


@pytest.mark.parametrize("window", ["w", "e"])
def test_rows_gather_until_the_slowest_source_passes_the_end_of_a_window(window: str) -> None:
    west = West(window)
    assert west.read(d1=29) == 2.0
    assert west.read(d1=45, now=0.5) == 2.0, "d2 is at 21: no window can close"
    assert west.read(d2=29, now=0.5) == 2.0
    assert west.read(d2=30, now=0.5) is None


@pytest.mark.parametrize("mark", [Mark(1, 21, idle=True), Mark(1, 21, turn=1)], ids=["idle", "closed"])
def test_nobody_waits_for_a_source_that_is_silent(mark: Mark) -> None:
    west = West("e")
    west.pair.step(WEST, {"d1": mark})
    assert west.read(d2=29) == 2.0
    assert west.read(d2=30) is None, "a window ends in the other region"


def test_no_more_gathers_than_somebody_has_patience_for() -> None:
    assert (West().read(d1=22), West().read(d1=22, count=100)) == (2.0, None), "rows"
    west = West()
    assert [west.read(d1=22 + k) for k in range(4)] == [2.0, 2.0, 2.0, None], "records"
    west = West()
    assert west.read(d1=22, now=5.0) == 7.0
    assert west.read(d1=23, now=6.9) == 7.0
    assert west.read(now=7.0) is None, "time"


def test_a_micro_batch_begins_anew() -> None:
    west = West()
    assert west.read(d1=22) == 2.0
    west.pair.step(WEST, {"d1": Mark(1, 22)})
    west.kernel.positions = {**west.kernel.positions, "source:0:left": 1}
    assert west.read(d1=23, now=1.5) == 3.5


@pytest.mark.parametrize(
    "mark",
    [Mark(1, 21, over=True), Mark(1, 21, idle=True), Mark(1, 21, turn=1), Mark(2, 21)],
    ids=["a session ends", "idle", "closed", "a new session"],
)
@pytest.mark.parametrize("window", ["w", "e"])
def test_what_a_source_says_besides_its_clock_is_read_at_once(mark: Mark, window: str) -> None:
    assert West(window).read(d1=mark) is None


def test_an_epoch_is_read_at_once() -> None:
    west = West()
    west.logs.epochs_unread = True
    assert west.read(d1=22) is None


def test_while_state_is_on_its_way_nothing_gathers() -> None:
    west = West()
    west.pair.apply(window_at("e"))
    west.pair.step(EAST)
    assert west.pair.regions[EAST].kernel.moves.incoming
    gathering: Gathering[Any] = Gathering(EAST, QUERY.shape, Lists(), PATIENCE)  # type: ignore[arg-type]
    assert gathering.until(west.pair.regions[EAST].kernel, 0.0) is None


def test_messages_of_marks_and_rows_gather() -> None:
    source = source_id(LEFT, "d1")
    assert West().hear((0, source, Mark(1, 25)), sent=[Sent(WEST, WINDOW, 0, "rows")]) == 2.0
    assert West().hear(sent=[Sent(WEST, WINDOW + 1, 0, "results")]) is None
    assert West().hear(wanted=[object()]) is None
    assert West().hear(handovers=[(object(), object())]) is None
    assert West().hear((0, source, Mark(1, 25, over=True))) is None


def test_where_others_wait_for_the_watermark_itself_nothing_gathers() -> None:
    assert West(target="derived").read(d1=22) is None
    assert West(idle_seconds=5.0).read(d1=22) is None


@pytest.mark.parametrize(("kind", "gathers"), [("tumbling", True), ("counted_join", True), ("joined", False)])
def test_only_plans_that_answer_with_the_watermark_gather(kind: str, gathers: bool) -> None:
    query = worlds.ALL_KINDS[kind]("q", 0)
    assert answers_with_watermark(query.shape.plan) is gathers
    assert answers_with_watermark(worlds.passing("q", 0).shape.plan) is False


def test_a_window_may_answer_when_one_of_its_ends_is_passed() -> None:
    hopping = Aggregate((0,), Window("ts", size_us=10, slide_us=5, offset_us=1), (), (), lag_us=3)
    ends = [at for at in range(40) if hopping.may_answer(at - 1, at)]
    assert ends == [4, 9, 14, 19, 24, 29, 34, 39], "1 + 10 + 5k, and 3 later"
    assert hopping.may_answer(NEVER, 0)
    session = replace(hopping, window=Window("ts", gap_us=4))
    assert session.may_answer(20, 21)
    assert not session.may_answer(21, 21)
