"""docs/results/peers.md: the three tables, how they came about, and what cannot be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench._harness import describe, table

_HEAD = """# Beside Apache Flink and plain Spark

`{command}`; seed {seed}; {machine}.

Apache Flink {flink} (PyPI's wheel, a standalone cluster on loopback, one task manager with two slots), PySpark {spark}
Structured Streaming and godwit, over the same rows and the same questions, in turns in one run. {complete}
"""
_FAIR = """## How each was set up

- Flink: parallelism 2, object reuse, the state backend (heap or RocksDB, incremental checkpoints) that was faster in
  the warm-up, exactly-once checkpoints every 2 s or, in the second round, 10 s (the better round counts), JVMs and
  planner warm; its time is the job manager's, without planning and submission. Mini-batching makes no difference to
  window functions and interval joins.
  What a job needs to begin and to end (a last checkpoint) is in its time, which weighs more the fewer rows there are.
  For latency: heap state, buffers flushed after 1 ms, watermarks every 10 ms, all queries in one job with one source.
- Spark: the state store that was the better one in [engine.md](engine.md), micro-batches of the same files as ours.
  For latency: a streaming query per question, triggered as often as it can, rows from a socket.
- godwit: exactly-once, per-device clocks and routing on, as everywhere.

## What is not comparable

- Flink reads two files per stream, one per reader, with the same rows: its readers take files in any order, and rows of
  earlier files would be late. The others read the same rows as files in order of time.
- Sockets (latency of Flink and Spark) are not exactly-once sources and sinks. Ours keeps every row before it is
  acknowledged and every result before it is delivered; Flink would add the interval of its checkpoints to do so.
- The latency of a row counts from the row, which waits 50 ms on average for its sending; of a window, from its end,
  which is when its last rows are sent. Flink and ours close it with them; Spark needs a row at or after the end, which
  comes 100 ms later.
- A move: Flink and Spark stop and start everything the job does, on the same machine; ours moves 40 devices and the
  open windows to another region and stops nothing. Flink and Spark have no notion of a device's region.
- All on one machine: nobody's network is measured.
"""


def write(found: dict[str, Any], path: Path) -> None:
    path.write_text(page(found))


def page(found: dict[str, Any]) -> str:
    complete = "" if found.get("flink") else f"Flink is missing: {found.get('flink_missing')}."
    if found.get("quick"):
        complete += " This was a quick run, to show that the bench works: few rows, short times."
    parts = [
        _HEAD.format(
            command=found["command"],
            seed=found["seed"],
            machine=describe(found["machine"]),
            flink=found.get("flink") or "2.3",
            spark=found["spark"],
            complete=complete.strip(),
        ).rstrip(),
        "",
        *_throughput(found.get("throughput", [])),
        *_latency(found.get("latency", [])),
        *_moves(found.get("moves", [])),
        _FAIR,
    ]
    return "\n".join(parts)


def _throughput(cases: list[dict[str, Any]]) -> list[str]:
    if not cases:
        return []
    rows = []
    for case in cases:
        rate = case["rows_per_s"]
        ratios = [f"{rate['godwit'] / rate[peer]:.2f}" if peer in rate else "-" for peer in ("flink", "spark")]
        rows.append(
            [
                case["workload"].replace("_", " "),
                f"{case['rows']:,}",
                *(f"{rate[name]:,}" if name in rate else "-" for name in ("godwit", "flink", "spark")),
                *ratios,
                case["flink_backend"] or "-",
                "equal" if case["equal"] else "**DIFFERENT**",
            ]
        )
    head = ("workload", "rows", "godwit", "Flink", "Spark", "over Flink", "over Spark", "Flink's state", "checksums")
    return ["## Rows per second", "", *table(head, rows)]


def _latency(cases: list[dict[str, Any]]) -> list[str]:
    if not cases:
        return []
    rows = [
        [
            c["set"],
            c["contender"],
            c["p50_ms"],
            c["p95_ms"],
            c["cores"],
            c["results"],
            "yes" if c["equal"] else "**no**",
        ]
        for c in cases
    ]
    head = ("queries", "contender", "p50 ms", "p95 ms", "cores", "results", "equal to the batch")
    return ["## Latency at 1,000 rows per second, 40 devices, sent every 100 ms", "", *table(head, rows)]


def _moves(cases: list[dict[str, Any]]) -> list[str]:
    if not cases:
        return []
    names = ("contender", "moves", "gap_ms", "worst_gap_ms", "calm_gap_ms", "lost", "repeated")
    rows = [["-" if case[name] is None else case[name] for name in names] for case in cases]
    head = ("contender", "moves", "silent ms, median", "worst", "without a move", "results lost", "results repeated")
    return ["## What a move costs: silence of a filter's results, 1,000 rows per second", "", *table(head, rows)]
