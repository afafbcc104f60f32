"""The paper's parameters (Table 2), its query (Figure 4), and Poisson arrivals of them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise

from godwit.replan.join_tree import parse
from godwit.replan.load import BoxLoad
from godwit.sim.join_box import BoxRow

#: Figure 4
OLD, NEW = parse("A JOIN B JOIN C JOIN D"), parse("(B JOIN C) JOIN D JOIN A")


@dataclass(frozen=True)
class Setting:
    """Inter-arrival times in milliseconds, reduction factors, one window between all pairs; of three to
    five streams."""

    window_ms: int
    gaps_ms: tuple[float, ...]
    sigma: tuple[float, ...]

    @property
    def aliases(self) -> str:
        return "ABCDE"[: len(self.gaps_ms)]

    @property
    def links(self) -> tuple[str, ...]:
        """Streams that are joined by a key."""
        return tuple(x + y for x, y in pairwise(self.aliases))

    @property
    def orders(self) -> tuple[str, str]:
        """The old and the new one (Figure 4), as a query has them."""
        first, *others = self.aliases.lower()
        return " JOIN ".join(
            (first, *others)
        ), f"({' JOIN '.join(others[:2])}) JOIN {' JOIN '.join((*others[2:], first))}"

    @property
    def load(self) -> BoxLoad:
        rates = {alias: 1000 / gap for alias, gap in zip(self.aliases, self.gaps_ms, strict=True)}
        return BoxLoad(rates, {(link[0], link[1]): s for link, s in zip(self.links, self.sigma, strict=True)})

    def arrivals(self, until_ms: int, seed: int) -> list[BoxRow]:
        """Rows of all streams by their times; two rows match on a link with the link's reduction factor."""
        rng = random.Random(seed)
        domains = {link: round(1 / s) for link, s in zip(self.links, self.sigma, strict=True)}
        rows = []
        for alias, gap in zip(self.aliases, self.gaps_ms, strict=True):
            time, number = rng.expovariate(1 / gap), 0
            while time < until_ms:
                keys = tuple((link, rng.randrange(domains[link])) for link in self.links if alias in link)
                rows.append(BoxRow(alias, round(time), keys, number))
                time, number = time + rng.expovariate(1 / gap), number + 1
        return sorted(rows, key=lambda row: (row.time, row.alias, row.number))


def set1(window_ms: int) -> Setting:
    """Section 6.2: Figures 9 and 10."""
    return Setting(window_ms, (100, 100, 100, 100), (0.1, 0.05, 0.02))


def set2(gap_b_ms: float) -> Setting:
    """Section 6.2: Figure 11."""
    return Setting(1000, (50, gap_b_ms, 50, 50), (0.1, 0.05, 0.02))


def set3(window_ms: int) -> Setting:
    """Section 6.2: Figure 12."""
    return Setting(window_ms, (100, 12, 12, 12), (0.1, 0.1, 0.1))


#: Section 6.3: Figures 13 and 14, 15 and 16
LOW = Setting(1000, (100, 100, 100, 100), (0.1, 0.02, 0.02))
HIGH = Setting(2000, (50, 50, 50, 50), (0.2, 0.05, 0.05))

#: a million rows of streams in the states, and times its rates
MILLION = (Setting(2_400_000, (100, 100, 100, 100), (0.000025, 0.000025, 0.000025)), 10.5)


def three(window_ms: int) -> Setting:
    """The first three streams of Set 1."""
    return Setting(window_ms, (100, 100, 100), (0.1, 0.05))
