"""What a move costs: how long a filter's results are silent while the query, with a window's state beside it, moves.

ours     all 40 devices attach to the other region in one change: a hand-over, the open windows' state follows
Spark    the queries are stopped and started again from their checkpoints
Flink    the job is stopped with a savepoint and started again from it (planning is warm, the cluster stays up)

Rows keep coming meanwhile. Spark and Flink read files that appear every 100 ms, because a socket cannot be read twice;
nobody may lose a result. Where a restarted job repeats some, that is said.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from bench._harness import say
from bench.peers import pace
from bench.peers.channels import Listener
from bench.peers.flink import Flink
from bench.peers.latency import FLINK_OPTIONS, TAIL_S, Push, batch_taker, halt, ours, parsed_rows
from bench.peers.pace import Ears, Row
from bench.peers.questions import Question, ask
from godwit.ids import DeviceId, SiteId
from godwit.model.changes import DeviceMoved

QUESTIONS = [*ask("filter"), *ask("window")]
Move = Callable[[], None]
Contender = AbstractContextManager[tuple[Push, Move]]


class Files:
    """Every push becomes a file that is there wholly or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._number = folder, 0
        folder.mkdir(parents=True)

    def push(self, rows: list[Row], _reached_ms: int) -> None:
        self._number += 1
        draft = self.folder / f".{self._number:06d}.csv"
        draft.write_text("".join(row.text() for row in rows))
        draft.rename(self.folder / f"{self._number:06d}.csv")


@contextmanager
def handed_over(spark: SparkSession, work: Path, ears: Ears) -> Iterator[tuple[Push, Move]]:
    with ours(spark, work, QUESTIONS, ears, regions=3) as (push, fleet):
        turn = [0]

        def move() -> None:
            turn[0] += 1
            site = [f"s{(n + 2 * turn[0]) % 4}" for n in range(pace.DEVICES)]
            fleet.change([DeviceMoved(DeviceId(f"d{n}"), SiteId(site[n])) for n in range(pace.DEVICES)])

        yield push, move


@contextmanager
def restarted(spark: SparkSession, work: Path, ears: Ears) -> Iterator[tuple[Push, Move]]:
    files = Files(work / "rows")
    running: list[Any] = []

    def start() -> None:
        for question in QUESTIONS:
            session = spark.newSession()
            parsed_rows(session.readStream.text(str(files.folder))).createOrReplaceTempView("readings")
            query = session.sql(question.spark).writeStream.foreachBatch(batch_taker(ears, question))
            running.append(query.option("checkpointLocation", str(work / question.name)).start())

    def stop() -> None:
        while running:
            halt(running.pop())

    def move() -> None:
        stop()
        start()

    start()
    try:
        yield files.push, move
    finally:
        stop()


@contextmanager
def from_savepoint(flink: Flink, work: Path, ears: Ears) -> Iterator[tuple[Push, Move]]:
    files, results = Files(work / "rows"), Listener(ears.line)
    asked = {question.name: question.flink for question in QUESTIONS}

    def start(**more: str) -> None:
        options = {**FLINK_OPTIONS, **more}
        flink.ask("follow", folder=str(files.folder), to=results.port, queries=asked, options=options)

    def move() -> None:
        saved = flink.ask("stop", savepoint=True)["savepoint"]
        start(**{"execution.state-recovery.path": saved})

    start()
    try:
        yield files.push, move
    finally:
        flink.ask("stop", savepoint=False)
        results.close()


def measure(
    spark: SparkSession, flink: Flink | None, work: Path, moves: int, warm_s: float, apart_s: float
) -> Iterator[dict[str, Any]]:
    """Each contender under so many moves; gaps are medians over the moves."""
    contenders: list[tuple[str, Callable[[Ears], Contender]]] = [
        ("godwit: hand-over to another region", lambda ears: handed_over(spark, work / "ours", ears)),
        ("spark: restart from the checkpoint", lambda ears: restarted(spark, work / "spark", ears)),
    ]
    if flink is not None:
        contenders.insert(
            1, ("flink: restart from a savepoint", lambda ears: from_savepoint(flink, work / "flink", ears))
        )
    for name, start in contenders:
        yield _one(name, start, spark, moves, warm_s, apart_s)


def _one(
    name: str,
    start: Callable[[Ears], Contender],
    spark: SparkSession,
    moves: int,
    warm_s: float,
    apart_s: float,
) -> dict[str, Any]:
    seconds = warm_s + moves * apart_s + TAIL_S
    took: list[tuple[float, float]] = []
    ears = Ears()
    with start(ears) as (push, move):
        mover = threading.Thread(target=_move, args=(move, took, warm_s, apart_s, moves), daemon=True)
        begin, count = pace.send(seconds, starting(push, mover))
        mover.join(60)
        time.sleep(TAIL_S)
    question: Question = QUESTIONS[0]
    since, until = int(warm_s * 500), int((seconds - TAIL_S) * 1000)
    want = pace.expected(spark, [question], count, since, until)
    filtered = Ears([h for h in ears.heard if h.name == question.name])
    have = pace.counted(filtered, begin, since, until)
    walls = sorted(h.wall for h in filtered.heard)
    gaps = [silence(walls, start, end + 5000) for start, end in took]
    calm = silence(walls, begin + warm_s * 500, took[0][0] if took else begin + warm_s * 1000)
    found = {
        "contender": name,
        "moves": len(took),
        "gap_ms": round(float(np.median(gaps))) if gaps else None,
        "worst_gap_ms": round(max(gaps)) if gaps else None,
        "calm_gap_ms": round(calm),
        "move_ms": round(float(np.median([end - start for start, end in took]))) if took else None,
        "lost": sum((want - have).values()),
        "repeated": sum((have - want).values()),
    }
    say(f"  {name}: silent for {found['gap_ms']} ms (calm: {found['calm_gap_ms']} ms), {found['lost']} results lost")
    return found


def starting(push: Push, mover: threading.Thread) -> Push:
    """The moves' clock begins with the first row that is sent in pace; those before are a minute old."""

    def pushing(rows: list[Row], reached_ms: int) -> None:
        if mover.ident is None and reached_ms > time.time() * 1000 - 30_000:
            mover.start()
        push(rows, reached_ms)

    return pushing


def _move(move: Move, took: list[tuple[float, float]], warm_s: float, apart_s: float, moves: int) -> None:
    time.sleep(warm_s)
    for _ in range(moves):
        began = time.time()
        move()
        ended = time.time()
        took.append((began * 1000, ended * 1000))
        time.sleep(max(apart_s - (ended - began), 0.0))


def silence(walls: list[float], since: float, until: float) -> float:
    """The longest time without a result that overlaps the interval; up to its end, if nothing came after it."""
    longest = 0.0
    for before, after in zip(walls, [*walls[1:], until], strict=True):
        if after > since and before < until:
            longest = max(longest, after - before)
    return longest
