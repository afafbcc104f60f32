"""Results as MQTT messages, a row each. At least once: QoS 1, and after a crash the last commits come again.

A message has the user property `godwit-id`, the same in a repeat, by which a subscriber can leave out what it has.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from godwit.delivery.sinks.base import ResultBatch
from godwit.delivery.sinks.named_run import NamedRunSink
from godwit.drivers import driver
from godwit.errors import ConfigError, DeliveryError

#: limit of messages in flight to the broker
AT_ONCE = 500


class MqttSink(NamedRunSink):
    """Publishes to `topic`, in which {query}, {region} and {column} are filled in: "results/{query}/{train}"."""

    exactly_once: ClassVar[bool] = False

    def __init__(
        self,
        host: str,
        topic: str,
        *,
        port: int = 1883,
        username: str | None = None,
        password: str | None = None,
        tls: bool = False,
        retain: bool = False,
        timeout: float = 30.0,
    ) -> None:
        if not topic or set(topic) & set("+#"):
            msg = f"mqtt topic '{topic}': results go to one topic, without + and #; {{column}} may be part of it"
            raise ConfigError(msg)
        self._host, self._port, self._topic, self._retain, self._timeout = host, port, topic, retain, timeout
        self._login, self._tls = (username, password), tls
        self._mqtt = driver("paho.mqtt.client")
        self._properties = driver("paho.mqtt.properties").Properties
        self._packet = driver("paho.mqtt.packettypes").PacketTypes.PUBLISH
        self._client: Any = None
        self.name = f"mqtt:{host}:{port}/{topic}"

    def close(self) -> None:
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
        self._client = None

    def write(self, batch: ResultBatch) -> None:
        client = self._connected()
        for part, rows in batch.pieces(AT_ONCE):
            sent = [self._publish(client, batch, row, part * AT_ONCE + k) for k, row in enumerate(rows)]
            for one in sent:
                try:
                    one.wait_for_publish(self._timeout)
                except (RuntimeError, ValueError) as error:
                    msg = f"{self.name}: {error}"
                    raise DeliveryError(msg) from error
                if not one.is_published():
                    msg = f"{self.name} has not acknowledged a message within {self._timeout:g} s"
                    raise DeliveryError(msg)

    def _publish(self, client: Any, batch: ResultBatch, row: dict[str, Any], number: int) -> Any:
        properties = self._properties(self._packet)
        properties.UserProperty = ("godwit-id", f"{self._run}.{batch.scope}.{batch.number}.{number}")
        known = {name: _level(value) for name, value in row.items()}
        try:
            topic = self._topic.format(**{**known, "query": _level(batch.name), "region": _level(batch.region)})
        except KeyError as error:
            msg = f"mqtt topic '{self._topic}': results of '{batch.name}' have no column {error}; they have {list(row)}"
            raise ConfigError(msg) from error
        return client.publish(topic, json.dumps(row), qos=1, retain=self._retain, properties=properties)

    def _connected(self) -> Any:
        if self._client is None:
            client = self._mqtt.Client(self._mqtt.CallbackAPIVersion.VERSION2, protocol=self._mqtt.MQTTv5)
            if self._login[0] is not None:
                client.username_pw_set(*self._login)
            if self._tls:
                client.tls_set()
            client.max_inflight_messages_set(AT_ONCE)
            client.connect(self._host, self._port)
            client.loop_start()
            self._client = client
        return self._client


def _level(value: Any) -> str:
    """A value as one level of a topic."""
    text = "" if value is None else str(value)
    return "".join("_" if char in "/+#\x00" else char for char in text)
