"""Records that are too large for a message of a broker: they lie on the store's disk, and the message names them."""

from __future__ import annotations

import hashlib

from godwit.storage.base import Disk

#: larger ones are kept beside the log (brokers take messages of 1 MB unless told otherwise)
MOST_BYTES = 500_000
_LARGE = b"\0large:"


class LargeRecords:
    """Of one log: `large/LOG/12-1f3a...`."""

    def __init__(self, disk: Disk, log: str) -> None:
        self._disk, self._folder = disk, f"large/{log}"

    def message(self, number: int, data: bytes) -> bytes:
        """What the broker is to keep of a record."""
        if len(data) <= MOST_BYTES:
            return data
        beside = f"{self._folder}/{number}-{hashlib.sha256(data).hexdigest()[:16]}"
        self._disk.write(beside, data)
        return _LARGE + beside.encode()

    def record(self, message: bytes) -> bytes:
        return self._disk.read(message[len(_LARGE) :].decode()) if message.startswith(_LARGE) else message

    def cut(self, below: int) -> None:
        """Nothing below a number is kept from now on."""
        for name in self._disk.names(self._folder):
            if int(name.partition("-")[0]) < below:
                self._disk.delete(f"{self._folder}/{name}")
