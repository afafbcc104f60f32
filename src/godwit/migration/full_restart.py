"""Full restart, as Flink does it: the whole query stops, state moves, the query goes on."""

from __future__ import annotations

from collections.abc import Iterator

from godwit.migration.phases import Await, Phase, Proceed, Suspend, Switch


def phases(variant: str = "") -> Iterator[Phase]:
    yield Suspend()
    yield Await("regions")
    yield Switch(wait=True)
    yield Await("state")
    yield Proceed()
    yield Await("regions")
