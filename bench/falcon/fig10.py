"""Figure 10: round trips of 10 to 320 ms between edge and cloud (TM)."""

from __future__ import annotations

from bench.falcon.sending import Cell

TITLE = "Figure 10: latency of the link"
VARIES = "round trip, ms"
STRATEGIES = ("falcon", "hot-backup", "on-demand", "partial-pause", "full-restart")


def cells(short: bool) -> list[Cell]:
    trips = (10, 80, 320) if short else (10, 20, 40, 80, 160, 320)
    return [Cell("fig10", "tm", ms, STRATEGIES, round_trip_ms=ms) for ms in trips]
