"""Falcon's and ISQD's headline cells with real processes: an edge and a cloud, 80 ms of round trip between them.

A proxy keeps every byte between them for half a round trip, each way; those of the edge's own device it does not.
(`tc` needs a kernel with `netem`.) Twice:

    cloud   NATS stands at the cloud, and the edge reaches it through the proxy
    leaf    a second NATS, a leaf node with a JetStream domain of its own, stands at the edge: the proxy is between both

    tm      rows enter at the edge, totals per vehicle are kept at the cloud; half of the keys migrate to the edge by
            each strategy in turn, and back (as `bench.falcon`, Figure 8, with its measures)
    isqd    a filter and a window of one device that hops between edge and cloud, four times a second if the commands
            are answered by then (latency under change against calm; from a command to its answer)

python -m bench.regions --far            # both in one run, 6 to 7 minutes; writes docs/results/regions-far.json
python -m bench.regions --far --cells isqd --rounds 3
"""

from __future__ import annotations

import datetime as dt
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from bench._harness import say
from bench.falcon.ground import CLOUD, topology
from bench.falcon.measures import AFTER_S, Latencies, Steady, disruption_ms, jitter_ms
from bench.falcon.play import NONE, NOTHING_S
from bench.falcon.questions import QUERY, QUESTIONS
from bench.falcon.sending import EVERY, Played, latencies, until
from bench.regions.fleets import results_of
from bench.regions.measure import verdict
from godwit.ids import QueryId
from godwit.process.connect import ConnectedFleet
from godwit.process.fleet_file import FleetFile, RegionSpec
from godwit.process.launcher import Launcher
from godwit.process.members import region_document
from godwit.process.proxy import Proxy
from godwit.process.wire import WireCaller
from godwit.testing.broker import LocalNats
from godwit.workloads import Settings

EDGE = "edge0"
ROUND_TRIP_MS = 80.0
#: where the edge keeps its logs
STORES = ("cloud", "leaf")
STRATEGIES = (NONE, "falcon", "falcon-oop", "on-demand", "partial-pause", "full-restart")
RATE, SEED = 300.0, 7
WARM_S, CALM_S = 8.0, 4.0
PAUSE_S = (0.8, 1.6)
#: ISQD's cell
HOPS, HOP_EVERY = 40, 0.25
HOPPING = {
    "filter": "SELECT device, n, ts FROM rows WHERE n >= 0",
    "window": "SELECT device, count(*) AS n, window.end AS ts FROM rows GROUP BY device, window(ts, '1 second')",
}


@dataclass
class Far:
    """A fleet whose edge is far away."""

    url: str
    launcher: Launcher
    #: between the edge and the store at the cloud
    link: Proxy

    @contextmanager
    def client(self) -> Iterator[ConnectedFleet]:
        """One that stands where the device is: what it pushes to the edge has no way to go."""
        token = self.launcher.token()
        with ConnectedFleet(self.url, token) as fleet:
            name, near = region_document(EDGE), self.launcher.proxies[EDGE].target
            fleet._callers[name] = WireCaller(near, token, name)
            yield fleet

    def far(self, on: bool) -> None:
        """Whether links take their time."""
        for proxy in (self.launcher.proxies[EDGE], self.link):
            proxy.delay(ROUND_TRIP_MS / 2000 if on else 0.0)


@contextmanager
def far_fleet(folder: Path, store: str) -> Iterator[Far]:
    """`store`: where the edge keeps its logs."""
    with ExitStack() as ending:
        broker, link = ending.enter_context(LocalNats(folder / "nats", "hub")), Proxy()
        ending.callback(link.close)
        url = f"{broker.address}/fleet"
        if store == "leaf":
            link.target = broker.leaf_address
            own = ending.enter_context(LocalNats(folder / "leaf", EDGE, link.address))
            at = f"{own.address}/fleet?domain={EDGE}&hub=hub"
        else:
            link.target = broker.address.removeprefix("nats://")
            at = f"nats://{link.address}/fleet"
        edge = RegionSpec(EDGE, keep=True, quick=True, store=at)
        spec = FleetFile(url, (edge, RegionSpec(CLOUD, keep=True, quick=True)), run_folder=folder / "run")
        launcher = Launcher(spec, proxied=True)
        ending.callback(launcher.down)
        launcher.up()
        yield Far(url, launcher, link)


