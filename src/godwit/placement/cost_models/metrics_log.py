"""The metrics log that cost models learn from: one row an operator and reporting interval.

| column            | meaning                                                             |
|-------------------|---------------------------------------------------------------------|
| workflow          | name of the workflow (or query)                                     |
| operator          | name of the operator                                                |
| site, site_kind   | where it ran, and the kind of device (CLOUD, LAPTOP, ...)           |
| platform          | platform it ran on                                                  |
| work              | million instructions a tuple                                        |
| mips              | speed of the site, million instructions a second                    |
| input_ktps        | tuples that came in, thousands a second                             |
| neighbours        | other operators on the site at that time                            |
| edge_mbps         | data on its input edges, Mb/s                                       |
| edge_hops         | links these data crossed (mean over the input edges)                |
| state_mb          | its state, megabits                                                 |
| moved_ms          | distance of its last move in ms of latency, 0 if it did not move    |
| throughput_ktps   | measured: what it could process, thousand tuples a second           |
| latency_ms        | measured: processing latency                                        |
| traffic_mbps      | measured: Mb/s summed over the links its input crossed              |
| migration_ms      | measured: time its last move took, 0 if it did not move             |

Parquet or JSON lines; `engine/train_cost_models.py` reads them with Spark, `simulate.py` makes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from godwit.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMES = ("workflow", "operator", "site", "site_kind", "platform")
FEATURES = ("work", "mips", "input_ktps", "neighbours", "edge_mbps", "edge_hops", "state_mb", "moved_ms")
TARGETS = ("throughput_ktps", "latency_ms", "traffic_mbps", "migration_ms")
COLUMNS = NAMES + FEATURES + TARGETS


def check_columns(columns: Iterable[str], where: str) -> None:
    """Refuse a log that lacks a column."""
    missing = [c for c in COLUMNS if c not in set(columns)]
    if missing:
        msg = f"the metrics log {where} lacks {', '.join(missing)}; the columns are listed in placement/metrics_log.py"
        raise DataError(msg)
