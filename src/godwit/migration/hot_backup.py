"""Hot backup, as in Rhino: a replica is kept up to date at the destination, and only the difference moves in the end.

A replica (`fleet.replicate`) is a copy of everything, then, every `REFRESH_MS`, of what has changed since the copy
before. Keys that migrate by `hot-backup` to where they have a replica take it over: the last difference goes with
the switch, and rows wait for it alone. Without a replica the migration makes one first, and refreshes it once.
"""

from __future__ import annotations

from collections.abc import Iterator

from godwit.migration.phases import REPLICA, Await, Copy, Phase, Switch

REFRESH_MS = 500
#: the phase of a replica that follows its last: it is refreshed again and again
AGAIN = 2
#: refreshes after which everything is copied once more, in place of the many differences
WHOLE_AFTER = 60


def phases(variant: str = "") -> Iterator[Phase]:
    yield Copy(dual=False)
    yield Await("state")
    if variant == REPLICA:
        yield Await("interval")
    yield Copy(dual=False, refresh=True)
    yield Await("state")
    if variant != REPLICA:
        yield from taken_over()


def taken_over() -> Iterator[Phase]:
    """Of keys that have a replica where they go."""
    yield Switch(wait=True)
    yield Await("state")
