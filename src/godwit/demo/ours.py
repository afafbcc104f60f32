"""The demo's first half: a fleet runs the queries while the trains hop."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.delivery.sinks.callback import CallbackSink
from godwit.demo.answers import Answers
from godwit.demo.due import Handed, Noting
from godwit.demo.moves import StateMove, state_moves
from godwit.demo.outcome import DemoOutcome, Show, look
from godwit.demo.queries import SCHEMA, STREAM, Asked
from godwit.demo.world import DISORDER_MS, GAP_MS, DemoStage, first_counts
from godwit.maintenance.housekeeping import Retention
from godwit.mobility.driver import Cue, Driver, Feed, FleetTarget

#: how often the view looks (seconds)
LOOK_EVERY = 0.5
NAME = "godwit"


class Counted(FleetTarget):
    """Knows which hand-overs are in force: those whose epoch every runner works under."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._epochs: list[int] = []
        self._seen = {str(device) for device, site in fleet.deployment.devices.items() if site is not None}

    def move(self, moves: Sequence[Cue]) -> None:
        super().move(moves)
        arrived = {cue.device for cue in moves if cue.site is not None}
        self._epochs += [int(self._fleet.deployment.epoch)] * len(arrived & self._seen)
        self._seen |= arrived

    @property
    def handled(self) -> int:
        runners = list(self._fleet.pool.runners.values())
        adopted = min((int(runner.deployment.epoch) for runner in runners), default=0)
        return sum(epoch <= adopted for epoch in self._epochs)


def prepare(spark: SparkSession, folder: Path, stage: DemoStage, queries: list[Asked]) -> Fleet:
    """A fleet with the stage's ground, devices and queries, running."""
    fleet = Fleet(folder, spark, retention=Retention(keep=True))  # the oracle needs everything that was sent
    fleet.topology.add(stage.topology)
    fleet.stream(STREAM, SCHEMA, device="train", disorder=f"{DISORDER_MS} milliseconds")
    for device in stage.topology.devices:
        fleet.device(device, streams=[STREAM])
    for query in queries:
        fleet.submit(query.sql, query.name)
    fleet.start()
    return fleet


def warm_up(fleet: Fleet, stage: DemoStage) -> int:
    """One early count of every train, answered by every plan, so that the clock does not start on cold ones."""
    rows = first_counts(stage, time.time())
    fleet.push(STREAM, rows)
    fleet.process_available()
    return int(rows.num_rows)


def play(fleet: Fleet, stage: DemoStage, queries: list[Asked], seed: int, show: Show) -> PlayedTrace:
    """The trace, in real time. Results reach us as they reach any user: through a callback of each query."""
    start = time.time()
    handed = Handed()
    answers = Answers(handed, start)
    for query in queries:
        fleet.query(query.name).write_to(_listener(answers, query))
    counted = Counted(fleet)
    target = Noting(counted, handed, time.time, stage.trace.initial())
    looked = [0.0]

    def watch(driver: Driver) -> None:
        if time.monotonic() - looked[0] >= LOOK_EVERY:
            looked[0] = time.monotonic()
            fleet.check()
            moves = _moves(fleet, stage, start)
            show(look(NAME, driver, list(answers.given), counted.handled, start + stage.calm_s, moves))

    driver = Driver(
        stage.trace,
        [Feed(STREAM, stage.payload(int(start * 1000), seed), DISORDER_MS)],
        target,
        start_ms=int(start * 1000),
        gap_ms=GAP_MS,
        watch=watch,
        attached=dict(stage.trace.initial()),
    )
    driver.play()
    driver.last_tick()
    return PlayedTrace(driver, answers, start, start + stage.calm_s, tuple(target.handovers), counted.handled)


@dataclass(frozen=True)
class PlayedTrace:
    """A trace that was played, and what came of it so far."""

    driver: Driver
    answers: Answers
    started: float
    calm_until: float
    handovers: tuple[float, ...]
    #: of those, in force a tick after the last
    handled: int


def finish(fleet: Fleet, stage: DemoStage, played: PlayedTrace, queries: list[Asked]) -> DemoOutcome:
    """Close every window, stop, and ask the oracle."""
    fleet.close_sources()
    fleet.process_available()
    fleet.stop()
    verdicts = tuple(fleet.query(query.name).verdict() for query in queries)
    batches = sum(runner.batches for runner in fleet.status().runners)
    return DemoOutcome(
        name=NAME,
        rows=played.driver.rows,
        results=sum(v.got for v in verdicts),
        answers=tuple(played.answers.given),
        started=played.started,
        calm_until=played.calm_until,
        handovers=played.handovers,
        handled=played.handled,
        verdicts=verdicts,
        moves=tuple(_moves(fleet, stage, played.started)),
        note=f"{batches:,} micro-batches",
    )


def _listener(answers: Answers, query: Asked) -> CallbackSink:
    return CallbackSink(lambda rows: answers.take(query, rows, time.time()), name="demo")


def _moves(fleet: Fleet, stage: DemoStage, since: float) -> list[StateMove]:
    return state_moves(fleet.history.read(), stage.topology, since)
