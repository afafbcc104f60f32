"""State availability time: how long until a moved join has its state, by size and by distance (ISQD, Figures 11-12).

A join's state of two streams lies at site `old`; the join moves to a site behind so many intermediate nodes, in another
region, once with each strategy. Every way of moving runs in the same fleet, one after the other, on the same state.
With each move, probe rows come in: one pair that needs no state, and one row each that must find a partner in it.

    available     all of the state is at the new instance, part of its commit
    first result  the new instance has put out the pair of the probes: what a user waits for

    python -m bench.isqd.state_movement [--sizes 16 32] [--hops 1 2] [--limits 250 0] [--budget 180]

A link's limit is in Mbit/s, 0: none. Rows are incompressible, so bytes on the link are bytes of state. A way of moving
that would take longer than the paper's cut-off (100 s), going by a smaller state, is not tried: the two recreations
that trigger windows do not come far. By distance, they are left out.
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench._harness import RESULTS, headline, machine, save, say
from godwit.api.fleet import Fleet
from godwit.engine.session import spark_session
from godwit.migration.base import STRATEGIES
from godwit.model.topology import Link, Site, Topology
from godwit.region.link_emulator import Links

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SQL = """SELECT a.id AS one, b.id AS other, a.ts FROM north a JOIN south b
         ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL 1 HOUR AND b.ts + INTERVAL 1 HOUR
         WHERE length(a.payload) + length(b.payload) > 0"""
SCHEMA = "id bigint, k bigint, payload string, ts timestamp"
#: bytes of payload a row, rows of a buffer (one entry of a source log: 1 MB), seconds after which the paper gives up
PAYLOAD, BUFFER_ROWS, CUT_OFF = 200, 5_000, 100.0
SEED = 11
#: the oracle is asked up to this size (MB): it reads everything into one process
ORACLE_UP_TO = 128


def run(
    sizes: Sequence[int],
    hops: Sequence[int],
    limits: Sequence[float | None],
    strategies: Sequence[str] = tuple(STRATEGIES),
    budget_s: float = float("inf"),
) -> list[dict[str, Any]]:
    """Every size (MB) over every number of intermediate nodes, with each limit (Mbit/s; None: no limit)."""
    measured: list[dict[str, Any]] = []
    until = time.perf_counter() + budget_s
    for size in sorted(sizes):
        with tempfile.TemporaryDirectory() as folder:
            world = World(Path(folder), size, max(hops))
            say(f"{size} MB of state built in {world.built:.0f} s ({world.bytes / 1e6:.0f} MB on disk)")
            found = []
            for far, limit, strategy in itertools.product(hops, limits, strategies):
                why = "out of time" if time.perf_counter() > until else _hopeless(measured, strategy, far, limit, size)
                found.append(world.given_up(strategy, far, limit, why) if why else world.measure(strategy, far, limit))
            verdict = world.verdict()
            measured += [{**one, "oracle": verdict} for one in found]
            say(f"{size} MB: {verdict}")
    return measured


def _hopeless(measured: Sequence[dict[str, Any]], strategy: str, far: int, limit: float | None, size: int) -> str:
    """Why a way of moving would take longer than the cut-off, going by the largest size it has managed; or nothing."""
    before = [m for m in measured if (m["strategy"], m["intermediates"], m["mbit"]) == (strategy, far, limit)]
    known = [m for m in before if m["available_s"] is not None]
    if not known:
        return "a smaller state took too long" if before else ""
    taken = known[-1]["available_s"] * size / known[-1]["size_mb"]
    return f"{taken:.0f} s to be expected, the cut-off is {CUT_OFF:.0f} s" if taken > CUT_OFF else ""


@dataclass
class World:
    """A fleet with one join whose state has a given size, and sites behind 1..n nodes to move it to."""

    folder: Path
    size: int
    far: int
    probes: int = 0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(SEED))

    def __post_init__(self) -> None:
        self.fleet = Fleet(self.folder / "fleet", spark_session())
        self.fleet.topology.add(_chain(self.far))
        for stream in ("north", "south"):
            self.fleet.stream(stream, SCHEMA, site="old")
        self.fleet.submit(SQL, "q", sink="old")
        began = time.perf_counter()
        self._fill()
        self.fleet.process_available(timeout=1200)
        self.built = time.perf_counter() - began
        self.bytes = self._state_bytes()
        self._move("new-1")  # plans are warm before anything is measured
        self._move("old")

    def measure(self, strategy: str, far: int, limit: float | None) -> dict[str, Any]:
        """Move the join away with a strategy, and (unmeasured) back."""
        transfer = self.fleet.transfer
        transfer.strategy, transfer.links = strategy, Links(limit)
        times = self._move(f"new-{far}")
        transfer.strategy, transfer.links = "delta", None
        self._move("old")
        found = {**self._about(strategy, far, limit), **times}
        say(f"  {strategy}, {far} nodes between, {limit or 'no'} limit: {times}")
        return found

    def given_up(self, strategy: str, far: int, limit: float | None, why: str) -> dict[str, Any]:
        missing = {"available_s": None, "first_result_s": None, "note": f"not run: {why}"}
        return {**self._about(strategy, far, limit), **missing}

    def verdict(self) -> str:
        if self.size > ORACLE_UP_TO:
            return f"not asked above {ORACLE_UP_TO} MB"
        self.fleet.close_sources()
        self.fleet.process_available()
        found = self.fleet.query("q").verdict()
        return "equal" if found.equal else str(found)

    def _about(self, strategy: str, far: int, limit: float | None) -> dict[str, Any]:
        about = {"strategy": strategy, "size_mb": self.size, "state_bytes": self.bytes}
        return {**about, "intermediates": far, "links": far + 1, "mbit": limit}

    def _move(self, site: str) -> dict[str, Any]:
        plan = self.fleet.deployment.queries["q"].shape.plan  # type: ignore[index]
        join = [i for i in range(len(plan.operators)) if not plan.is_local(i)]
        target = self.fleet.deployment.sites[site]  # type: ignore[index]
        before = {key: runner.commits.last for key, runner in self.fleet.pool.runners.items()}
        began = time.perf_counter()
        self.fleet.move({f"q/{i}": site for i in join})
        self._probe()
        first: float | None = None
        while True:
            busy = self.fleet.pool.step_all()
            now = time.perf_counter() - began
            (runner,) = [r for (region, _), r in self.fleet.pool.runners.items() if region == target]
            if first is None and any(
                record["results"] for _, record in runner.commits.after(before.get((target, runner.shape.key), 0))
            ):
                first = now
            if not busy and not self.fleet.pool.underway and not runner.memory.moves.incoming:
                break
        arrived = max(
            record["metrics"]["wall"]
            for _, record in runner.commits.after(before.get((target, runner.shape.key), 0))
            if record["arrived"]
        )
        available = arrived - (time.time() - (time.perf_counter() - began))
        return {"available_s": round(available, 3), "first_result_s": None if first is None else round(first, 3)}

    def _probe(self) -> None:
        """A pair that is new on both sides, and a new row that must meet an old one of the other side."""
        self.probes += 1
        fresh = 10**12 + self.probes
        at = 600 + self.probes
        self.fleet.push("north", self._rows(np.array([fresh, 1]), fresh, at))
        self.fleet.push("south", self._rows(np.array([fresh, 0]), fresh + 10**6, at))

    def _fill(self) -> None:
        """Keys of the two sides are odd and even: what is old finds no partner among what is old."""
        rows = self.size * 1_000_000 // PAYLOAD // 2
        for start in range(0, rows, BUFFER_ROWS):
            numbers = np.arange(start, min(start + BUFFER_ROWS, rows))
            at = 600 * start / rows
            self.fleet.push("north", self._rows(numbers * 2, start, at))
            self.fleet.push("south", self._rows(numbers * 2 + 1, start, at))

    def _rows(self, keys: np.ndarray[Any, Any], first: int, second: float) -> pa.Table:
        n = len(keys)
        raw = self.rng.integers(33, 127, (n, PAYLOAD), dtype=np.uint8)
        payload = pa.array([row.tobytes().decode("ascii") for row in raw])
        at = pa.array([START + dt.timedelta(seconds=second)] * n, pa.timestamp("us", "UTC"))
        return pa.table({"id": np.arange(first, first + n), "k": keys, "payload": payload, "ts": at})

    def _state_bytes(self) -> int:
        return sum(s.bytes for r in self.fleet.pool.runners.values() for s in r.memory.states.values())


def _chain(far: int) -> Topology:
    """old - node-1 - node-2 - ... ; behind each node-k a site new-k, all of these in another region."""
    nodes = [Site(f"node-{k}", "between") for k in range(1, far + 1)]  # type: ignore[arg-type]
    ends = [Site(f"new-{k}", "new") for k in range(1, far + 1)]  # type: ignore[arg-type]
    chain = ["old", *(f"node-{k}" for k in range(1, far + 1))]
    links = [Link(a, b, ms=1) for a, b in itertools.pairwise(chain)]  # type: ignore[arg-type]
    links += [Link(f"node-{k}", f"new-{k}", ms=1) for k in range(1, far + 1)]  # type: ignore[arg-type]
    return Topology.of([Site("old", "old"), *nodes, *ends], links)  # type: ignore[arg-type]


def figures(measured: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Headlines: delta against every other way, at the largest size and distance both managed."""
    for limit in sorted({m["mbit"] for m in measured}, key=str):
        mine = [m for m in measured if m["mbit"] == limit and m["available_s"] is not None]
        for baseline in ("adhoc-query", "transfer", "recreate-best", "recreate-average", "recreate-worst"):
            pairs = [
                (a, b)
                for a in mine
                for b in mine
                if a["strategy"] == "delta" and b["strategy"] == baseline and _place(a) == _place(b)
            ]
            if pairs:
                a, b = max(pairs, key=lambda p: (p[0]["size_mb"], p[0]["intermediates"]))
                yield headline(
                    f"isqd/state-{baseline}-{limit or 'unlimited'}",
                    round(1 / a["available_s"], 4),
                    round(1 / b["available_s"], 4),
                    1.0,
                    oracle=a["oracle"],
                    note=f"{a['size_mb']} MB, {a['intermediates']} nodes between; available: {a['available_s']} s, "
                    f"not {b['available_s']} s; first result: {a['first_result_s']} s, not {b['first_result_s']} s",
                )


