"""Notifies other processes of new records in a log, so that they need not poll all the time. Nothing depends on it.

One thread sends; callers only enqueue. What could not be sent is found by the next slow poll.
"""

from __future__ import annotations

import threading
import time

from godwit.errors import GodwitError
from godwit.ids import RegionId
from godwit.process.members import COORDINATOR, ProcessMember, member, region_document, region_members
from godwit.process.wire import Head, WireCaller
from godwit.storage.store import Store

#: an address that could not be reached is left alone for so long (seconds)
PAUSE = 0.5


class Notifier:
    def __init__(self, store: Store, token: str, name: str) -> None:
        self._store, self._token, self._name = store, token, name
        self._callers: dict[str, WireCaller] = {}
        self._not_before: dict[str, float] = {}
        #: document of a member -> kind of notification -> shapes
        self._queued: dict[str, dict[str, set[str]]] = {}
        self._news, self._stopping = threading.Condition(), False
        self._thread = threading.Thread(target=self._run, name=f"{name}/notify", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._news:
            self._stopping = True
            self._news.notify_all()
        self._thread.join(timeout=2.0)
        for caller in self._callers.values():
            caller.close()

    def messages(self, region: RegionId, shape: str) -> None:
        """A region has messages of a shape before it."""
        self._enqueue(region_document(region), "messages", shape)

    def epoch(self) -> None:
        for region in region_members(self._store):
            self._enqueue(region_document(region), "epoch")

    def report(self) -> None:
        self._enqueue(COORDINATOR, "report")

    def _enqueue(self, document: str, kind: str, *shapes: str) -> None:
        with self._news:
            self._queued.setdefault(document, {}).setdefault(kind, set()).update(shapes)
            self._news.notify_all()

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: bool(self._queued) or self._stopping)
                if self._stopping:
                    return
                queued, self._queued = self._queued, {}
            for document, kinds in queued.items():
                heads: list[Head] = [
                    {"do": kind, "shapes": sorted(shapes), "from": self._name} for kind, shapes in kinds.items()
                ]
                self._send(document, heads)

    def _send(self, document: str, heads: list[Head]) -> None:
        if time.monotonic() < self._not_before.get(document, 0.0):
            return
        for _ in range(2):  # again with a new address: it may have been started again
            try:
                caller = self._callers.get(document) or self._found(document)
                if caller is None:
                    return
                for head in heads:
                    caller.send(head)
                return
            except (OSError, GodwitError, ValueError):
                self._callers.pop(document, None)
        self._not_before[document] = time.monotonic() + PAUSE

    def _found(self, document: str) -> WireCaller | None:
        known: ProcessMember | None = member(self._store, document)
        if known is None or known.left:
            return None
        self._callers[document] = WireCaller(known.address, self._token, document, timeout=2.0)
        return self._callers[document]
