"""docs/results/nexmark.md: what was measured, beside what others have published."""

from __future__ import annotations

from typing import Any

from bench._harness import describe, table
from godwit.workloads.nexmark_suite import AS_PUBLISHED, QUERIES

#: events per second and core in thousands, as published: Flink by nexmark/nexmark GUIDE_V1.md (3 machines of 8 cores),
#: Flink 1.16 and RisingWave 1.0 by risingwavelabs/nexmark-risingwave-1.0 (8 virtual cores)
PUBLISHED: dict[str, tuple[int | None, int | None, int | None]] = {
    "q0": (155, 126, 170), "q1": (158, 120, 168), "q2": (175, 133, 172), "q3": (152, 111, 136), "q4": (34, 17, 25),
    "q5": (22, 22, 11), "q6": (None, None, 16), "q7": (12, 14, 37), "q8": (146, 102, 84), "q9": (14, 11, 21),
    "q10": (58, 118, 150), "q11": (40, 39, None), "q12": (76, 48, 92), "q13": (131, 87, 117), "q14": (161, 108, 154),
    "q15": (72, 44, 130), "q16": (19, 11, 12), "q17": (117, 51, 43), "q18": (54, 33, 26), "q19": (44, 21, 17),
    "q20": (19, 11, 18), "q21": (98, 66, 117), "q22": (130, 89, 150),
}  # fmt: skip
FIGURES = ("ours", "plain Spark", "ratio", "by the clock", "Flink (1)", "Flink 1.16 (2)", "RisingWave (2)")
HEAD = ("query", "text", *FIGURES, "results", "its", "wrong")
INTRODUCTION = """# Nexmark

`make bench-sql`: thousand events per second and core.

{machine}

{events:,} events at {rate:,.0f} per second of event time (seed 1), in Parquet files, five micro-batches; after a run to
warm up the better of two. Cores are processor time of this process and of Spark. Texts:
[how to](../howto/use_a_workload.md#nexmarks-suite).

*by the clock*: the same ratio of events per second, whatever cores it took; *its*: plain Spark's results;
*wrong*: rows that DuckDB, asked the published question over the same files (bench/sql/answers.py), finds missing or
too many; of q12, which goes by arrival, it counts the bids of each bidder.
"""
REMARKS = """Ours is at least plain Spark on {native} of the {both} queries that both run, and above Flink's published
figure (1) on {above} of {published}.

What is not comparable:

- (1) nexmark/nexmark, GUIDE_V1.md: 3 machines of 8 cores, generator inside the job, rows, blackhole sink, 100 M events.
  (2) 8 virtual cores, JSON in Kafka. Ours: 2 cores, columns in files that are taken over as they are, results written
  to disk. So it flatters us.
- Plain Spark reads the same files, as many per trigger as ours per micro-batch, and runs the same SQL in append mode
  with a watermark of 4 s; a row two days later closes its windows (and may be one result more, in *its*). Where a cell
  has words, that is what Spark said to the query.
- q4, q6, q9 and q15 to q17 answer when an auction, or a day, is over; Flink's answers change with each bid. q3, q4, q6,
  q9 and q20 have a time band.
- A million events are few: start and end of a run of seconds are a part that 100 million would not notice.
"""
HOPS = """
A hopping minute every second takes {ratio}x the time of a tumbling one ({rows:,} rows); the aim is 1.3x.
"""

FOR_EVER = """
## State that is kept for ever

`python -m bench.sql.for_ever`: milliseconds of a micro-batch of 200 rows of random keys, median / longest, while
every key has a row; the aim is that the median at the most keys is at most 2x that at the fewest. The longest has what
comes now and then: an index is made, segments become one.

"""


def for_ever(found: dict[str, Any]) -> str:
    """The section on state that is kept for ever, of what was measured."""
    if not found:
        return ""
    levels = [level["keys"] for level in max(found.values(), key=lambda one: len(one["levels"]))["levels"]]
    rows = []
    for query, one in found.items():
        told = {level["keys"]: f"{level['median_ms']:,} / {level['worst_ms']:,}" for level in one["levels"]}
        rows.append((query, *(told.get(keys, "-") for keys in levels), f"{one['ratio']}x", one["oracle"]))
    head = ("query", *(f"{keys:,} keys" for keys in levels), "ratio", "oracle")
    where = describe(next(iter(found.values()))["machine"])
    return FOR_EVER + where + "\n\n" + "\n".join(table(head, rows))


def report(found: dict[str, Any]) -> str:
    there = [query for query in QUERIES if query in found]
    rows, native, above = [], [], []
    for query in there:
        mine, theirs = _per_core(found[query]["ours"]), found[query]["native"]
        plain = None if isinstance(theirs, str) else _per_core(theirs)
        published = PUBLISHED[query]
        native += [] if plain is None else [mine >= plain]
        above += [] if published[0] is None else [mine > published[0]]
        text = "published" if query in AS_PUBLISHED else "rewritten"
        beside = (theirs, "", "")
        if plain is not None:
            beside = (
                f"{plain:,.0f}",
                f"{mine / plain:.2f}",
                f"{theirs['seconds'] / found[query]['ours']['seconds']:.2f}",
            )
        told = ("-" if value is None else value for value in published)
        ran = found[query]["ours"]
        answers = f"{ran['results']:,}", "-" if plain is None else f"{theirs['results']:,}"
        rows.append((query, text, f"{mine:,.0f}", *beside, *told, *answers, ran.get("wrong", "-")))
    if not there:
        return "# Nexmark\n\nNothing was measured yet: `make bench-sql`.\n"
    first = found[there[0]]
    made = INTRODUCTION.format(machine=describe(first["machine"]), events=first["ours"]["events"], rate=first["rate"])
    counts = {"native": sum(native), "both": len(native), "above": sum(above), "published": len(above)}
    made += "\n" + "\n".join(table(HEAD, rows)) + "\n" + REMARKS.format(**counts)
    return made + (HOPS.format(**found["hops"]) if "hops" in found else "")


def _per_core(ran: dict[str, Any]) -> float:
    return float(ran["events"] / ran["cpu_s"] / 1000)
