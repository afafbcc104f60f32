"""Which cells there are: figure, published folder, how far changes lie apart, strategy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from bench.isqd.workload import RATE, Kind

OURS, SERIAL, CONCURRENT, NATIVE = "incremental", "holistic-serial", "holistic-concurrent", "native-restart"
STRATEGIES = (OURS, CONCURRENT, SERIAL, NATIVE)
#: seconds between changes: the paper's, and then some
INTERVALS = (4.0, 2.0, 1.0, 0.5, 0.25, 0.1, 0.05)
#: sixteen sources of ten joins are 16,000 rows a second at the published rate: more than two cores hold in the calm
MANY, FEWER_ROWS = 16, 25
#: the figure whose cells are played at full length
FULL_LENGTH = "7-8-full"
#: where the folder has no ring, the sites of the full graph are joined in one
RING = "ring"


@dataclass(frozen=True)
class Cell:
    """One run."""

    figure: str
    kind: Kind
    folder: str
    #: what the figure's axis says
    x: str
    strategy: str
    every: float = 1.0
    ring: bool = False
    #: rows a second and source, as published; fewer where this machine cannot hold them even in the calm
    rate: int = RATE

    @property
    def name(self) -> str:
        return f"{self.figure}-{self.kind}-{self.x}-{self.strategy}".replace(" ", "_")


def all_cells() -> Iterator[Cell]:
    yield from figures_7_and_8()
    yield from full_length()
    yield from figure_9()
    yield from figure_10()
    yield from topologies()


def figures_7_and_8(sources: tuple[int, ...] = (4, 16, 2, 8)) -> Iterator[Cell]:
    """Sources a query; a change every second."""
    for n in sources:
        for kind, moving in (("stateless", 1), ("stateful", 2)):
            folder = f"{kind.capitalize()}/Varying-Num-of-Total-Sources/{n}_src_{moving}_change_per_query_120sec"
            for strategy in STRATEGIES:
                yield Cell("7-8", kind, folder, f"{n} sources", strategy, rate=_rate(kind, n))  # type: ignore[arg-type]


def full_length() -> Iterator[Cell]:
    """Four sources a query as published: 20 s calm, 120 s of changes, 10 s calm."""
    return (replace(cell, figure=FULL_LENGTH) for cell in figures_7_and_8((4,)))


def figure_9() -> Iterator[Cell]:
    """Mobile sources a query; a change every two seconds."""
    for kind, size, counts in (("stateless", 8, (1, 2, 4, 8)), ("stateful", 16, (2, 4, 8, 16))):
        for n in counts:
            folder = f"{kind.capitalize()}/Impact-of-Mobile-Sources-and-Rates/{size}_src_{n}_change_per_query_120sec"
            for strategy in (OURS, CONCURRENT) if n == counts[-1] else (OURS,):
                yield Cell("9", kind, folder, f"{n} mobile", strategy, 2.0, rate=_rate(kind, size))  # type: ignore[arg-type]


def figure_10() -> Iterator[Cell]:
    """Seconds between changes."""
    for kind, size, n in (("stateless", 8, 1), ("stateful", 16, 2)):
        folder = f"{kind.capitalize()}/Impact-of-Mobile-Sources-and-Rates/{size}_src_{n}_change_per_query_120sec"
        for every in INTERVALS:
            for strategy in (OURS, CONCURRENT) if every == 4.0 else (OURS,):
                x = f"every {every:g} s"
                yield Cell("10", kind, folder, x, strategy, every, rate=_rate(kind, size))  # type: ignore[arg-type]


def topologies() -> Iterator[Cell]:
    """The paper's 7.2.3: tree, full graph, ring; one to sixteen sites between a source and the root."""
    place = "Stateful/Impact-of-Different-Topologies/4src_2change_{}_120sec"
    for name in ("tree", "full"):
        yield Cell("7.2.3", "stateful", place.format(name), name, OURS, every=2.0)
    yield Cell("7.2.3", "stateful", place.format("tree"), RING, OURS, every=2.0, ring=True)
    for n in (1, 2, 4, 8, 16):
        folder = f"Stateful/Varying-Number-of-Intermediate-Nodes/4src_2change_{n}intermediate_120sec"
        yield Cell("7.2.3", "stateful", folder, f"{n} intermediate", OURS, every=2.0)


def _rate(kind: str, sources: int) -> int:
    return FEWER_ROWS if kind == "stateful" and sources >= MANY else RATE
