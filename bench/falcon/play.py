"""Strategies take turns within one run: half of the keys migrate to an edge by each, and back, in an order by chance.

All strategies of a cell see the same fleet, Java and rows. Each has taken the keys there and back once before anything
counts; then `rounds` times, in another order each time. What is steady is measured in all the pauses between
migrations. `none` takes its turn like the others and migrates nothing: what the measures say of it is the machine's own
noise. A strategy that refuses the operator is reported with its reason.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from bench.falcon.ground import CLOUD, edge
from bench.falcon.measures import AFTER_S, Latencies, Steady, disruption_ms, jitter_ms
from bench.falcon.questions import QUESTIONS, Question
from bench.falcon.sending import Cell, Cut, Played, Prepare, latencies, over_time, play_with, until
from godwit.api.fleet import Fleet
from godwit.errors import GodwitError

NONE = "none"
#: the pause before a migration: chosen within, so that migrations begin at any time of a window
PAUSE_S = (0.4, 1.2)
#: a replica stands for so long before it is taken over
REPLICA_S = 1.1
#: as long as the turn of `none`
NOTHING_S = 0.3
#: a migration that takes longer has failed
LONGEST_S = 60.0
#: results pushed so shortly before a migration may be answered within it
BEFORE_S = 0.2


@dataclass(frozen=True)
class Turn:
    strategy: str
    to: str
    #: the pause before it ends (or a replica is made); the migration begins; and is over
    left: float
    began: float
    ended: float


def play(
    cell: Cell, cut: Cut, question: Question | None = None, prepare: Prepare | None = None
) -> list[dict[str, Any]]:
    """A result for each strategy of the cell."""
    asked = question or QUESTIONS[cell.workload]
    asked = replace(asked, count=cell.keys or asked.count)
    turns: list[Turn] = []
    refused: dict[str, str] = {}

    def drive(fleet: Fleet, played: Played) -> None:
        refused.update(_refusals(fleet, asked, cell))
        able = [strategy for strategy in cell.strategies if strategy not in refused]
        until(played.start + cut.warm_s)
        for strategy in able:
            _there_and_back(fleet, asked, cell, strategy, lambda: 0.1)
        time.sleep(cut.calm_s)
        chance = random.Random(f"{cell.workload} {cell.x}")
        for _ in range(cut.rounds):
            for strategy in chance.sample(able, len(able)):
                turns.extend(_there_and_back(fleet, asked, cell, strategy, lambda: chance.uniform(*PAUSE_S)))

    def measure(asked: Question, played: Played, fleet: Fleet) -> dict[str, dict[str, Any]]:
        found = {name: {"refused": why} for name, why in refused.items()}
        return {**found, **_measured(asked, cut, played, turns)}

    return play_with(cell, cut, asked, drive, measure, prepare)


def _refusals(fleet: Fleet, asked: Question, cell: Cell) -> Iterator[tuple[str, str]]:
    for strategy in cell.strategies:
        try:
            for query, operator in asked.operators(fleet) if strategy != NONE else ():
                to = edge(cell.edges - 1)
                fleet.migrate(query, keys=asked.keys[::2], to=to, strategy=strategy, operator=operator, dry_run=True)
        except GodwitError as error:
            yield strategy, str(error)


def _there_and_back(fleet: Fleet, asked: Question, cell: Cell, strategy: str, pause: Any) -> list[Turn]:
    return [_turn(fleet, asked, strategy, to, pause()) for to in (edge(cell.edges - 1), CLOUD)]


def _turn(fleet: Fleet, asked: Question, strategy: str, to: str, pause: float) -> Turn:
    time.sleep(pause)
    left = time.time()
    operators = asked.operators(fleet) if strategy != NONE else []
    if strategy == "hot-backup":  # replicas stand where the keys will go, as in Rhino
        for query, operator in operators:
            fleet.replicate(query, keys=asked.keys[::2], to=to, operator=operator)
        time.sleep(REPLICA_S)
    began = time.time()
    for query, operator in operators:
        fleet.migrate(query, keys=asked.keys[::2], to=to, strategy=strategy, operator=operator)
    while fleet.plane.keys.busy:
        if time.time() > began + LONGEST_S:
            msg = f"a migration by {strategy} was not over after {LONGEST_S:g} s"
            raise TimeoutError(msg)
        time.sleep(0.002)
    time.sleep(NOTHING_S if strategy == NONE else 0.0)
    ended = time.time()
    time.sleep(AFTER_S)
    return Turn(strategy, to, left, began, ended)


def _measured(asked: Question, cut: Cut, played: Played, turns: list[Turn]) -> dict[str, dict[str, Any]]:
    seen = latencies(asked, played)
    steady = Steady.of(Latencies.together(list(_calm(seen, cut, turns))))
    told = {"mean_ms": round(steady.mean, 1), "sigma_ms": round(steady.sigma, 1), "p99_ms": round(steady.p99, 1)}
    shared = {
        "steady": {**told, "results": steady.results},
        "sender_behind_s": round(played.behind_s, 2),
        "over_time": over_time(seen, played),
    }
    found = {}
    for strategy in dict.fromkeys(turn.strategy for turn in turns):
        moves = [_move(seen, steady, played, turn) for turn in turns if turn.strategy == strategy]
        names = ("disruption_ms", "jitter_ms", "duration_ms", "bytes", "standing_bytes_per_s")
        found[strategy] = {**{name: _mean([one[name] for one in moves]) for name in names}, "moves": moves, **shared}
    return found


def _calm(seen: Latencies, cut: Cut, turns: list[Turn]) -> Iterator[Latencies]:
    """Rows pushed in the pauses."""
    since = turns[0].left - cut.calm_s if turns else 0.0
    for turn in turns:
        yield seen.pushed_between(since, turn.left - BEFORE_S)
        since = turn.ended + AFTER_S


def _move(seen: Latencies, steady: Steady, played: Played, turn: Turn) -> dict[str, Any]:
    around = seen.between(turn.began, turn.ended + AFTER_S)
    stood = turn.began - turn.left if turn.strategy == "hot-backup" else 0.0
    return {
        "to": turn.to,
        "disruption_ms": disruption_ms(around, steady.limit),
        "jitter_ms": jitter_ms(around, steady.mean),
        "duration_ms": round((turn.ended - turn.began) * 1000, 1),
        "bytes": played.sent(turn.began, turn.ended + AFTER_S),
        #: of a replica while it stands
        "standing_bytes_per_s": round(played.sent(turn.left, turn.began) / stood) if stood else 0,
        "results": len(around.ms),
    }


def _mean(values: list[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 1) if known else None
