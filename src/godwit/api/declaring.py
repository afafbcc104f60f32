"""What a fleet is fed by: streams, reference tables, devices and other sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from godwit.api.handles import DeviceHandle
from godwit.api.options import AHEAD, declared, length
from godwit.api.running import RunningFleet
from godwit.api.tables import TableHandle, declared_table
from godwit.control.commands import (
    AlterStream,
    Connect,
    Declare,
)
from godwit.errors import ConfigError
from godwit.ids import DeviceId, StreamId
from godwit.ingest.sources.broker_source import BrokerSource
from godwit.ingest.sources.replay import Replay
from godwit.ingest.sources.spark_source import SparkSource, json_messages, stream_of_format
from godwit.model.plan import Stream
from godwit.model.taps import PRODUCER


class DeclaringFleet(RunningFleet):
    """Declares what queries read, and lets it in."""

    def stream(
        self,
        name: str,
        schema: str,
        *,
        time: str = "ts",
        device: str | None = None,
        disorder: str | None = None,
        idle: str | None = None,
        ahead: str | None = AHEAD,
        site: str | None = None,
        mbps: float | None = None,
    ) -> Stream:
        """Declare a stream. `device`: the column that names the sender; without one, the stream itself is a device.

        `disorder`: how far a device's rows may lie behind its newest; `idle`: after how long a silent device that is
        attached no longer holds the clocks back; `ahead`: how far ahead of the wall clock its rows may be (None: any
        distance, for simulated time); `site`: where a stream without a device column is attached; `mbps`:
        what one device sends, for admission.
        """
        roles: dict[str, Any] = {"time": time, "device": device, "disorder": disorder, "idle": idle, "ahead": ahead}
        stream = declared(name, schema, self.deployment.streams, mbps=mbps, **roles)
        known = self.deployment.streams.get(stream.id)
        if known is None or not known.is_declared_by(stream):
            self.control.execute(Declare(stream))
        if device is None:
            self.device(name, site=site, streams=[name])
        return self.deployment.streams[stream.id]

    def alter_stream(self, name: str, *, add: str) -> Stream:
        """Give a stream columns more (`"color string, weight double"`) while everything runs. Rows that have come, and
        those of devices that do not send them, have NULL there; queries that run go on, new ones may read them."""
        self.control.execute(AlterStream(name, add))
        return self.deployment.streams[StreamId(name)]

    def table(
        self,
        name: str,
        schema: str,
        *,
        key: str | Sequence[str],
        disorder: str | None = None,
        site: str | None = None,
    ) -> TableHandle:
        """Declare a reference table, which queries join by its key (`JOIN t ON s.k = t.id`).

        `disorder`: how far into the past a change may reach, for which its readers wait; `site`: where its changes
        come in (the largest site, if it is not said).
        """
        known = next((k for k in self.deployment.streams if k != name and k.lower() == name.lower()), None)
        if known is not None:
            msg = f"table '{name}' is the same name to SQL as '{known}', which is declared; choose another name"
            raise ConfigError(msg)
        table = declared_table(name, schema, key, length(name, "disorder", disorder) if disorder else 0)
        if self.deployment.streams.get(table.id) != table:
            self.control.execute(Declare(table))
        sites = self.plane.topology.sites.values()
        largest = max(sites, key=lambda s: (s.cpu, s.id), default=None)
        placed = self.plane.topology.devices.get(DeviceId(name))
        home = site if site or placed is not None or largest is None else largest.id
        self.device(name, site=home, streams=[name])
        return TableHandle(self, table, self._opened)

    def device(self, name: str, *, site: str | None = None, streams: Sequence[str] = ()) -> DeviceHandle:
        """A device and the streams it feeds; made known to the topology if it is new."""
        device = DeviceId(name)
        known = self.plane.topology.devices.get(device)
        fed = all(device in self.deployment.feeds.get(StreamId(s), ()) for s in streams)
        if known is None or not fed or (site is not None and known.site != site):
            self.control.execute(Connect(name, site, tuple(streams)))
        return DeviceHandle(self, device)

    def tell_time(self, stream: str, clocks: Mapping[DeviceId, int]) -> None:
        """Attached devices without rows say how far they have come (microseconds), so that windows can close."""
        with self.lock:
            self.gateway.check_clocks(StreamId(stream), clocks)
            self.gateway.tell(StreamId(stream), clocks, self.deployment)

    def close_sources(self) -> None:
        """No device sends more: every window closes. A device that sends later begins again."""
        with self.lock:
            for device in self.deployment.devices:
                if not device.startswith(PRODUCER):
                    self.gateway.close(device, self.deployment)

    def replay(self, stream: str, files: str | Path | Sequence[str | Path], **options: Any) -> Replay:
        """Recorded files to be replayed into a stream; `.run()` or `.start()` it. Options as in `Replay`."""
        return Replay(self, StreamId(stream), files, **options)

    def ingest(self, stream: str, source: DataFrame | str, *, name: str = "spark", **options: str) -> SparkSource:
        """Feed a stream from a streaming DataFrame, or from a Spark format and its options; messages of "kafka" are
        JSON objects. The session must have the format's package (`spark.jars.packages`)."""
        rows = stream_of_format(self.spark, source, options) if isinstance(source, str) else source
        if source == "kafka":
            rows = json_messages(rows, self.schema(StreamId(stream)).stream)
        opened = SparkSource(self, StreamId(stream), rows, name)
        self._opened.append(opened)
        return opened.start()

    def follow(self, source: BrokerSource[Any]) -> None:
        """Let a source (`MqttSource(fleet, ...)`) feed its streams until the fleet stops."""
        self._opened.append(source)
        source.start()

    def dead_letters(self) -> list[dict[str, Any]]:
        """Rows that did not fit their stream, each with the reason."""
        return self.gateway.dead.read()
