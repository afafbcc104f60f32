"""A Flink standalone cluster on loopback: one job manager, one task manager with two slots, gone when the block ends.

Both run the wheel's own scripts in the foreground, as children of this process, with a configuration of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.peers.flink_install import FlinkInstall

#: what Flink's own guides advise for a machine like this; the rest is left at its default
SETTINGS: Mapping[str, str | int | bool] = {
    "taskmanager.numberOfTaskSlots": 2,
    "parallelism.default": 2,
    "jobmanager.memory.process.size": "1g",
    "taskmanager.memory.process.size": "4g",
    # Each job brings classes that its planner has made, and those of one that has ended go late: with the usual 256 MB
    # the task manager ended in the middle of the bench.
    "taskmanager.memory.jvm-metaspace.size": "768m",
    "pipeline.object-reuse": True,
    "execution.checkpointing.interval": "10 s",
    "state.backend.incremental": True,
}
START_S = 120.0


class ClusterError(RuntimeError):
    """The cluster did not come up."""


@contextmanager
def cluster(install: FlinkInstall, folder: Path) -> Iterator[tuple[int, list[subprocess.Popen[bytes]]]]:
    """Yields the REST port, once a task manager is there, and the processes."""
    rest, rpc = free_port(), free_port()
    conf = folder / "conf"
    shutil.copytree(install.home / "conf", conf)
    whole = (conf / "config.yaml").read_text().partition("jobmanager:")[0]  # the JVM options that Java 17 needs
    settings = {
        **SETTINGS,
        "rest.port": rest,
        "jobmanager.rpc.address": "127.0.0.1",
        "jobmanager.rpc.port": rpc,
        "rest.address": "127.0.0.1",
        "rest.bind-address": "127.0.0.1",
        "jobmanager.bind-host": "127.0.0.1",
        "taskmanager.bind-host": "127.0.0.1",
        "taskmanager.host": "127.0.0.1",
        "io.tmp.dirs": str(folder / "tmp"),
        "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
        "execution.checkpointing.savepoint-dir": (folder / "savepoints").as_uri(),
    }
    (conf / "config.yaml").write_text(whole + "".join(f"{k}: {json.dumps(v)}\n" for k, v in settings.items()))
    (folder / "tmp").mkdir()
    (folder / "log").mkdir()
    running: list[subprocess.Popen[bytes]] = []
    try:
        running += [_start(install, f"{what}manager.sh", conf, folder / "log") for what in ("job", "task")]
        _wait(rest, running, folder / "log")
        yield rest, running
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait(30)


def _start(install: FlinkInstall, script: str, conf: Path, log: Path) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "FLINK_CONF_DIR": str(conf),
        "FLINK_LOG_DIR": str(log),
        "JAVA_HOME": str(install.java_home),
        "HADOOP_CLASSPATH": install.hadoop_classpath,
    }
    output = (log / f"{script}.out").open("wb")
    command = ["bash", str(install.home / "bin" / script), "start-foreground"]
    return subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)


def _wait(rest: int, running: list[subprocess.Popen[bytes]], log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        dead = [process for process in running if process.poll() is not None]
        try:
            if not dead and ask(rest, "/overview")["taskmanagers"]:
                return
        except (urllib.error.URLError, ConnectionError):
            pass
        if dead:
            break
        time.sleep(0.2)
    tails = "\n".join(path.read_text(errors="replace")[-1500:] for path in sorted(log.glob("*.out")))
    msg = f"Flink's cluster did not start within {START_S:g} s; the end of its logs:\n{tails}"
    raise ClusterError(msg)


def ask(rest: int, path: str) -> dict:  # type: ignore[type-arg]
    """One question to the job manager."""
    with urllib.request.urlopen(f"http://127.0.0.1:{rest}{path}", timeout=10) as answer:
        return json.load(answer)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
