"""The targets: rates, times to the optimum, proofs, quality, memory, compile times, time limits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from bench.placement.common import THREADS, WORKFLOWS, figure, timed
from godwit.placement.published.instances import riot_latency_problem, riot_problem
from godwit.placement.search.base import Options, find, prepare, search
from godwit.placement.search.names import SEARCHES

#: the published Java artifact, measured on a machine like this one with 2 threads
JAVA_ESC, JAVA_GREEDY, JAVA_HEURISTIC = 150_000.0, {"pred": 391.0, "train": 220.0}, {7: 2000.0, 1023: 9500.0}
HEURISTIC_TARGET = {127: 50.0, 1023: 300.0, 2047: 1000.0}
PROOF_TARGET = {127: 200.0, 1023: 3000.0, 2047: 10_000.0}


def esc_rate(repeats: int = 3) -> Iterator[dict[str, Any]]:
    """All 7^9 plans of PRED-7."""
    problem = riot_latency_problem("pred", 7)
    search(problem, Options("esc", seconds=0.05))
    cpu = time.process_time()
    run = timed(problem, Options("esc", threads=THREADS), repeats)
    cpu = time.process_time() - cpu
    right = run.answer.examined == 7**9 and run.answer.cost == 2854
    rate = run.answer.examined / run.best_ms * 1000
    what = f"plans/s, all {run.answer.examined:,} plans, optimum {run.answer.cost:.0f} us"
    per_cpu = repeats * run.answer.examined / cpu / 1e6
    note = f"{what}; best of {repeats}; {per_cpu:.0f} million a second of CPU; baseline: Java artifact"
    yield figure(
        "esc_pred7",
        rate,
        30e6,
        baseline=JAVA_ESC,
        higher=True,
        oracle="equal" if right else "DIFFERS",
        note=note,
        digits=0,
    )


def greedy_times(repeats: int = 7) -> Iterator[dict[str, Any]]:
    """GREEDY on 1,023 sites."""
    for name in ("pred", "train"):
        run = timed(riot_latency_problem(name, 1023), Options("greedy"), repeats)
        what = f"ms, {run.answer.examined:,} plans, best of {repeats} (median {run.median_ms:.2f})"
        note = f"{what}; baseline: Java artifact"
        yield figure(f"greedy_{name}1023", run.best_ms, 5.0, baseline=JAVA_GREEDY[name], note=note)


def heuristic_and_proof(sizes: tuple[int, ...] = (127, 1023, 2047), repeats: int = 5) -> Iterator[dict[str, Any]]:
    """HEURISTIC to the optimum, the proven optimum, and the gaps; the slowest of the four workflows counts."""
    gaps: dict[str, list[float]] = {"heuristic": [], "auto": [], "greedy": []}
    for size in sizes:
        slow = {"heuristic": 0.0, "optimum": 0.0}
        right = True
        for name in WORKFLOWS:
            problem = riot_latency_problem(name, size)
            proof = timed(problem, Options("optimum", threads=THREADS), repeats)
            right &= proof.answer.gap == 0.0
            for key in gaps:
                run = timed(problem, Options(key, threads=THREADS), repeats if key == "heuristic" else 1)
                gaps[key].append(run.answer.cost / proof.answer.cost - 1)
                if key == "heuristic":
                    slow[key] = max(slow[key], run.best_ms)
            slow["optimum"] = max(slow["optimum"], proof.best_ms)
        note = f"ms, slowest of {', '.join(WORKFLOWS)}, best of {repeats}, {THREADS} threads"
        exact = "equal" if right and max(gaps["heuristic"][-4:]) == 0 else "DIFFERS"
        yield figure(
            f"heuristic_{size}",
            slow["heuristic"],
            HEURISTIC_TARGET[size],
            baseline=JAVA_HEURISTIC.get(size),
            oracle=exact,
            note=note + "; oracle: the proven optimum",
        )
        yield figure(
            f"proven_{size}", slow["optimum"], PROOF_TARGET[size], oracle="equal" if right else "DIFFERS", note=note
        )
    for key, target in (("heuristic", 0.0), ("auto", 0.0), ("greedy", None)):
        mean = sum(gaps[key]) / len(gaps[key])
        note = f"mean gap to the proven optimum, {len(gaps[key])} latency instances"
        yield figure(f"gap_{key}", mean, target, note=note, digits=4)


_PEAK = """
import resource
from godwit.placement.search.base import Options, search
from godwit.placement.published.instances import riot_latency_problem
search(riot_latency_problem("etl", 2047), Options("{name}", seconds=3.0, threads=2))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def memory() -> Iterator[dict[str, Any]]:
    """Peak of a process that does nothing else, ETL on 2,047 sites."""
    for name in ("heuristic", "esq"):
        out = subprocess.run(
            [sys.executable, "-c", _PEAK.format(name=name)], capture_output=True, text=True, check=True
        )
        yield figure(
            f"memory_{name}_2047", float(out.stdout), 1024.0, note="MB peak of the whole process, ETL", digits=0
        )