# --- Falcon


def tm(folder: Path, store: str, rounds: int) -> list[dict[str, Any]]:
    """Every strategy in turn; what each did, and the oracle."""
    asked = QUESTIONS["tm"]
    with far_fleet(folder, store) as far, far.client() as fleet, far.client() as driver:
        fleet.add_topology(topology(1, ROUND_TRIP_MS))
        settings = Settings(rate=RATE, seconds=3600.0, keys=asked.made_keys, seed=SEED)
        asked.workload.declare(fleet, settings, [EDGE])  # type: ignore[arg-type]
        fleet.submit(asked.sql, QUERY, sink=CLOUD)
        plan = fleet.deployment.queries[QueryId(QUERY)].shape.plan
        kept = [i for i in range(len(plan.operators)) if not plan.is_local(i)]
        fleet.place({f"{QUERY}/{i}": CLOUD for i in kept})
        far.far(True)
        heard, played, turns = Heard(fleet), Played(time.time() + 0.2), list[tuple[str, float, float]]()
        settings = replace(settings, start=dt.datetime.fromtimestamp(played.start, dt.UTC))
        batches = enumerate(asked.workload.batches(settings, EVERY), start=1)

        def push() -> None:
            number, tables = next(batches)
            until(played.start + number * EVERY)
            played.count(tables["speeds"])
            played.called.append(time.time())
            fleet.push("speeds", tables["speeds"], device="s0", sequence=number)
            heard.look(every=20)

        _meanwhile(lambda: turns.extend(_turns(driver, played.start, asked.keys[::2], rounds)), push)
        far.far(False)
        fleet.close_sources()
        fleet.process_available(300)
        played.heard = heard.all()
        far.launcher.down()
        oracle = verdict(far.url, QUERY)
    return _told(latencies(asked, played), turns, oracle)


def _turns(driver: ConnectedFleet, start: float, keys: list[str], rounds: int) -> Iterator[tuple[str, float, float]]:
    until(start + WARM_S)
    for strategy in STRATEGIES:
        for to in (EDGE, CLOUD):
            _migrate(driver, strategy, keys, to)
    time.sleep(CALM_S)
    chance = random.Random(SEED)
    for _ in range(rounds):
        for strategy in chance.sample(STRATEGIES, len(STRATEGIES)):
            for to in (EDGE, CLOUD):
                time.sleep(chance.uniform(*PAUSE_S))
                yield _migrate(driver, strategy, keys, to)


def _migrate(driver: ConnectedFleet, strategy: str, keys: list[str], to: str) -> tuple[str, float, float]:
    began = time.time()
    if strategy == NONE:
        time.sleep(NOTHING_S)
    else:
        driver.migrate(QUERY, keys=keys, to=to, strategy=strategy)
        while not driver.ask_coordinator({"do": "status"})["quiet"]:
            if time.time() > began + 60:
                msg = f"a migration by {strategy} was not over after a minute"
                raise TimeoutError(msg)
            time.sleep(0.005)
    ended = time.time()
    time.sleep(AFTER_S)
    return strategy, began, ended


def _told(seen: Latencies, turns: list[tuple[str, float, float]], oracle: str) -> list[dict[str, Any]]:
    pauses, since = list[Latencies](), turns[0][1] - CALM_S
    for _, began, ended in turns:
        pauses.append(seen.pushed_between(since, began - 0.2))
        since = ended + AFTER_S
    steady = Steady.of(Latencies.together(pauses))
    found = []
    for strategy in STRATEGIES:
        mine = [(began, ended) for name, began, ended in turns if name == strategy]
        around = [seen.between(began, ended + AFTER_S) for began, ended in mine]
        jitters = [j for one in around if (j := jitter_ms(one, steady.mean)) is not None]
        found.append(
            {
                "cell": "tm", "strategy": strategy, "migrations": len(mine), "oracle": oracle,
                "disruption_ms": round(sum(disruption_ms(one, steady.limit) for one in around) / len(mine), 1),
                "jitter_ms": round(sum(jitters) / len(jitters), 1) if jitters else None,
                "duration_ms": round(sum(ended - began for began, ended in mine) / len(mine) * 1000, 1),
                "steady_ms": round(steady.mean, 1), "sigma_ms": round(steady.sigma, 1), "rate": RATE, "seed": SEED,
            }
        )  # fmt: skip
    return found


