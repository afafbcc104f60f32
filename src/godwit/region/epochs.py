"""The control log as all runners of a process read it: each epoch's record is read and applied once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from godwit.model.deployment import Deployment
from godwit.protocol.handover import EpochChange
from godwit.storage.epoch_log import Control, moves_of
from godwit.storage.log import Record
from godwit.storage.store import Store

#: number of newest epochs that are kept; a runner that is further behind makes them again
KEPT = 64


class EpochReader:
    """Any thread may read; two that need the same epoch at the same moment both make it, with the same result."""

    def __init__(
        self, store: Store, first_seen: Callable[[int, Deployment, Record], None] = lambda number, after, record: None
    ) -> None:
        """`first_seen`: called with an epoch before any runner hears of it; more than once if runners are far apart."""
        self.control, self._first_seen = Control(store), first_seen
        #: number of the epoch before -> (number, what it changes)
        self._known: OrderedDict[int, tuple[int, EpochChange]] = OrderedDict()

    def after(self, number: int, deployment: Deployment) -> Iterator[tuple[int, EpochChange]]:
        """Every epoch past `number`, whose deployment is given."""
        while (found := self._known.get(number) or self._read(number, deployment)) is not None:
            number, change = found
            deployment = change.deployment
            yield number, change

    def _read(self, number: int, deployment: Deployment) -> tuple[int, EpochChange] | None:
        for at, later, record in self.control.after(number, deployment):
            self._first_seen(at, later, record)
            found = self._known[number] = at, EpochChange(later, moves_of(record))
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
            return found
        return None
