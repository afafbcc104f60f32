"""When keys that are asked to migrate had better begin. Pure.

While state of a window is on its way, the watermark of its query stands still in both regions: epoch, marker and state
take three ways over the links. A window that would close meanwhile is late; so a migration that switches at once begins
between two closes, where there is time for it. And under many requests, a query's migrations begin together now and
then: an epoch for each would cost its regions more than the hand-overs do.

Both only put off the beginning, for about a second; what is right does not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable

from godwit.model.plan import Aggregate, Operator, Window

#: ways over the links that a hand-over takes one after the other: epoch, marker, state
WAYS = 3
#: and what the micro-batches on the way take (seconds)
SLACK_S = 0.25
#: migrations of one query begin at least so long after each other, or together (seconds)
PACE_S = 1.0
#: a migration is put off for so long at most (seconds)
LONGEST_S = 1.2


def needed_us(way_ms: float) -> int:
    """How long a hand-over takes, about, where a way takes so long."""
    return round(WAYS * way_ms * 1e3 + SLACK_S * 1e6)


def closes_regularly(operator: Operator, needed: int) -> bool:
    """Whether the operator's windows close at times that are known, with enough time in between."""
    if not isinstance(operator, Aggregate) or operator.window.kind not in ("tumbling", "hopping", "sliced"):
        return False
    return operator.window.slide_us * 2 >= needed * 3


def left_us(window: Window, clock: int) -> int:
    """From a watermark to the end of the next window."""
    return window.slide_us - (clock - window.offset_us - window.size_us) % window.slide_us


def lull(window: Window, clocks: Iterable[int], needed: int) -> bool:
    """Whether a hand-over that begins now is over before a window closes: everybody has answered the last one, and
    nobody is near the next. `clocks`: watermarks of the window's regions, and of the operators above; one that lies
    further behind waits for something else."""
    known = list(clocks)
    first = max(known, default=0)
    ahead = left_us(window, first)
    closed = first + ahead - window.slide_us
    return not known or (ahead >= needed and not any(first - window.slide_us < clock < closed for clock in known))
