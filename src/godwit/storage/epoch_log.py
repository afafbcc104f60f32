"""The control log: every epoch's delta, in order, and now and then the whole deployment, so that a restart is quick."""

from __future__ import annotations

from collections.abc import Iterator

from godwit.model.codec import decode, encode
from godwit.model.deployment import Delta, Deployment
from godwit.storage import names
from godwit.storage.log import Record
from godwit.storage.records import EpochRecord
from godwit.storage.store import Store

#: so many epochs lie between two whole copies
SNAPSHOT_EVERY = 500


class Control:
    """Reads (any region) and writes (the fleet's one control plane) the deployment, epoch by epoch."""

    def __init__(self, store: Store) -> None:
        self._store, self._log = store, store.log(names.CONTROL, create=True)

    @property
    def last(self) -> int:
        return self._log.last

    @property
    def first(self) -> int:
        return self._log.first

    def publish(self, delta: Delta, starts: dict[str, int]) -> int:
        """Append an epoch; `starts`: where the source logs stand ("region/stream" -> number), for new queries."""
        number = self._log.append(EpochRecord(encode(delta), starts).to_json())
        if number % SNAPSHOT_EVERY == 0:
            self._snapshot(number)
        return number

    def _snapshot(self, number: int) -> None:
        self._store.put_document(f"{names.SNAPSHOTS}/{names.number(number)}", encode(self.deployment_at(number)))

    def _snapshots(self) -> list[int]:
        return self._store.numbers(names.SNAPSHOTS)

    def forget(self, through: int) -> int:
        """Drop the epochs up to one that every region has passed, with a whole copy in their place; how many."""
        count = through - self._log.first + 1
        if count > 0:
            self._snapshot(through)
            self._log.truncate(through + 1)
            for old in self._snapshots():
                if old < through:
                    self._store.delete_document(f"{names.SNAPSHOTS}/{names.number(old)}")
        return max(count, 0)

    def oldest(self) -> tuple[int, Deployment]:
        """The first epoch that is still known whole: a region that is new begins to read after it."""
        number = min(self._snapshots(), default=0)
        if self._log.read(1) is not None:
            return 0, Deployment()
        return number, self.deployment_at(number)

    def deployment_at(self, number: int) -> Deployment:
        """The deployment after the epoch of that number."""
        nearest = max((n for n in self._snapshots() if n <= number), default=0)
        deployment = Deployment()
        if nearest:
            deployment = decode(self._store.get_document(f"{names.SNAPSHOTS}/{names.number(nearest)}"))
        for at, after, _ in self.after(nearest, deployment):
            if at > number:
                break
            deployment = after
        return deployment

    def after(self, number: int, deployment: Deployment) -> Iterator[tuple[int, Deployment, Record]]:
        """(number, deployment, record) of every epoch past `number`, whose deployment is given."""
        for at, record in self._log.after(number):
            deployment = deployment.apply(decode(record["delta"]))
            yield at, deployment, record

    def exists(self, number: int) -> bool:
        return self._log.exists(number)