def _place(one: dict[str, Any]) -> tuple[Any, ...]:
    return one["size_mb"], one["intermediates"], one["mbit"]


def plot(measured: Sequence[dict[str, Any]], by: str, path: Path) -> None:
    """`by`: "size_mb" (Figure 11) or "intermediates" (Figure 12)."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    limits = sorted({m["mbit"] for m in measured}, key=str)
    figure, axes = plt.subplots(1, len(limits), figsize=(5.5 * len(limits), 4), squeeze=False, sharey=True)
    for axis, limit in zip(axes[0], limits, strict=True):
        for strategy in STRATEGIES:
            mine = [m for m in measured if m["strategy"] == strategy and m["mbit"] == limit and m["available_s"]]
            axis.plot([m[by] for m in mine], [m["available_s"] for m in mine], marker="o", label=strategy)
        first = [m for m in measured if m["strategy"] == "delta" and m["mbit"] == limit and m["first_result_s"]]
        axis.plot([m[by] for m in first], [m["first_result_s"] for m in first], "k:", label="delta, first result")
        axis.set(xscale="log", yscale="log", title=f"{limit:g} Mbit/s" if limit else "no limit")
        axis.set(xlabel="MB of state" if by == "size_mb" else "nodes between", ylabel="seconds until available")
    axes[0][0].legend(fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 32, 64, 128, 256, 512, 1024], help="MB of state")
    parser.add_argument("--hops", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="nodes between, for 32 MB")
    parser.add_argument("--limits", type=float, nargs="+", default=[250, 0], help="Mbit/s; 0: none")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds for each of the two figures")
    args = parser.parse_args()
    limits = [limit or None for limit in args.limits]
    here = machine()
    quick = [name for name in STRATEGIES if name not in ("recreate-average", "recreate-worst")]
    folder, found = RESULTS / "isqd", []
    for name, by, sizes, hops, strategies in (
        ("state_by_size", "size_mb", args.sizes, [2], list(STRATEGIES)),
        ("state_by_hops", "intermediates", [32], args.hops, quick),
    ):
        measured = run(sizes, hops, limits, strategies, args.budget)
        found += measured
        about = {"machine": here, "seed": SEED, "options": " ".join(sys.argv[1:])}
        save(folder / f"{name}.json", {**about, "measured": measured})
        plot(measured, by, folder / f"{name}.png")
    save(folder / "state_figures.json", list(figures(found)))


if __name__ == "__main__":
    main()