_START = """
import json, time
from godwit.placement.search.base import prepare
from godwit.placement.search.names import SEARCHES
imported = time.process_time()
for name in SEARCHES:
    prepare(name)
print(json.dumps({"import": imported, "kernels": time.process_time() - imported}))
"""


def compile_times() -> Iterator[dict[str, Any]]:
    """First and second start with an empty cache: every search once on a toy problem."""
    with tempfile.TemporaryDirectory() as cache:
        for start in ("first", "second"):
            out = subprocess.run(
                [sys.executable, "-c", _START],
                capture_output=True,
                text=True,
                check=True,
                env={**os.environ, "NUMBA_CACHE_DIR": cache},
            )
            times = json.loads(out.stdout)
            note = (
                "s of CPU to compile every kernel, once a machine"
                if start == "first"
                else "s of CPU to import all searches, load every kernel from the cache and run the toys"
            )
            yield figure(f"jit_{start}_start", times["kernels"], None, note=note, digits=2)


def time_limits(seconds: float = 0.3) -> Iterator[dict[str, Any]]:
    """How far a search overruns its limit at worst, on instances none of them can finish (ETL, 1,023 sites)."""
    worst, who = 0.0, ""
    for problem in (riot_latency_problem("etl", 1023), riot_problem("etl", 1023)):
        _ = problem.arrays
        for name in SEARCHES:
            prepare(name)
            over = []
            for _attempt in range(3):
                started = time.perf_counter()
                find(name)(problem, Options(name, seconds=seconds, threads=THREADS, samples=10**9))
                over.append((time.perf_counter() - started - seconds) * 1000)
            if min(over) > worst:
                worst, who = min(over), name
    note = (
        f"ms past a limit of {seconds} s, the worst of {len(SEARCHES)} searches ({who or 'none'}), each the best of 3"
    )
    yield figure("time_limit_overrun", worst, 50.0, note=note, digits=1)


def auto_against_singles(sizes: tuple[int, ...] = (31, 127, 1023), seconds: float = 1.0) -> Iterator[dict[str, Any]]:
    """On how many instances auto is at least as good as the best single search in the same time."""
    wins, total = 0, 0
    singles = [n for n in SEARCHES if n not in ("auto", "optimum")]
    for build in (riot_latency_problem, riot_problem):
        for name in WORKFLOWS:
            for size in sizes:
                problem = build(name, size)
                best = min(search(problem, Options(n, seconds=seconds, threads=THREADS)).cost for n in singles)
                mine = search(problem, Options("auto", seconds=seconds, threads=THREADS)).cost
                wins += mine <= best + 1e-12
                total += 1
    what = f"share of {total} instances (both modes) where auto is at least as good as the best single search"
    note = f"{what}, {seconds} s each"
    yield figure("auto_vs_best", wins / total, 0.9, higher=True, note=note)


def everything() -> Iterator[dict[str, Any]]:
    """All targets."""
    yield from esc_rate()
    yield from greedy_times()
    yield from heuristic_and_proof()
    yield from memory()
    yield from compile_times()
    yield from time_limits()
    yield from auto_against_singles()
