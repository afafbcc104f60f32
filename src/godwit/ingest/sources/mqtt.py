"""MQTT as a source: a topic's levels name the stream, the device and perhaps the site.

QoS 1: a message is acknowledged once its rows are durable, and comes again if that got lost. A repeat is dropped if
messages are numbered: a user property `sequence`, or the field that `sequence` names, growing per device and stream.
Without numbers, rows come at least once.
"""

from __future__ import annotations

import json
import queue
import re
import threading
from collections.abc import Sequence
from typing import Any

from godwit.api.core import FleetCore
from godwit.drivers import driver
from godwit.errors import ConfigError, SourceError
from godwit.ingest.device_locator import PositionColumns
from godwit.ingest.sources.broker_source import AT_ONCE, BrokerSource
from godwit.ingest.sources.intake import Intake, Message

LEVELS = ("stream", "device", "site")


class TopicPattern:
    """`fleet/{site}/{device}/{stream}`: whole levels in braces; + and # may stand for levels that say nothing."""

    def __init__(self, text: str) -> None:
        self.text, levels = text, text.split("/")
        named = [level[1:-1] for level in levels if level.startswith("{") and level.endswith("}")]
        wrong = [name for name in named if name not in LEVELS] or [name for name in named if named.count(name) > 1]
        if wrong or any(set(level) & set("{}") and level[1:-1] not in LEVELS for level in levels) or not text:
            msg = f"topic '{text}': a level in braces is one of {{stream}}, {{device}}, {{site}}, each once"
            raise ConfigError(msg)
        #: what to subscribe to
        self.subscription = "/".join("+" if level[:1] == "{" else level for level in levels)
        special = {"+": "[^/]+", "#": ".*"}
        parts = [f"(?P<{v[1:-1]}>[^/]+)" if v[:1] == "{" else special.get(v, re.escape(v)) for v in levels]
        self._regex = re.compile("/".join(parts) + r"\Z")
        self.names = frozenset(named)

    def read(self, topic: str) -> dict[str, str] | None:
        """What a topic says of the stream, device and site; None: it is another kind of topic."""
        found = self._regex.match(topic)
        return None if found is None else found.groupdict()


class MqttSource(BrokerSource[Any]):
    """Feeds streams from a broker until stopped. Under the same name, the broker has kept what came meanwhile."""

    def __init__(
        self,
        fleet: FleetCore,
        host: str,
        topic: str,
        *,
        port: int = 1883,
        stream: str | None = None,
        site: str | None = None,
        sequence: str | None = None,
        positions: PositionColumns | None = None,
        username: str | None = None,
        password: str | None = None,
        tls: bool = False,
        name: str = "mqtt",
    ) -> None:
        super().__init__(fleet, name, Intake(fleet, site=site, positions=positions), f"mqtt://{host}:{port}, {topic}")
        self._pattern = TopicPattern(topic)
        if ("stream" in self._pattern.names) == (stream is not None):
            msg = f"topic '{topic}': name the stream either in the topic ({{stream}}) or beside it (stream=...)"
            raise ConfigError(msg)
        self._address, self._stream, self._sequence = (host, port), stream, sequence
        self._login, self._tls = (username, password), tls
        self._mqtt = driver("paho.mqtt.client")
        self._packets = driver("paho.mqtt.packettypes").PacketTypes
        self._properties = driver("paho.mqtt.properties").Properties
        self._came: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._client: Any = None
        #: from now on, the broker keeps what it cannot deliver
        self.subscribed = threading.Event()

    def _open(self) -> None:
        mqtt, self._came = self._mqtt, queue.SimpleQueue()
        client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, client_id=f"godwit-{self.name}", protocol=mqtt.MQTTv5, manual_ack=True
        )
        if self._login[0] is not None:
            client.username_pw_set(*self._login)
        if self._tls:
            client.tls_set()
        came = self._came  # (of this connection: acknowledgements do not outlive it)
        client.on_message = lambda _client, _data, message: came.put(message)
        client.on_connect = self._connected
        client.on_subscribe = lambda *_: self.subscribed.set()
        client.on_disconnect = lambda _client, _data, _flags, reason, _properties: came.put(SourceError(str(reason)))
        kept = self._properties(self._packets.CONNECT)
        kept.SessionExpiryInterval, kept.ReceiveMaximum = 0xFFFFFFFF, 4 * AT_ONCE
        client.connect(*self._address, clean_start=False, properties=kept)
        client.loop_start()
        self._client = client

    def _connected(self, client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self._came.put(SourceError(f"the broker refuses: {reason}"))
        else:
            client.subscribe(self._pattern.subscription, qos=1)

    def _receive(self) -> Sequence[Any]:
        try:
            found = [self._came.get(timeout=0.1)]
        except queue.Empty:
            return []
        while len(found) < AT_ONCE and not self._came.empty():
            found.append(self._came.get())
        for one in found:
            if isinstance(one, Exception):
                raise one
        return found

    def _message(self, told: Any) -> Message | None:
        named = self._pattern.read(told.topic)
        if named is None:
            return None
        properties = told.properties
        kind = getattr(properties, "ContentType", None) or "application/json"
        stream = named.get("stream") or self._stream
        assert stream is not None
        number = self._number(told.payload, dict(getattr(properties, "UserProperty", ())))
        return Message(stream, told.payload, named.get("device"), named.get("site"), number, kind)

    def _number(self, payload: bytes, properties: dict[str, str]) -> int | None:
        given: Any = properties.get("sequence")
        if given is None and self._sequence is not None:
            try:
                rows = json.loads(payload)
                last = rows[-1] if isinstance(rows, list) and rows else rows
                given = last.get(self._sequence) if isinstance(last, dict) else None
            except (ValueError, RecursionError):
                return None  # (the intake says what is wrong with it)
        return int(given) if str(given).isdigit() and int(given) > 0 else None

    def _acknowledge(self, told: Sequence[Any]) -> None:
        for message in told:
            self._client.ack(message.mid, message.qos)

    def _close(self) -> None:
        if self._client is not None:
            self._client.on_disconnect = None
            self._client.disconnect()
            self._client.loop_stop()
        self._client = None
