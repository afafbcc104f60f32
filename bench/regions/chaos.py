"""Random faults against real processes for as long as one wants: script after script, each with a recorded seed.

python -m bench.regions --chaos --seconds 3600 [--seed 1] [--store file|nats] [--length 40] [--together]

Each script starts a fleet of its own, ends with the oracle, and adds a line to docs/results/chaos.jsonl: seed, store,
faults, rows, verdict, seconds of recovery by kind of fault. `--seed S --length N --store X` plays one again. With
`--together` half of the faults come two or three at once, and rows are sent while they last.
"""

from __future__ import annotations

import itertools
import json
import random
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from bench._harness import RESULTS, machine, say
from godwit.ids import RegionId, SiteId
from godwit.model.topology import Link, Site, Topology
from godwit.process.chaos import ChaosPlayer
from godwit.process.connect import ConnectedFleet
from godwit.process.fleet_file import FleetFile, RegionSpec
from godwit.process.launcher import Launcher
from godwit.process.proxy import Proxy
from godwit.testing import readings
from godwit.testing.broker import LocalNats
from godwit.testing.chaos import ChaosScript, FaultWeights, chaos

FILE = RESULTS / "chaos.jsonl"
#: in a batch
ROWS = 5
DEVICES = {f"t{n}": ["west", "east"] for n in range(3)}
QUERIES = {
    "tumbling": "SELECT train, count(*) AS n, sum(boarded) AS b, window.end AS until FROM passengers "
    "GROUP BY train, window(ts, '10 seconds')",
    "filter": "SELECT train, n, boarded, ts FROM passengers WHERE boarded > 4",
    "join": "SELECT a.train, a.n, b.train AS other, b.n AS m, a.ts, b.ts AS met FROM passengers a JOIN passengers b "
    "ON a.boarded = b.boarded AND a.ts BETWEEN b.ts - INTERVAL 1 SECOND AND b.ts + INTERVAL 2 SECONDS",
}
#: a process that is killed takes long to start: fewer of those, so that there is more of everything else
OFTEN = FaultWeights(send=2.0, move=3.0, place=2.0, kill_region=0.3, kill_coordinator=0.5)
#: counts of a script that are to be 0
WRONG = ("rows_lost", "rows_doubled", "out_of_order", "sink_lost", "sink_doubled")
#: of a fault (seconds)
LONGEST = 3.0


def weights(store: str, together: bool = False) -> FaultWeights:
    more = {"full_disk": 1.0} if store == "file" else {"kill_broker": 1.0, "cut_store": 1.0, "slow_store": 1.0}
    found = replace(OFTEN, clock=1.0, **more)
    return replace(found, together=sum(found.faults.values())) if together else found


def script(seed: int, store: str, length: int, together: bool = False) -> ChaosScript:
    return chaos(seed, length, ["edge", "cloud"], DEVICES, sorted(QUERIES), weights(store, together), LONGEST)


def run(seconds: float, seed: int, store: str, length: int, together: bool = False) -> list[dict[str, Any]]:
    """Scripts of seeds from `seed` on, until the time is over (the last one is played to its end)."""
    until, found = time.monotonic() + seconds, list[dict[str, Any]]()
    while time.monotonic() < until:
        here = machine()
        with tempfile.TemporaryDirectory(prefix="godwit-chaos-") as folder:
            told = play(script(seed, store, length, together), store, Path(folder), length)
        told |= {"together": together, **{name: here[name] for name in ("commit", "at", "load_before")}}
        found.append(told)
        with FILE.open("a", encoding="utf-8") as out:
            out.write(json.dumps(told) + "\n")
        wrong = ", ".join(f"{name} {told[name]}" for name in WRONG if told[name])
        outcome = f"{told['faults']} faults, {told['verdict']}, {wrong or 'in order'}, {told['seconds']} s"
        say(f"seed {seed} over {store}: {outcome}")
        seed += 1
    return found


def play(steps: ChaosScript, store: str, folder: Path, length: int) -> dict[str, Any]:
    began = time.monotonic()
    with ExitStack() as ending:
        broker, link, url = None, None, str(folder / "fleet")
        if store == "nats":
            broker = ending.enter_context(LocalNats(folder / "nats"))
            link = Proxy()
            link.target = broker.address.removeprefix("nats://")
            ending.callback(link.close)
            url = f"nats://{link.address}/fleet"
        regions = tuple(RegionSpec(name, keep=True, quick=True) for name in ("edge", "cloud"))
        sinks, out = folder / "sinks.yaml", folder / "filter.jsonl"
        sinks.write_text(f"filter: {{json_lines: {out.name}}}\n")
        at = Path(url) if store == "file" else url
        more = ("--sinks", str(sinks))
        spec = FleetFile(at, regions, lease=3.0, run_folder=folder / "run", coordinator=more)
        launcher = Launcher(spec, proxied=True, clocks=True)
        ending.callback(launcher.down)
        launcher.up()
        fleet = ending.enter_context(ConnectedFleet(url, launcher.token()))
        sender = _declared(fleet, steps.seed)
        player = ChaosPlayer(launcher, fleet, sender.send, broker, link)
        recoveries = player.play(steps)
        fleet.close_sources()
        fleet.process_available(300.0)
        results = fleet.results("filter").num_rows
        _await_lines(out, results)
        launcher.down()
        sunk = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        verdict, lost, doubled = _judged(url, sender.rows)
    kinds = defaultdict[str, list[float]](list)
    for one in recoveries:
        kinds[type(one.step).__name__].append(round(one.seconds, 2))
    return {
        "seed": steps.seed, "store": store, "length": length, "faults": steps.faults, "rows": sender.rows,
        "verdict": verdict, "rows_lost": lost, "rows_doubled": doubled, "out_of_order": out_of_order(sunk),
        "sink_rows": len(sunk), "sink_lost": results - len({_row(one) for one in sunk}),
        "sink_doubled": len(sunk) - len({_row(one) for one in sunk}),
        "seconds": round(time.monotonic() - began, 1), "recovery_s": dict(kinds),
    }  # fmt: skip


