"""Partial pause, as in Trisk: rows of the keys that move wait at the destination until their state is there."""

from __future__ import annotations

from collections.abc import Iterator

from godwit.migration.phases import Await, Phase, Switch


def phases(variant: str = "") -> Iterator[Phase]:
    yield Switch(wait=True)
    yield Await("state")