# --- ISQD


def isqd(folder: Path, store: str, _: int) -> list[dict[str, Any]]:
    """A device hops; its rows are answered at the cloud."""
    found = []
    with far_fleet(folder, store) as far, far.client() as fleet, far.client() as driver:
        fleet.add_topology(topology(1, ROUND_TRIP_MS))
        fleet.stream("rows", "device string, n int, ts timestamp", device="device")
        fleet.device("d0", site=EDGE, streams=["rows"])
        for name, sql in HOPPING.items():
            fleet.submit(sql, name, sink=CLOUD)
        far.far(True)
        number, sent, took, heard = 0, dict[int, float](), list[float](), Heard(fleet)

        def push() -> None:
            nonlocal number
            number, now = number + 1, time.time()
            moment = dt.datetime.fromtimestamp(now, dt.UTC)
            sent[number] = now
            fleet.push("rows", [{"device": "d0", "n": number, "ts": moment}], device="d0", sequence=number)
            heard.look(every=20)
            time.sleep(EVERY)

        def hops() -> None:
            for k in range(HOPS):
                began = time.time()
                driver.move_device("d0", CLOUD if k % 2 == 0 else EDGE)
                took.append((time.time() - began) * 1000)
                time.sleep(max(HOP_EVERY - (time.time() - began), 0.0))

        _meanwhile(lambda: time.sleep(WARM_S), push)
        calm = time.time(), _meanwhile(lambda: time.sleep(HOPS * HOP_EVERY), push)
        change = time.time(), _meanwhile(hops, push)
        far.far(False)
        fleet.close_sources()
        fleet.process_available(300)
        rows = heard.all()
        far.launcher.down()
        for name in HOPPING:
            row = {"cell": f"isqd {name}", "oracle": verdict(far.url, name), "hops": HOPS}
            found.append({**row, "command_ms": _quantiles(took)})
    for span, name in ((calm, "calm"), (change, "change")):
        ms = [
            (wall - sent[row["n"]]) * 1000
            for wall, told in rows
            for row in told
            if abs(row["ts"].timestamp() - sent[row["n"]]) < 1e-5 and span[0] <= sent[row["n"]] < span[1]
        ]
        found[0][f"{name}_ms"] = _quantiles(ms)
    return found


class Heard:
    """Results as they are committed (at the cloud): old commits are put away soon."""

    def __init__(self, fleet: ConnectedFleet) -> None:
        self._fleet, self._read, self._looks = fleet, dict[tuple[str, str], int](), 0
        self._rows: list[tuple[float, list[dict[str, Any]]]] = []

    def look(self, every: int = 1) -> None:
        self._looks += 1
        if self._looks % every == 0:
            found = results_of(self._fleet.store, self._read, CLOUD)
            self._rows += [(wall, table.to_pylist()) for wall, table in found]

    def all(self) -> list[tuple[float, list[dict[str, Any]]]]:
        self.look()
        return sorted(self._rows, key=lambda one: one[0])


CELLS = {"isqd": isqd, "tm": tm}


def _quantiles(ms: list[float]) -> dict[str, float]:
    return {"mean": round(sum(ms) / len(ms), 1), "p50": round(median(ms), 1), "p95": round(quantiles(ms, n=20)[18], 1)}


def _meanwhile(drive: Callable[[], object], push: Callable[[], None]) -> float:
    """Push until the other is through; when it was."""
    failures = list[BaseException]()

    def driven() -> None:
        try:
            drive()
        except BaseException as fault:
            failures.append(fault)

    thread = threading.Thread(target=driven, daemon=True)
    thread.start()
    while thread.is_alive():
        push()
    if failures:
        raise failures[0]
    return time.time()


def run(folder: Path, cells: Sequence[str] = tuple(CELLS), rounds: int = 1) -> Iterator[dict[str, Any]]:
    """Each cell with both stores, one after the other, so that their rows can be compared."""
    for name in cells:
        for store in STORES:
            for one in CELLS[name](folder / store / name, store, rounds):
                say(str(one))
                yield {"store": store, **one}
