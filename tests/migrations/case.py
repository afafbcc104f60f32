"""Migration cases as data: one loader for both players.

A case names the kind of query, the placement rule and a script, one action per line:

    send d1 left 21:0:3 24:1:2     device, stream, readings as second:key:value
    pause                          everything that is available is processed
    device d1 -> b1                any line of godwit.model.change_text is a topology change
    kill staged                    the process (simulator: every region) dies at this moment of its next step
    withdraw q
    state at b1                    expectation: the operators with state are placed there
    parked q | running q           expectation

`results` are the rows that must have been answered at the end (sources closed, nothing else mended), `error` the words
with which the script is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from godwit.model.change_text import parse_change
from godwit.testing import CHANGE, KILL, PAUSE, WITHDRAW, Action

FOLDER = Path(__file__).parents[1] / "fixtures" / "migrations"
QUERY = "q"

#: second, key, value
Reading = tuple[int, int, int]
#: columns of a result, in the order of the query's SELECT list
Row = tuple[int, ...]


@dataclass(frozen=True)
class Readings:
    """A device sends readings; players give them their own form."""

    device: str
    stream: str
    readings: tuple[Reading, ...]


@dataclass(frozen=True)
class StateAt:
    site: str


@dataclass(frozen=True)
class Parked:
    query: str
    parked: bool


Step = Action | Readings | StateAt | Parked


@dataclass(frozen=True)
class Case:
    name: str
    kind: str
    over: int
    rule: str
    script: tuple[Step, ...]
    results: tuple[Row, ...]
    error: str | None


def load(path: Path) -> Case:
    body: dict[str, Any] = yaml.safe_load(path.read_text())
    script = tuple(parse(line) for line in body["script"])
    results = tuple(sorted(tuple(row) for row in body.get("results", ())))
    rule = body.get("rule", "bottom-up")
    return Case(path.stem, body["query"], body.get("over", 0), rule, script, results, body.get("error"))


def cases(which: str) -> list[Case]:
    return [load(path) for path in sorted((FOLDER / which).glob("*.yaml"))]


def parse(line: str) -> Step:
    match line.split():
        case ["send", device, stream, *readings]:
            return Readings(device, stream, tuple(_reading(text) for text in readings))
        case ["pause"]:
            return PAUSE()
        case ["kill", moment]:
            return KILL(moment)
        case ["withdraw", name]:
            return WITHDRAW(name)
        case ["state", "at", site]:
            return StateAt(site)
        case [("parked" | "running") as word, name]:
            return Parked(name, word == "parked")
    return CHANGE(parse_change(line))


def _reading(text: str) -> Reading:
    second, key, value = map(int, text.split(":"))
    return second, key, value
