"""A standalone cluster of Spark on loopback, from the classes that the wheel of PySpark brings: a master, workers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil

from godwit.engine.java import find_java_home
from godwit.errors import ConfigError
from godwit.testing.broker import free_port
from godwit.testing.packages import spark_home

STARTS_WITHIN = 60.0


class Cluster:
    def __init__(self, folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        self._folder, self._cores, self._memory = folder, cores, memory
        self.work = folder / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"spark://127.0.0.1:{self.port}"
        self._started, self.workers = list[subprocess.Popen[bytes]](), list[subprocess.Popen[bytes]]()
        self._home, page = spark_home(), str(free_port())
        self._start("master.Master", "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", page)
        self._await_master()
        self.workers = [self.start_worker() for _ in range(workers)]

    def start_worker(self) -> subprocess.Popen[bytes]:
        more = ["--cores", str(self._cores), "--memory", self._memory, "--work-dir", str(self.work)]
        return self._start("worker.Worker", "--host", "127.0.0.1", "--webui-port", str(free_port()), *more, self.url)

    def _await_master(self) -> None:
        end = time.monotonic() + STARTS_WITHIN
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        self.stop()
        msg = f"Spark's master has not started: {(self._folder / 'cluster.log').read_text()[-2000:]}"
        raise ConfigError(msg)

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ, "SPARK_HOME": str(self._home), "JAVA_HOME": str(find_java_home()),
            "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1",
        }  # fmt: skip
        with (self._folder / "cluster.log").open("ab") as out:
            made = subprocess.Popen(
                [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
                stdout=out, stderr=out, env=environment,
            )  # fmt: skip
        self._started.append(made)
        return made

    def executors(self) -> list[psutil.Process]:
        """The executors' processes: children of the workers."""
        found = []
        for worker in self.workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                children = psutil.Process(worker.pid).children(recursive=True)
                found += [one for one in children if "CoarseGrainedExecutorBackend" in " ".join(one.cmdline())]
        return found

    def tasks(self) -> int:
        """How many tasks executors have run, as their logs say."""
        return sum(log.read_text(errors="replace").count("Running task") for log in self.work.rglob("stderr"))

    def stop(self) -> None:
        for child in self.executors():
            with contextlib.suppress(psutil.NoSuchProcess):
                child.send_signal(signal.SIGKILL)
        for one in reversed(self._started):
            one.terminate()
        end = time.monotonic() + 10
        for one in self._started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.wait(max(end - time.monotonic(), 0.1))
            one.kill()
            one.wait()
