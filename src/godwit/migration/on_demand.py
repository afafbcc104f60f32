"""On-demand transfer, as in Meces: each key's state is fetched when a row of it comes, the others' in the background.

Listed keys are fetched one by one; of a range, or of the rest, each hash bucket is.
"""

from __future__ import annotations

from collections.abc import Iterator

from godwit.migration.phases import Await, Phase, Switch


def phases(variant: str = "") -> Iterator[Phase]:
    yield Switch(wait=True, paced=True)
    yield Await("state")