class _Trains:
    def __init__(self, fleet: ConnectedFleet, seed: int) -> None:
        self._fleet, self._rng, self._second, self.rows = fleet, random.Random(seed), 0.0, 0
        self._sequence: Counter[str] = Counter()
        self._numbers = {train: itertools.count() for train in DEVICES}

    def send(self, batches: int) -> None:
        for _ in range(batches):
            self._second += 2.0
            for train in DEVICES:
                self._sequence[train] += 1
                made = readings(
                    train, ROWS, rng=self._rng, since=self._second, within=3.0, device_column="train",
                    columns={"boarded": lambda rng: rng.randrange(10)},
                )  # fmt: skip
                made = [{**row, "n": next(self._numbers[train])} for row in made]
                self._fleet.push("passengers", made, device=train, sequence=self._sequence[train], timeout=120.0)
                self.rows += len(made)


def _declared(fleet: ConnectedFleet, seed: int) -> _Trains:
    edge, cloud = RegionId("edge"), RegionId("cloud")
    sites = [Site(SiteId("west"), edge), Site(SiteId("east"), cloud)]
    sites.append(Site(SiteId("cloud"), cloud, cpu=1000.0, kind="cloud"))
    links = [Link(SiteId(one), SiteId("cloud"), ms=5) for one in ("west", "east")]
    fleet.add_topology(Topology.of(sites, links))
    fleet.stream("passengers", "train string, n int, boarded int, ts timestamp", device="train", disorder="3 seconds")
    for train, at in DEVICES.items():
        fleet.device(train, site=at[0], streams=["passengers"])
    for name, sql in QUERIES.items():
        # (in half of the scripts the filter's sink has a place, which the script changes; else results leave anywhere)
        fleet.submit(sql, name, sink="cloud" if name == "filter" and seed % 2 == 0 else None)
    return _Trains(fleet, seed)


def _await_lines(file: Path, lines: int, seconds: float = 60.0) -> None:
    """Until a sink has what the fleet has answered; what is missing then is counted."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and len(file.read_bytes().splitlines() if file.exists() else ()) < lines:
        time.sleep(0.1)
    file.touch()


def _judged(url: str, sent: int) -> tuple[str, int, int]:
    """The oracle's verdict; rows that are in no source log, or in two."""
    from godwit.api.fleet import Fleet
    from godwit.engine.session import spark_session
    from godwit.maintenance.housekeeping import Retention

    opened = Fleet(url, spark_session(memory="512m", quick=True), retention=Retention(keep=True))
    try:
        verdicts = [opened.query(name).verdict() for name in sorted(QUERIES)]
        logs = [opened.store.log(f"regions/{region}/sources/passengers") for region in ("edge", "cloud")]
        taken = sum(sum(record["rows"].values()) for log in logs for _, record in log.after(0))
    finally:
        opened.stop()
    wrong = [str(one) for one in verdicts if not one.equal]
    return "equal" if not wrong else "; ".join(wrong), max(sent - taken, 0), max(taken - sent, 0)


def _row(one: dict[str, Any]) -> tuple[str, int]:
    return one["train"], one["n"]


def out_of_order(sunk: list[dict[str, Any]]) -> int:
    """How often a row comes out of the sink behind one that its train sent in a later batch. (Not as somebody reads the
    logs afterwards: commits that were merged into an archive meanwhile do not say in which order they came.)"""
    found, last = 0, dict.fromkeys(DEVICES, 0)
    for train, n in map(_row, sunk):
        found += n // ROWS < last[train]
        last[train] = max(n // ROWS, last[train])
    return found


def recovery_table(file: Path = FILE) -> list[tuple[str, int, float, float]]:
    """(kind of fault, how many, median, worst) of all scripts that were recorded."""
    kinds = defaultdict[str, list[float]](list)
    for line in file.read_text(encoding="utf-8").splitlines():
        for kind, seconds in json.loads(line)["recovery_s"].items():
            kinds[kind] += seconds
    return [(kind, len(s), round(median(s), 1), round(max(s), 1)) for kind, s in sorted(kinds.items())]
