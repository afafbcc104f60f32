"""Flink as one contender: a cluster and a client process that stay up, so that every run finds warm JVMs."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench._harness import say
from bench.peers.cluster import ask, cluster
from bench.peers.flink_install import FlinkInstall

CLIENT = Path(__file__).with_name("flink_client.py")


class FlinkError(RuntimeError):
    """Flink refused or failed; the message is Flink's."""


class Flink:
    """Requests to the client, one at a time."""

    def __init__(self, client: subprocess.Popen[str], rest: int) -> None:
        self._client, self._rest = client, rest

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        assert self._client.stdin is not None
        self._client.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self._client.stdin.flush()
        return self._answer()

    def job_seconds(self, job: str) -> float:
        """How long a finished job took by the job manager's clock: without planning and submission."""
        return float(ask(self._rest, f"/jobs/{job}")["duration"]) / 1000

    def _answer(self) -> dict[str, Any]:
        assert self._client.stdout is not None
        for line in self._client.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                if "error" in found:
                    raise FlinkError(found["trace"])
                return found
        msg = "Flink's client has ended; its errors are above"
        raise FlinkError(msg)


@contextmanager
def flink(install: FlinkInstall, folder: Path) -> Iterator[Flink]:
    """A cluster and a client, for as long as the block lasts."""
    folder.mkdir(parents=True)
    with cluster(install, folder) as (rest, running):
        environment = {
            **os.environ,
            "JAVA_HOME": str(install.java_home),
            "HADOOP_CLASSPATH": install.hadoop_classpath,
            "FLINK_CONF_DIR": str(folder / "conf"),
        }
        command = [str(install.python), str(CLIENT), str(rest), install.parquet.as_uri()]
        errors = (folder / "log" / "client.err").open("w")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
        client, over = subprocess.Popen(command, env=environment, text=True, **pipes), threading.Event()

        def watch() -> None:
            """A client whose cluster has ended would wait for ever."""
            while not over.wait(1.0):
                if any(process.poll() is not None for process in running):
                    say("a process of Flink's has ended: " + " | ".join(_errors(folder / "log")))
                    client.terminate()
                    return

        threading.Thread(target=watch, daemon=True).start()
        try:
            found = Flink(client, rest)
            found._answer()
            yield found
        finally:
            over.set()
            client.terminate()
            client.wait(30)


def _errors(logs: Path) -> list[str]:
    """The last of what Flink's processes complain of."""
    lines = [line for path in sorted(logs.glob("*.log")) for line in path.read_text(errors="replace").splitlines()]
    return [line[:300] for line in lines if " ERROR " in line or "OutOfMemoryError" in line][-2:]
