"""The control log: every epoch's delta, in order, and now and then the whole deployment, so that a restart is quick."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from godwit.model.codec import decode, encode
from godwit.model.deployment import Delta, Deployment
from godwit.runtime.log import Log, Record

#: so many epochs lie between two whole copies
SNAPSHOT_EVERY = 500


class Control:
    """Reads (any region) and writes (the fleet's one control plane) the deployment, epoch by epoch."""

    def __init__(self, root: Path) -> None:
        self._log = Log(root / "control")
        self._snapshots = root / "snapshots"
        self._snapshots.mkdir(parents=True, exist_ok=True)

    @property
    def last(self) -> int:
        return self._log.last

    def publish(self, delta: Delta, starts: dict[str, int]) -> int:
        """Append an epoch; `starts`: where the source logs stand ("region/stream" -> number), for new queries."""
        number = self._log.append({"delta": encode(delta), "starts": starts})
        if number % SNAPSHOT_EVERY == 0:
            draft = self._snapshots / f"{number:010d}.tmp"
            draft.write_text(json.dumps(encode(self.deployment_at(number))))
            draft.rename(draft.with_suffix(".json"))
        return number

    def deployment_at(self, number: int) -> Deployment:
        """The deployment after the epoch of that number."""
        nearest = max((int(p.stem) for p in self._snapshots.glob("*.json") if int(p.stem) <= number), default=0)
        deployment = Deployment()
        if nearest:
            deployment = decode(json.loads((self._snapshots / f"{nearest:010d}.json").read_text()))
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
