"""A region's messages on disk: a log per receiver, written after the commit that holds their content.

    regions/west/shapes/ab12/outbox/east/0000000001.log

A number that is taken is a message that was published before a crash: it is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from godwit.ids import RegionId
from godwit.protocol.commit import ProtocolCommit
from godwit.protocol.handover import Migration
from godwit.protocol.inputs import Sent, peer_log
from godwit.protocol.outbox import message_to_json, messages
from godwit.region.replay_ranges import seen
from godwit.storage import names
from godwit.storage.log import Record
from godwit.storage.store import Store


class Outbox:
    """The messages of one shape in one region."""

    def __init__(self, store: Store, region: RegionId, shape: str) -> None:
        self._store, self._region, self._shape = store, region, shape
        #: receiver -> the last message that it is known to have taken in
        self._taken: dict[RegionId, int] = {}

    def publish(self, number: int, commit: ProtocolCommit, record: Record) -> None:
        """The messages of a commit, as far as they are not there yet."""
        sent = [Sent(p["to"], p["operator"], p["input"], p["segment"]) for p in record["channels"]]
        handovers = [(Migration.from_json(parcel["move"]), parcel) for parcel in record["handovers"]]
        times = (record["entered"], record["newest_us"])
        found = messages(commit, number, sent, handovers, times, {**seen(record), "cuts": record["cuts"]})
        for receiver, message in found.items():
            log = names.outbox_log(self._region, self._shape, receiver)
            self._store.try_append(log, commit.messages[receiver], message_to_json(message))

    def behind(self, sent: Mapping[RegionId, int], readers: Iterable[RegionId], limit: int) -> bool:
        """Whether a reader has more than `limit` of the messages sent to it still before it."""
        return any(self._lag(reader, sent.get(reader, 0), limit) > limit for reader in readers)

    def _lag(self, reader: RegionId, sent: int, limit: int) -> int:
        if sent - self._taken.get(reader, 0) > limit:
            try:
                log = self._store.log(names.commit_log(reader, self._shape))
                record = log.read(log.last)
            except OSError:  # (its commits lie in a domain that is cut off: as far as is known)
                return sent - self._taken.get(reader, 0)
            self._taken[reader] = 0 if record is None else int(record["positions"].get(peer_log(self._region), 0))
        return sent - self._taken.get(reader, 0)
