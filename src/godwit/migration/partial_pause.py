"""Partial pause, as in Trisk: rows of the keys that move stop, and go on when their state is at the destination.

The control plane has every region stop the keys and waits until all have said so; then it lets the state go. That is
the global coordination which markers save.
"""

from __future__ import annotations

from collections.abc import Iterator

from godwit.migration.phases import Await, Phase, Release, Switch


def phases(variant: str = "") -> Iterator[Phase]:
    yield Switch(wait=True, held=True)
    yield Await("regions")
    yield Release()
    yield Await("state")
