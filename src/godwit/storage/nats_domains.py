"""Where the names of a fleet lie: a log lives where its writer lives.

A region whose NATS server is a leaf node with a JetStream domain of its own keeps all that it writes there: source
logs, commits, outboxes, reports, state and lease (`names.owner_of`). Appending costs no trip over the leaf link.
Everything else (epochs, commands and answers, who runs) lies at the hub. Readers find the domain of a region in a
document of the hub that is written when the region joins for the first time, and never changes:

    processes/domains/edge-west       edge-west
"""

from __future__ import annotations

import threading
from typing import Any

from godwit.errors import ConfigError
from godwit.storage import names
from godwit.storage.nats_documents import NatsDocuments
from godwit.storage.nats_server import HUB, NatsServer
from godwit.storage.urls import shown

#: how often the hub is asked which regions have a domain, should nobody have said so (seconds)
CHECK_EVERY = 1.0


class NatsDomains:
    """Region -> domain, as the hub has it."""

    def __init__(self, server: NatsServer, *, segments_apart: bool = False) -> None:
        """`segments_apart`: documents and segments lie in another store, so that no region may have its own."""
        self._server, self._apart = server, segments_apart
        self.hub = NatsDocuments(server, HUB)
        self._news = f"{server.prefix}.domains"
        self._of: dict[str, str] = {}
        self._guard = threading.Lock()
        server.subscribe(self._news, self._learn)
        for name in self.hub.names(names.DOMAINS):
            self._of[name] = self.hub.get(f"{names.DOMAINS}/{name}").decode()
        self._check()
        server.repeat(CHECK_EVERY, self._look)

    def of(self, name: str) -> str:
        """The domain that a log, document or file lies in."""
        owner = names.owner_of(name)
        return HUB if owner is None else self._of.get(owner, HUB)

    def all(self) -> list[str]:
        return [HUB, *sorted(set(self._of.values()) - {HUB})]

    def regions(self) -> list[str]:
        """Those that have a domain of their own."""
        return [region for region, domain in list(self._of.items()) if domain != HUB]

    def claim(self, region: str) -> None:
        """A region joins. ConfigError: its logs lie in another domain than the URL of the store names."""
        mine, document = self._server.domain or HUB, f"{names.DOMAINS}/{region}"
        if region not in self._of:
            if mine != HUB and self.hub.names(f"{names.REGIONS}/{region}"):
                raise _elsewhere(region, mine, HUB)
            if not self.hub.create(document, mine.encode()):
                mine = self.hub.get(document).decode()
            self._of[region] = mine
            told = f"{region} {mine}".encode()
            self._server.run(self._server.publish(self._news, told))
        # (without a domain in the URL, as of `forget-region`: the logs stay where they are)
        if self._server.domain is not None and self._of[region] != self._server.domain:
            raise _elsewhere(region, self._server.domain, self._of[region])
        self._check()

    def _learn(self, news: bytes) -> None:
        region, _, domain = news.decode().partition(" ")
        with self._guard:
            self._of[region] = domain

    async def _look(self) -> None:
        js = self._server.jetstream(HUB)
        for name in set(await self.hub.list_names(js, names.DOMAINS)) - self._of.keys():
            self._learn(f"{name} {(await self.hub.last(js, f'{names.DOMAINS}/{name}'))[0].decode()}".encode())

    def _check(self) -> None:
        if self._apart and (own := {r: d for r, d in self._of.items() if d != HUB}):
            region, domain = next(iter(own.items()))
            msg = (
                f"region '{region}' keeps its logs in the JetStream domain '{domain}', and this fleet its segments in "
                "another store (?segments=...): that cannot be combined; open the fleet without ?segments="
            )
            raise ConfigError(msg)


def _elsewhere(region: str, wanted: str, known: str) -> ConfigError:
    where = f"in the JetStream domain '{known}'" if known != HUB else "at the hub"
    return ConfigError(
        f"region '{region}' has its logs {where}, and the store's URL says ?domain={wanted}: logs do not move; start "
        "it as before, or move its devices away and start a region under a new name"
    )


def domain_name(url: str, options: dict[str, list[str]], key: str) -> Any:
    """A domain that a store's URL names."""
    if key not in options:
        return None
    name = options[key][-1]
    if not names.is_domain(name):
        msg = f"store '{shown(url)}': {key}={name!r} is not a JetStream domain (letters, digits, - and _)"
        raise ConfigError(msg)
    return name
