"""The core's measurements as headline figures and as docs/results/core.md, before and after the second edition."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench._harness import RESULTS, describe, table
from bench.core.lines import KINDS_BEFORE, SOURCE_BEFORE, TESTS_BEFORE

FOLDER = RESULTS / "core"
#: milliseconds of one device move at 10^4 sites; bytes and milliseconds of one commit record
MOVE_MS, RECORD_BYTES, WRITE_MS = 5.0, 10_000, 1.0
#: what 10^4 sites may cost more than 10^2, for "flat"
FLAT = 2.0


def before(name: str) -> dict[str, Any]:
    """A measurement of commit 75f46ee."""
    found: dict[str, Any] = _read(FOLDER / "before.json").get(name, {})
    return found


def move_figures(moves: dict[str, dict[str, float]]) -> Iterator[dict[str, Any]]:
    sizes = sorted(moves, key=int)
    least, most = moves[sizes[0]], moves[sizes[-1]]
    was = before("device_move").get(sizes[-1], {}).get("p50_ms")
    note = "; ".join(f"{n} sites: p50 {moves[n]['p50_ms']} ms, p95 {moves[n]['p95_ms']} ms" for n in sizes)
    yield _figure("device_move", most["p50_ms"], was, f"<= {MOVE_MS:g} ms", most["p50_ms"] <= MOVE_MS, note)
    growth = round(most["p50_ms"] / least["p50_ms"], 2)
    note = f"p50 at {sizes[-1]} sites over p50 at {sizes[0]} sites"
    yield _figure("device_move_growth", growth, None, f"<= {FLAT:g}", growth <= FLAT, note)


def record_figures(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    was = before("commit_record")
    what = f"{found['devices']} devices, one hops once per second, {found['hops']} hops"
    size, grown, wrote = found["median_bytes"], found["growth_bytes_per_day"], found["write_median_ms"]
    note = f"bytes per commit record, median; {what}"
    yield _figure("commit_bytes", size, was.get("median_bytes"), f"< {RECORD_BYTES}", size < RECORD_BYTES, note)
    note = f"bytes that one day of hops adds to the records, apart from longer numbers; {what}"
    limit = RECORD_BYTES
    yield _figure("commit_growth", grown, was.get("growth_bytes_per_day"), "bounded", grown < limit, note)
    note = f"ms per append, median (p95 {found['write_p95_ms']} ms); {what}"
    yield _figure("commit_write", wrote, was.get("write_median_ms"), f"< {WRITE_MS:g} ms", wrote < WRITE_MS, note)


def leftover_figures(found: dict[str, Any], prefix: str = "leftover") -> Iterator[dict[str, Any]]:
    was = before("leftovers").get("slopes_per_cycle", {})
    for name, limit in found["limits"].items():
        slope = found["slopes_per_cycle"][name]
        note = f"growth per submit/withdraw and join/leave cycle, over {found['cycles']} cycles"
        yield _figure(f"{prefix}_{name}", slope, was.get(name), f"<= {limit:g}", slope <= limit, note)


def lines_figures(found: dict[str, int]) -> Iterator[dict[str, Any]]:
    source, tests = found["source"], found["tests"]
    note = "src/godwit, more features than then: " + ", ".join(
        f"{kind} {found[kind]} (then {was})" for kind, was in KINDS_BEFORE.items()
    )
    yield _figure("source_lines", source, SOURCE_BEFORE, f"< {SOURCE_BEFORE}", source < SOURCE_BEFORE, note)
    yield _figure("test_lines", tests, TESTS_BEFORE, f"> {TESTS_BEFORE}", tests > TESTS_BEFORE, "tests")


def save(after: dict[str, Any], where: dict[str, Any]) -> None:
    """Keep the measurement and write the page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "after.json").write_text(json.dumps({**after, "machine": where}, indent=1) + "\n")
    (RESULTS / "core.md").write_text(page())


def page() -> str:
    """docs/results/core.md: the table of both editions, from the stored measurements."""
    old, new = _read(FOLDER / "before.json"), _read(FOLDER / "after.json")
    lines = ["# The core, before and after the second edition", ""]
    for title, found in (("before", old), ("after", new)):
        if found:
            lines.append(
                f"- {title}: {describe(found['machine'])}; `{found.get('command', 'python -m bench.core --save')}`"
            )
            if "note" in found:
                lines.append(f"  {found['note']}")
    lines += ["", *table(("what", "target", "before", "after"), _rows(old, new))]
    lines += [
        "`device_move` before: [before_device_move.py](core/before_device_move.py), seed 7. The raw figures are in"
    ]
    lines += ["[before.json](core/before.json) and after.json beside it.", ""]
    if ran := _read(FOLDER / "schedules.json"):
        lines += ["## Schedules of the simulator", "", ran["text"], ""]
    return "\n".join(lines)


def _rows(old: dict[str, Any], new: dict[str, Any]) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for n in ("100", "1000", "10000"):
        cells = [_move(found, n) for found in (old, new)]
        rows.append([f"device move, {n} sites, 10^3 queries: p50 / p95 ms", f"<= {MOVE_MS:g} and flat", *cells])
    for key, what, target in (
        ("median_bytes", "commit record, 2,000 devices: bytes, median", f"< {RECORD_BYTES}"),
        ("largest_bytes", "commit record: bytes, largest", "bounded"),
        ("growth_bytes_per_day", "commit record: bytes that a day of one hop per second adds", "bounded"),
        ("write_median_ms", "commit record: ms to write, median", f"< {WRITE_MS:g}"),
        ("write_p95_ms", "commit record: ms to write, p95", ""),
    ):
        rows.append([what, target, *(found.get("commit_record", {}).get(key, "") for found in (old, new))])
    for part, what in (
        ("leftovers", "leftovers"),
        ("control_leftovers", "leftovers of the control plane, 10^4 cycles"),
    ):
        for name, limit in (new or old).get(part, {}).get("limits", {}).items():
            slopes = [found.get(part, {}).get("slopes_per_cycle", {}).get(name, "") for found in (old, new)]
            rows.append([f"{what}: growth of {name} per cycle", f"<= {limit:g}", *slopes])
    lines = new.get("lines", {})
    rows.append(["source lines", f"< {SOURCE_BEFORE}", SOURCE_BEFORE, lines.get("source", "")])
    for kind, was in KINDS_BEFORE.items():
        rows.append([f"source lines: {kind}", "", was, lines.get(kind, "")])
    rows.append(["test lines", f"> {TESTS_BEFORE}", TESTS_BEFORE, lines.get("tests", "")])
    return rows


def _move(found: dict[str, Any], sites: str) -> str:
    at = found.get("device_move", {}).get(sites)
    return f"{at['p50_ms']} / {at['p95_ms']}" if at else ""


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _figure(name: str, ours: float, baseline: float | None, target: str, met: bool, note: str) -> dict[str, Any]:
    """`baseline` is the figure of commit 75f46ee; `ratio` says how many times better ours is."""
    ratio = round(baseline / ours, 3) if baseline and ours else None
    return {
        "experiment": f"core/{name}", "ours": ours, "baseline": baseline, "ratio": ratio, "target": target, "met": met,
        "oracle": "n/a", "note": note,
    }  # fmt: skip
