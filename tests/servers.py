"""Real servers for tests: started on a free loopback port in a folder of the test's, stopped at the end.

Each is skipped with the reason where it cannot be had.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from godwit.errors import ConfigError
from godwit.testing import packages
from godwit.testing.broker import LocalNats

KAFKA = "4.1.0"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(holds: Callable[[], Any], seconds: float = 30) -> Any:
    end = time.monotonic() + seconds
    while not (found := holds()) and time.monotonic() < end:
        time.sleep(0.02)
    return found


@contextmanager
def _running(
    command: Sequence[str | Path], port: int, folder: Path, seconds: float = 30, ends: float = 20, **more: Any
) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log, **more)
    try:
        if not until(lambda: answers(port) or process.poll() is not None, seconds) or process.poll() is not None:
            pytest.fail(f"{command[0]} did not start: {(folder / 'server.log').read_text()[-2000:]}")
        yield process
    finally:
        process.terminate()
        try:
            process.wait(ends)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def found(name: str, *places: str) -> str:
    path = shutil.which(
        name, path=os.pathsep.join([os.environ.get("PATH", ""), str(Path(sys.executable).parent), *places])
    )
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


@contextmanager
def mosquitto(folder: Path, port: int | None = None) -> Iterator[int]:
    """An MQTT broker; its port."""
    program, port = found("mosquitto", "/usr/sbin"), port or free_port()
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "mosquitto.conf"
    config.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {folder}/\n"
        "max_queued_messages 0\nmax_inflight_messages 0\n" + ("user root\n" if os.geteuid() == 0 else "")
    )
    with _running([program, "-c", config], port, folder):
        yield port


@contextmanager
def nats_server(folder: Path, port: int | None = None, *, jetstream: bool = True) -> Iterator[str]:
    """A NATS server; its address."""
    program, port = found("nats-server"), port or free_port()
    folder.mkdir(parents=True, exist_ok=True)
    more = ["-js", "-sd", folder] if jetstream else []
    with _running([program, *more, "-a", "127.0.0.1", "-p", str(port)], port, folder):
        yield f"nats://127.0.0.1:{port}"


class Nats(LocalNats):
    """A NATS server that can be killed; the test is skipped where there is none."""

    def start(self) -> None:
        found("nats-server")
        super().start()


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """SeaweedFS, which speaks S3 and has put-if-absent; its endpoint. See `bucket_url`."""
    program, port = found("weed"), free_port()
    folder.mkdir(parents=True, exist_ok=True)
    keys = {"accessKey": "godwit", "secretKey": "godwit-secret"}
    who = {"name": "godwit", "credentials": [keys], "actions": ["Admin", "Read", "Write", "List"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [who]}))
    ports = {name: free_port() for name in ("master", "volume", "filer")}
    grpc = {f"{name}.port.grpc": free_port() for name in ("master", "volume", "filer", "s3")}
    told: dict[str, Any] = {f"{name}.port": at for name, at in ports.items()} | grpc
    told |= {"s3.port": port, "s3.config": folder / "s3.json"}
    more = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", "-master.telemetry=false", "-volume.max=8"]
    more += ["-master.volumeSizeLimitMB=64", "-master.volumePreallocate=false", f"-dir={folder}"]
    command = [program, "server", *more, *(f"-{k}={v}" for k, v in told.items())]
    with _running(command, port, folder, ends=1, cwd=folder):
        endpoint = f"http://127.0.0.1:{port}"
        until(lambda: _takes(bucket_url(endpoint, "ready")))
        yield endpoint


def bucket_url(endpoint: str, fleet: str) -> str:
    keys = "access_key_id=godwit&secret_access_key=godwit-secret&region=us-east-1"
    return f"s3://godwit-tests/{fleet}?endpoint={endpoint}&{keys}"


def _takes(url: str) -> bool:
    from godwit.storage.bucket import Bucket

    try:
        Bucket(url).put("ready", b"")
    except Exception:
        return False
    return True


@contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """A PostgreSQL server; how to connect to it. It refuses to run as root: then as `nobody`."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1:]
    initdb = found("initdb", *map(str, programs))
    folder, port = _for_nobody(folder), free_port()
    who: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        made = subprocess.run(
            [initdb, "-D", folder / "data", "-U", "godwit", "-A", "trust", "-N", "--locale=C", "-E", "UTF8"],
            capture_output=True, text=True, check=False, cwd=folder, **who,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        program = Path(initdb).parent / "postgres"
        command = [program, "-D", folder / "data", "-h", "127.0.0.1", "-p", str(port), "-k", folder, "-F"]
        with _running(command, port, folder, cwd=folder, **who):
            dsn = f"host=127.0.0.1 port={port} user=godwit dbname=postgres"
            psycopg = pytest.importorskip("psycopg")
            until(lambda: _connects(psycopg, dsn))
            yield dsn
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _connects(psycopg: Any, dsn: str) -> bool:
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True


def _for_nobody(folder: Path) -> Path:
    """A folder that somebody else may work in: pytest's own are closed to others."""
    import tempfile

    made = Path(tempfile.mkdtemp(prefix="godwit-pg-"))
    if os.geteuid() == 0:
        shutil.chown(made, "nobody", "nogroup")
    return made


@contextmanager
def kafka(folder: Path) -> Iterator[str]:
    """A Kafka broker (KRaft, one node); its address. Its jars come by Ivy, which is part of Spark, once."""
    jars, port, control = package_jars("org.apache.kafka", "kafka_2.13", KAFKA), free_port(), free_port()
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{control}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": folder / "logs",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "num.partitions": "1",
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    java = [found("java"), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
    formatted = subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "-t", "godwitgodwitgodwitgodg", "-c", str(file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert formatted.returncode == 0, formatted.stdout + formatted.stderr
    with _running([*java, "kafka.Kafka", file], port, folder, 60):
        yield f"127.0.0.1:{port}"


def package_jars(organisation: str, name: str, version: str, *, alone: bool = False) -> Path:
    try:
        return packages.package_jars(organisation, name, version, alone=alone)
    except ConfigError as missing:
        pytest.skip(str(missing))
