"""Messages per second that an MQTT source takes in, acknowledged once durable.

A broker holds them ready, so that the publisher's cost is not measured.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MESSAGES, DEVICES, TARGET = 20_000, 8, 5_000


def _broker(folder: Path) -> tuple[subprocess.Popen[bytes], int] | None:
    program = shutil.which("mosquitto", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if program is None:
        return None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "mosquitto.conf"
    config.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n"
    )
    return subprocess.Popen([program, "-c", config], stderr=subprocess.DEVNULL), port


def _publish(port: int) -> None:
    import paho.mqtt.client as mqtt

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.max_inflight_messages_set(1000)
    client.connect("127.0.0.1", port)
    client.loop_start()
    stamp, sent = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), []
    for number in range(1, MESSAGES + 1):
        body = json.dumps({"n": number, "ts": stamp})
        sent.append(client.publish(f"fleet/west/d{number % DEVICES}", body, qos=1))
    for one in sent:
        one.wait_for_publish(60)
    client.disconnect()
    client.loop_stop()


def figures() -> Iterator[dict[str, Any]]:
    from godwit.api.fleet import Fleet
    from godwit.ingest.sources import MqttSource

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started = _broker(folder)
        if started is None:
            return
        process, port = started
        try:
            with Fleet.embedded(folder / "fleet") as fleet:
                fleet.topology.load("sites: [{id: west, region: edge}]\n")
                fleet.stream("readings", "device string, n int, ts timestamp", device="device")
                source = MqttSource(
                    fleet, "127.0.0.1", "fleet/{site}/{device}", port=port, stream="readings", sequence="n"
                )
                source.start()
                source.subscribed.wait(20)
                source.stop()  # from now on the broker keeps them
                _publish(port)
                began = time.monotonic()
                source.start()
                while source.rows < MESSAGES and time.monotonic() - began < 60:
                    time.sleep(0.01)
                rate, came = source.rows / (time.monotonic() - began), source.rows
                source.stop()
        finally:
            process.terminate()
            process.wait(20)
    note = f"{came} of {MESSAGES} messages of {DEVICES} devices, QoS 1, acknowledged once durable, repeats told apart"
    met = rate >= TARGET and came >= MESSAGES
    yield {"experiment": "service/mqtt_per_s", "ours": round(rate), "target": TARGET, "met": met, "note": note}
