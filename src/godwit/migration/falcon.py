"""Falcon's live key migration: the source goes on answering while the state and the rows since go to the destination.

    1, 2   dual route, opened by an epoch whose markers are R_S and R_D
    3      checkpoint at the source as of R_S; restored at the destination beside processing, into a shadow that takes
           the rows since R_D as well, without output
    4, 5   another epoch ends the dual route, once the destination has it all; its markers are T_S and T_D
    6      the destination answers, in order: after the source's last answer has been read ("out-of-order": at once)

After Mishra et al., Falcon: Live Reconfiguration for Stateful Stream Processing on the Edge, Section III-E.
"""

from __future__ import annotations

from collections.abc import Iterator

from godwit.migration.phases import Await, Copy, Phase, Switch


def phases(variant: str) -> Iterator[Phase]:
    yield Copy(dual=True)
    yield Await("state")
    yield Switch(wait=True, ordered=variant == "in-order")
    yield Await("state")
