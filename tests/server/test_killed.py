"""kill -9 of the server while rows come in: what was acknowledged is there, once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

TOPOLOGY = "sites: [{id: west, region: edge-west}, {id: cloud, region: cloud}]\nlinks: [{from: west, to: cloud}]\n"


class Served:
    """`godwit serve` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        topology = folder / "topology.yaml"
        topology.write_text(TOPOLOGY)
        command = [sys.executable, "-m", "godwit", "serve", f"{folder}/fleet", "--port", "0", "--topology", topology]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        assert self.process.stderr is not None
        self.url = next(found[0] for text in self.process.stderr if (found := re.search(r"http://[\d.:]+", text)))

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)


def _send(url: str, device: str, first: int, acknowledged: dict[str, int]) -> None:
    """Numbered rows, one after the other, until the server is gone; the last may be sent again later."""
    number = first
    with httpx.Client(base_url=url, timeout=30) as http:
        while True:
            row = {"device": device, "n": number, "ts": f"2026-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}Z"}
            try:
                told = http.post(f"/v1/streams/readings/rows?device={device}&sequence={number}", json=row)
            except httpx.TransportError:
                return
            if told.status_code != 200:
                return
            acknowledged[device] = number
            number += 1


@pytest.mark.full
@pytest.mark.timeout(600)
def test_what_was_acknowledged_is_there_once(tmp_path: Path) -> None:
    acknowledged = {f"d{k}": 0 for k in range(4)}
    server = Served(tmp_path)
    try:
        with httpx.Client(base_url=server.url, timeout=60) as http:
            columns = "device string, n int, ts timestamp"
            told = {"name": "readings", "columns": columns, "device": "device", "disorder": "1 hour"}
            http.post("/v1/streams", json=told).raise_for_status()
            for device in acknowledged:
                http.put(f"/v1/devices/{device}", json={"site": "west", "streams": ["readings"]}).raise_for_status()
            sql = "SELECT device, n, ts FROM readings"
            http.post("/v1/queries", json={"name": "all", "sql": sql}).raise_for_status()
        for _ in range(3):
            firsts = {device: number + 1 for device, number in acknowledged.items()}
            threads = [
                threading.Thread(target=_send, args=(server.url, device, first, acknowledged))
                for device, first in firsts.items()
            ]
            for thread in threads:
                thread.start()
            time.sleep(2.0)
            server.kill()
            for thread in threads:
                thread.join(60)
            assert all(acknowledged[device] >= first for device, first in firsts.items())
            server = Served(tmp_path)
        with httpx.Client(base_url=server.url, timeout=60) as http:
            want = sum(acknowledged.values())
            until = time.monotonic() + 120
            while True:
                rows = http.get("/v1/queries/all/results", params={"limit": 100_000}).json()["rows"]
                if len(rows) >= want or time.monotonic() > until:
                    break
                time.sleep(0.2)
            time.sleep(1.0)  # a repeat would come now
            rows = http.get("/v1/queries/all/results", params={"limit": 100_000}).json()["rows"]
    finally:
        server.kill()
    for device, last in acknowledged.items():
        numbers = sorted(row["n"] for row in rows if row["device"] == device)
        assert len(numbers) == len(set(numbers)), "a row is there twice"
        # The one that was under way when the server died may be there too, though nobody was told.
        assert numbers in (list(range(1, last + 1)), list(range(1, last + 2)))
