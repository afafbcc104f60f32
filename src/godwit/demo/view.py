"""What you see while the demo runs: the ring with its trains on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import time
from collections import defaultdict
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from godwit.demo.outcome import Now
from godwit.demo.world import NETWORKS, TRANSFER
from godwit.ids import SiteId
from godwit.mobility.ring import STATIONS
from godwit.model.topology import Topology

#: of the ring, in characters, where the terminal has the room
WIDTH, HEIGHT = 74, 25
FIGURES = 44
#: seconds between two plain lines
PLAIN_EVERY = 5.0
_COLOURS = {NETWORKS[0]: "cyan", NETWORKS[1]: "magenta", "cloud": "yellow"}


class View:
    """Shows each `Now`; use it as a context manager around the run."""

    def __init__(self, console: Console, topology: Topology) -> None:
        self._console, self._topology = console, topology
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._said = 0.0

    def __enter__(self) -> View:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def __call__(self, now: Now) -> None:
        if self._live:
            self._live.update(screen(now, self._topology, self._console.width), refresh=True)
        elif time.monotonic() - self._said >= PLAIN_EVERY:
            self._said = time.monotonic()
            self._console.print(line(now), highlight=False, soft_wrap=True)


def line(now: Now) -> str:
    """One look as one line."""
    return (
        f"{now.name:<14} {now.seconds:5.1f}/{now.of_seconds:.0f} s  {now.rows:,} rows in  {now.results:,} results  "
        f"{now.handled}/{now.handovers} hand-overs  added latency now {ms(now.added)} calm {ms(now.calm)}  "
        f"{now.moves} moves with {size(now.state_bytes)} of state"
    )


def screen(now: Now, topology: Topology, width: int) -> Table:
    """The ring on the left, figures and the last hand-overs on the right; no ring where there is no room for one."""
    both = Table.grid(padding=(0, 1))
    room = min(width - FIGURES - 6, WIDTH)
    if room < 30:
        both.add_row(_figures(now, topology))
    else:
        both.add_row(ring(now, topology, room), _figures(now, topology))
    return both


def ring(now: Now, topology: Topology, width: int = WIDTH) -> Panel:
    """Stations by their places; each train, by its line's direction, at the tower it is attached to."""
    cells: dict[tuple[int, int], tuple[str, str]] = {}
    for name, lat, lon, _ in STATIONS:
        x, y = _cell(lat, lon, width)
        cells[(y, x)] = ("o", "bold white")
        if name in TRANSFER:
            _write(cells, y, x + 2 if x < width // 2 else x - len(name) - 1, name, "dim")
    for device, site in sorted(now.attached.items()):
        place = topology.sites.get(SiteId(site))
        if place is None or place.lat is None or place.lon is None:
            continue
        x, y = _cell(place.lat, place.lon, width)
        mark = "◄" if device.startswith("S41") else "►"
        cells[(y, x)] = (mark, f"bold {_COLOURS.get(place.region, 'green')}")
    text = Text(no_wrap=True)
    for y in range(HEIGHT):
        for x in range(width):
            text.append(*cells.get((y, x), (" ", "")))
        text.append("\n")
    text.rstrip()
    return Panel(text, title="S41 ◄  S42 ►", width=width + 4)


def _write(cells: dict[tuple[int, int], tuple[str, str]], y: int, x: int, text: str, style: str) -> None:
    for i, letter in enumerate(text):
        cells.setdefault((y, x + i), (letter, style))


def _cell(lat: float, lon: float, width: int) -> tuple[int, int]:
    lats, lons = [s[1] for s in STATIONS], [s[2] for s in STATIONS]
    across = (lon - min(lons)) / (max(lons) - min(lons))
    down = (max(lats) - lat) / (max(lats) - min(lats))
    x, y = int(2 + across * (width - 5)), int(1 + down * (HEIGHT - 3))
    return min(max(x, 0), width - 1), min(max(y, 0), HEIGHT - 1)


def _figures(now: Now, topology: Topology) -> Panel:
    figures = Table.grid(padding=(0, 2))
    for name, value in (
        ("time", f"{now.seconds:.1f} of {now.of_seconds:.0f} s"),
        ("rows in", f"{now.rows:,}"),
        ("waiting on trains", f"{now.buffered:,}"),
        ("results", f"{now.results:,}"),
        ("added latency now", ms(now.added)),
        ("  while calm", ms(now.calm)),
        ("hand-overs handled", f"{now.handled} of {now.handovers}"),
        ("to another region", f"{now.moves:,}"),
        ("state moved", size(now.state_bytes)),
    ):
        figures.add_row(Text(name, style="dim"), value)
    regions: dict[str, int] = defaultdict(int)
    for site in now.attached.values():
        regions[str(topology.sites[SiteId(site)].region)] += 1
    away = len(topology.devices) - len(now.attached)
    where = Text.assemble(*((f"{r} {n}  ", _COLOURS.get(r, "green")) for r, n in sorted(regions.items())))
    where.append(f"on the way {away}", style="dim")
    hops = Table("s", "train", "from", "to", box=None, header_style="dim")
    for t, device, before, after in now.last[-12:]:
        hops.add_row(f"{t:.1f}", device, before, Text(after, style=_colour(after, topology)))
    return Panel(Group(figures, Text(), where, Text(), hops), title=now.name, width=FIGURES)


def _colour(site: str, topology: Topology) -> str:
    found = topology.sites.get(SiteId(site))
    return _COLOURS.get(found.region, "green") if found else ""


def ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} ms" if value < 10_000 else f"{value / 1000:,.1f} s"


def size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"
