"""What the demo draws, without running it: the ring at any width, and the plain line."""

from __future__ import annotations

from rich.console import Console

from godwit.demo.outcome import Now
from godwit.demo.queries import asked
from godwit.demo.view import line, screen, size
from godwit.demo.world import NETWORKS, Setting, calm_start, first_counts, ring_stage
from godwit.mobility.trace import replay

STAGE = ring_stage(Setting(trains=6, seconds=30, calm_s=5))


def _now() -> Now:
    attached = STAGE.trace.initial()
    return Now(
        name="godwit",
        seconds=12.0,
        of_seconds=30,
        attached=attached,
        last=((11.0, "S41-01", "t1-0001", next(iter(attached.values()))),),
        rows=1234,
        results=56,
        buffered=3,
        handovers=9,
        handled=8,
        added=120.4,
        calm=None,
        moves=4,
        state_bytes=2_500_000,
    )


def test_the_screen_fits_any_terminal() -> None:
    for width in (50, 80, 120, 200):
        console = Console(width=width, color_system=None)
        with console.capture() as shown:
            console.print(screen(_now(), STAGE.topology, width))
        text = shown.get()
        assert "1,234" in text
        assert "8 of 9" in text
        assert ("◄" in text and "►" in text) == (width >= 80)
        assert ("Ostkreuz" in text) == (width >= 80)


def test_the_line_says_the_same() -> None:
    assert "8/9 hand-overs" in line(_now())
    assert "added latency now 120 ms calm -" in line(_now())
    assert "4 moves with 2.5 MB of state" in line(_now())
    assert [size(n) for n in (0, 999, 1000, 5e9)] == ["0 B", "999 B", "1.0 kB", "5.0 GB"]


def test_the_stage() -> None:
    """Nobody moves while it is calm; the same seed makes the same stage; the twelve queries share four shapes."""
    assert all(e.t == 0 or e.t > 5000 for e in STAGE.trace.events)
    assert sum(1 for _ in replay(STAGE.trace.events, sites=frozenset(STAGE.topology.sites))) == len(STAGE.trace.events)
    again = ring_stage(Setting(trains=6, seconds=30, calm_s=5))
    assert (again.trace, again.calls) == (STAGE.trace, STAGE.calls)
    assert {str(d.id): d.site for d in STAGE.topology.devices.values()} == STAGE.trace.initial()
    queries = asked(STAGE)
    assert (len(queries), len({q.shape for q in queries}), len({q.name for q in queries})) == (10, 4, 10)
    assert len(asked(ring_stage(Setting()))) == 12
    assert first_counts(STAGE, 0.0).num_rows == 6
    assert calm_start(STAGE.trace, 5000) == STAGE.trace


def test_two_networks_take_turns() -> None:
    """Every tower is kept, has a way to the cloud within its own network, and most hand-overs change the network."""
    region = {str(site.id): site.region for site in STAGE.topology.sites.values()}
    assert set(region.values()) == {"cloud", *NETWORKS}
    for link in STAGE.topology.links.values():
        assert region[link.a] == region[link.b] or "cloud" in (link.a, link.b)
    hops = [event for event in STAGE.trace.events if event.kind == "handover"]
    assert len(hops) > 20
    assert sum(region[str(e.previous)] != region[str(e.site)] for e in hops) > 0.8 * len(hops)
