"""Hot backup, as in Rhino: a replica is kept up to date at the destination, and only the difference moves in the end.

The first copy takes everything, each refresh what has changed since the one before; the last difference goes with the
switch, and rows wait for it. Who keeps replicas all the time refreshes them every `REFRESH_MS`.
"""

from __future__ import annotations

from collections.abc import Iterator

from godwit.migration.phases import Await, Copy, Phase, Switch

REFRESH_MS = 500


def phases(variant: str = "") -> Iterator[Phase]:
    yield Copy(dual=False)
    yield Await("state")
    yield Copy(dual=False, refresh=True)
    yield Await("state")
    yield Switch(wait=True)
    yield Await("state")
