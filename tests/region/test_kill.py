"""kill -9 at any moment, and a restart: the results equal the oracle's. A real process, really killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.region.test_running import OVERS, TOTALS
from tests.region.world import QUERIES

#: pushes batch after batch, each under its number; moves both queries' state to another region in the middle; dies at
#: the given moment of the given micro-batch, counted from the move if told so ("moved": right after the move)
CHILD = """
import os, signal, sys
from pathlib import Path
from godwit.api.fleet import Fleet
from godwit.engine.session import spark_session
from godwit.model.instances import InstanceId
from tests.region.world import SCHEMA, three_regions
from tests.region.test_kill import KNOWN, batches

folder, moment, die_at, state = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
after_move, names = sys.argv[5] == "True", sys.argv[6].split(",")
count, moved = 0, False

def at(now):
    global count
    count += now == moment and (moved or not after_move)
    if now == moment and count == die_at:
        os.kill(os.getpid(), signal.SIGKILL)

def move():
    global moved
    moved = True
    for name in names:
        plan = fleet.deployment.queries[name].shape.plan
        wanted = {f"{name}/{i}": "east" for i in range(len(plan.operators)) if not plan.is_local(i)}
        if any(fleet.deployment.placement[InstanceId.parse(i)] != site for i, site in wanted.items()):
            fleet.move(wanted)
    at("moved")

fleet = Fleet(Path(folder), spark_session(quick=True), at=at, state=state)
if not fleet.deployment.queries:
    fleet.topology.add(three_regions())
    fleet.stream("passengers", SCHEMA, device="train", disorder="3 seconds")
    for train, site in (("t0", "west"), ("t1", "east")):
        fleet.device(train, site=site, streams=["passengers"])
    for name in names:
        fleet.submit(KNOWN[name], name)
for number, train, rows in batches():
    fleet.device(train, streams=["passengers"]).push(rows, sequence=number)
    if number == 3 and train == "t1":
        move()
    fleet.process_available()
fleet.close_sources()
fleet.process_available()
print("\\n".join(str(fleet.query(name).verdict()) for name in names))
"""
KNOWN = {**QUERIES, **TOTALS, **OVERS}


def batches() -> list[tuple[int, str, list[dict[str, object]]]]:
    """(sequence number, train, rows): the same in every process."""
    import datetime as dt
    import random

    from tests.region.world import START

    rng, made = random.Random(7), []
    for number in range(1, 6):
        for train in ("t0", "t1"):
            rows = [
                {
                    "train": train, "line": "S41" if train == "t0" else "S42", "coach": rng.randrange(3),
                    "boarded": rng.randrange(10), "alighted": rng.randrange(10), "load": rng.random(),
                    "ts": START + dt.timedelta(seconds=number * 5 + rng.random() * 3),
                }
                for _ in range(8)
            ]  # fmt: skip
            made.append((number, train, rows))
    return made


def run(
    folder: Path, moment: str, die_at: int, state: str, after_move: bool, names: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CHILD, str(folder), moment, str(die_at), state, str(after_move), names]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}
    return subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment, check=False)


def killed_and_restarted(
    folder: Path, kills: Sequence[tuple[str, int]], state: str, after_move: bool, names: str = "tumbling,join"
) -> list[str]:
    """One process per kill, each (moment, micro-batch), then one that goes on to the end."""
    for moment, die_at in kills:
        killed = run(folder, moment, die_at, state, after_move, names)
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    again = run(folder, "never", -1, state, after_move, names)
    assert again.returncode == 0, again.stderr[-2000:]
    return [line.split(":")[1].split(",")[0].strip() for line in again.stdout.splitlines()]


def test_a_process_killed_twice_in_the_middle_of_moves(tmp_path: Path) -> None:
    """Before a commit, and after one: what that has for other regions is not published yet."""
    names = "tumbling,join,having,so_far,count_slide"
    found = killed_and_restarted(tmp_path, [("staged", 3), ("committed", 3)], "delta", after_move=True, names=names)
    assert found == ["equal"] * 5


@pytest.mark.full
@pytest.mark.parametrize(("moment", "die_at"), [("staged", 7), ("committed", 11), ("polled", 4)])
def test_a_killed_process_loses_and_repeats_nothing(tmp_path: Path, moment: str, die_at: int) -> None:
    assert killed_and_restarted(tmp_path, [(moment, die_at)], "delta", after_move=False) == ["equal", "equal"]


#: the micro-batches that follow a move: producers and the old owner take it in (1, 2), the old owner hands over, and
#: the new owner takes rows and then the state (3 and later)
@pytest.mark.full
@pytest.mark.parametrize("state", ["delta", "transfer", "recreate-best"])
@pytest.mark.parametrize(
    ("moment", "die_at"),
    [("moved", 1), ("published", 2), ("polled", 1), ("staged", 2), ("committed", 2), ("committed", 4)],
)
def test_a_process_killed_in_any_phase_of_a_move(tmp_path: Path, state: str, moment: str, die_at: int) -> None:
    assert killed_and_restarted(tmp_path, [(moment, die_at)], state, after_move=True) == ["equal", "equal"]
