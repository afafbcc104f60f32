"""Documents and segments of a fleet in JetStream, each in the domain of the region that writes it."""

from __future__ import annotations

from collections.abc import Iterable

from godwit.storage.names import REGIONS, has_many_owners
from godwit.storage.nats_documents import NatsDocuments
from godwit.storage.nats_domains import NatsDomains
from godwit.storage.nats_server import HUB, NatsServer


class NatsObjects:
    """See `objects.Objects`."""

    def __init__(self, server: NatsServer, domains: NatsDomains) -> None:
        self._server, self._domains, self.root = server, domains, domains.hub.root
        self._of: dict[str, NatsDocuments] = {HUB: domains.hub}

    def get(self, name: str) -> bytes:
        return self._at(name).get(name)

    def put(self, name: str, data: bytes) -> None:
        self._at(name).put(name, data)

    def create(self, name: str, data: bytes) -> bool:
        return self._at(name).create(name, data)

    def size(self, name: str) -> int:
        return self._at(name).size(name)

    def delete(self, name: str) -> None:
        self._at(name).delete(name)

    def names(self, folder: str) -> list[str]:
        if folder == REGIONS:  # (also while one of them cannot be reached)
            return sorted({*self._domains.hub.names(folder), *self._domains.regions()})
        return sorted({name for one in self._all(folder) for name in one.names(folder)})

    def below(self, folder: str) -> Iterable[str]:
        return sorted({name for one in self._all(folder) for name in one.below(folder)})

    def _at(self, name: str) -> NatsDocuments:
        return self._in(self._domains.of(name))

    def _all(self, folder: str) -> list[NatsDocuments]:
        """Where names below a folder may lie."""
        return [self._in(one) for one in self._domains.all()] if has_many_owners(folder) else [self._at(folder)]

    def _in(self, domain: str) -> NatsDocuments:
        if domain not in self._of:
            self._of[domain] = NatsDocuments(self._server, domain)
        return self._of[domain]
