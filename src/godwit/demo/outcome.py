"""What one contender did in the demo's time: the figures that the last table and the plots show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from godwit.api.oracle import Verdict
from godwit.demo.answers import Pair, TimedAnswer, pair
from godwit.demo.moves import StateMove
from godwit.mobility.driver import Driver


@dataclass(frozen=True)
class DemoOutcome:
    """Wall seconds where it says when, milliseconds where it says how long."""

    name: str
    rows: int
    results: int
    answers: tuple[TimedAnswer, ...]
    #: when the trace began, and when hand-overs did
    started: float
    calm_until: float
    #: when a device that had been elsewhere arrived at a site
    handovers: tuple[float, ...]
    #: of those, how many were in force a tick after the last
    handled: int
    verdicts: tuple[Verdict, ...]
    #: reconfigurations that took instances to another region; a contender without regions has none
    moves: tuple[StateMove, ...] = ()
    #: starts of Spark streaming queries after the first of each
    restarts: int = 0
    note: str = ""

    @property
    def equal(self) -> int:
        return sum(v.equal for v in self.verdicts)

    def quantiles(self, what: str, *, calm: bool | None = None, query: str | None = None) -> Pair:
        """p50 and p95 of `latency`, `waits` or `added`: emitted while it was calm, under hand-overs, or both."""
        return pair(
            [
                getattr(answer, what)
                for answer in self.answers
                if calm in (None, answer.emitted < self.calm_until) and query in (None, answer.query)
            ]
        )


@dataclass(frozen=True)
class Now:
    """One look at a contender while it runs, for the view."""

    name: str
    seconds: float
    of_seconds: float
    #: device -> site
    attached: Mapping[str, str]
    #: (seconds, device, from, to)
    last: tuple[tuple[float, str, str, str], ...]
    rows: int
    results: int
    buffered: int
    handovers: int
    handled: int
    #: beyond what the queries must wait for (ms): of the last results, and while it was calm
    added: float | None
    calm: float | None
    #: reconfigurations that moved instances to another region, and their state
    moves: int = 0
    state_bytes: int = 0


#: number of results that make "now"
RECENT = 100


def look(
    name: str,
    driver: Driver,
    answers: list[TimedAnswer],
    handled: int,
    calm_until: float,
    moves: Sequence[StateMove] = (),
) -> Now:
    """What is to be seen of a contender now."""
    calm = [answer.added for answer in answers if answer.emitted < calm_until]
    return Now(
        name=name,
        seconds=driver.t / 1000,
        of_seconds=driver.trace.duration_ms / 1000,
        attached=dict(driver.attached),
        last=tuple((t / 1000, *rest) for t, *rest in driver.log),  # type: ignore[misc]
        rows=driver.rows,
        results=len(answers),
        buffered=driver.buffered,
        handovers=driver.handovers,
        handled=handled,
        added=pair([answer.added for answer in answers[-RECENT:]])[0],
        calm=pair(calm)[0],
        moves=len(moves),
        state_bytes=sum(move.bytes for move in moves),
    )


Show = Callable[[Now], None]
