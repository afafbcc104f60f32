"""What is measured of a fleet (`fleets.py`): latency at a pace, rows per second, and a region that is cut off.

python -m bench.regions                          # all of it, a cut of 60 s; writes docs/results/regions.json
python -m bench.regions --chaos --seconds 3600   # random faults until the time is over; seeds are recorded
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any

from bench._harness import say
from bench.regions.fleets import REGIONS, Ran, Sender, latency
from godwit.ingest.pipeline import Pipeline
from godwit.process.launcher import Launcher

WARM, ROWS, EVERY = 40, 100, 0.05
#: pushes of so many rows, as fast as they are taken
BULK, BATCH = 20, 2_000
#: so many times before it counts, and then: one alone may meet a plan that is being compiled
WARM_BULKS, BULKS = 6, 5


def paced(sender: Sender, rows: int, devices: tuple[str, ...] = tuple(REGIONS)) -> tuple[float, float]:
    """One row of each device at a pace; between which moments."""
    began = time.time()
    for n in range(rows):
        for device in devices:
            sender.row(device)
        time.sleep(EVERY)
        if n % 20 == 0:
            sender.look()
    return began, time.time()


def few(sender: Sender) -> dict[str, Any]:
    """Latency at a pace."""
    paced(sender, WARM)
    sender.wait()
    span = paced(sender, ROWS)
    sender.wait()
    return dict(latency(sender, *span))


def many(sender: Sender) -> dict[str, Any]:
    """Rows per second."""
    found: dict[str, Any] = {}
    for _ in range(WARM_BULKS):  # (plans of these sizes are made, and compiled)
        _bulk(sender)
    found["rows_per_s"] = median(_bulk(sender) for _ in range(BULKS))
    with sender.pipeline() as pipeline:
        for _ in range(WARM_BULKS):  # (entries are larger)
            _bulk(sender, pipeline)
        found["rows_per_s_pipelined"] = median(_bulk(sender, pipeline) for _ in range(BULKS))
    return found


def _bulk(sender: Sender, pipeline: Pipeline | None = None) -> float:
    """Rows per second, from the first push until the last result; each push waits until it is durable, unless there is
    a pipeline."""
    began = time.monotonic()
    for _ in range(BULK):
        for device in REGIONS:
            sender.many(device, BATCH, pipeline)
    if pipeline is not None:
        pipeline.flush()
    sender.wait(120)
    return BULK * BATCH * len(REGIONS) / (time.monotonic() - began)


def cut_off(ran: Ran, sender: Sender, seconds: float) -> dict[str, float]:
    """`west` is reached by nobody and reaches nobody, not even its store; its device buffers, and sends it after."""
    assert ran.launcher is not None
    assert ran.west is not None
    before = paced(sender, 100, ("d0",))
    sender.wait()
    ran.launcher.proxies["west"].cut(True)
    ran.west.cut(True)
    began = time.time()
    while time.time() - began < seconds:
        paced(sender, 20, ("d0",))
    during = (began, time.time())
    ran.launcher.proxies["west"].cut(False)
    ran.west.cut(False)
    rows, back = int((during[1] - during[0]) / EVERY), time.monotonic()
    for n in range(rows):  # what its device would have sent at the pace of the other
        sender.row("d1", at=during[0] + n * EVERY)
    sender.wait(120)
    took = time.monotonic() - back
    quiet, away = latency(sender, *before, device="d0"), latency(sender, *during, device="d0")
    return {
        "cut_s": during[1] - during[0],
        "others_calm_p95_ms": quiet["p95_ms"],
        "others_cut_p95_ms": away["p95_ms"],
        "others_calm_p50_ms": quiet["p50_ms"],
        "others_cut_p50_ms": away["p50_ms"],
        "caught_up_s": took,
        "catch_up_speed": (during[1] - during[0]) / took,
    }


def beside(folder: Path) -> dict[str, Any]:
    """Embedded, then processes; the oracle judges those."""
    from bench.regions.fleets import embedded, processes

    with embedded(folder / "embedded") as ran:
        sender = Sender(ran)
        threads = few(sender) | many(sender)
    say(f"embedded: {threads}")
    with processes(folder / "processes") as ran:
        assert ran.launcher is not None
        sender = Sender(ran)
        apart, memory = few(sender), _memory(ran.launcher)
        apart |= many(sender)
        say(f"processes: {apart}")
        told = {"start_s": ran.start_s, "memory": memory, "memory_after": _memory(ran.launcher)}
        oracle = judged(ran)
    return {"embedded": threads, "processes": apart, **told, "oracle": oracle}


def _memory(launcher: Launcher) -> dict[str, int]:
    return {one.name: round(one.megabytes) for one in launcher.running()}


def while_cut(folder: Path, cut_s: float) -> dict[str, Any]:
    """Processes of which one is cut off; the oracle judges them."""
    from bench.regions.fleets import processes

    with processes(folder / "cut", proxied=True) as ran:
        sender = Sender(ran)
        paced(sender, WARM)
        sender.wait()
        cut = cut_off(ran, sender, cut_s)
        say(f"cut off: {cut}")
        return {"cut": cut, "oracle": judged(ran)}


def both(folder: Path, cut_s: float) -> dict[str, Any]:
    told, cut = beside(folder), while_cut(folder, cut_s)
    return {**told, **cut, "oracle": "; ".join(sorted({told["oracle"], cut["oracle"]}))}


def judged(ran: Ran) -> str:
    """What the oracle says when all is processed; the processes are stopped."""
    assert ran.launcher is not None
    ran.process_available()
    ran.launcher.down()
    return verdict(str(ran.launcher.spec.store))


def verdict(url: str, query: str = "q") -> str:
    from godwit.api.fleet import Fleet
    from godwit.engine.session import spark_session
    from godwit.maintenance.housekeeping import Retention

    opened = Fleet(url, spark_session(memory="2g"), retention=Retention(keep=True))
    try:
        found = opened.query(query).verdict()
    finally:
        opened.stop()
    return "equal" if found.equal else str(found)
