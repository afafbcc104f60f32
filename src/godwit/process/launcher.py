"""Starts, lists and stops the processes of a fleet on one machine; what each writes is a file in `run/`.

run/token                 for clients of the same user (mode 600)
run/coordinator.log       run/edge-west.log ...
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from godwit.errors import ConfigError, DeploymentError, StoreAwayError
from godwit.process.connect import TOKEN_FILE
from godwit.process.fleet_file import FleetFile, RegionSpec
from godwit.process.members import COORDINATOR, ProcessMember, member, region_document, region_members
from godwit.process.proxy import Proxy
from godwit.process.shifted_clock import sitecustomize as clock
from godwit.process.wire import TOKEN
from godwit.storage.lease import born
from godwit.storage.open_store import holder_of, open_store

#: how long a process may take to start, or to stop (seconds)
STARTS_WITHIN, STOPS_WITHIN = 180.0, 60.0


@dataclass(frozen=True)
class Running:
    """A process as `godwit ps` shows it."""

    name: str
    member: ProcessMember
    alive: bool
    #: resident, with its Java
    megabytes: float


class Launcher:
    """The processes of one fleet file."""

    def __init__(self, spec: FleetFile, proxied: bool = False, clocks: bool = False, token: str = "") -> None:
        """`token`: the fleet's, if it is known. For tests: `proxied`: others reach regions through proxies that can cut
        the links; `clocks`: the processes' wall clocks can be set."""
        self.spec, self._clocks, self._token = spec, clocks, token
        self.proxies = {region.name: Proxy() for region in spec.regions} if proxied else {}
        self.store = open_store(spec.store)
        self._run = spec.run
        #: by this launcher
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    # --- starting

    def up(self) -> None:
        """Start what does not run; returns when all of it has joined."""
        self.start_coordinator()
        for region in self.spec.regions:
            self.start_region(region)
        self.joined()

    def start_coordinator(self) -> None:
        spec = self.spec
        more = ["--rule", spec.rule, "--state", spec.state, "--lease", f"{spec.lease:g}", *spec.coordinator]
        self._start("coordinator", COORDINATOR, ["coordinator", "--store", str(spec.store), "--host", spec.host, *more])
        self._await(COORDINATOR, "coordinator")

    def start_region(self, region: RegionSpec) -> None:
        more = ["--store", region.store or str(self.spec.store), "--host", self.spec.host]
        if (proxy := self.proxies.get(region.name)) is not None:
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            proxy.target = f"127.0.0.1:{port}"
            more += ["--port", str(port), "--advertise", proxy.address]
        self._start(region.name, region_document(region.name), ["region", *region.options, *more])

    def joined(self) -> None:
        """Wait until every region's process is there."""
        for region in self.spec.regions:
            self._await(region_document(region.name), region.name)

    def token(self) -> str:
        """The fleet's token: from the environment, or made once."""
        if self._token or os.environ.get(TOKEN):
            return self._token or os.environ[TOKEN]
        file = self._run / TOKEN_FILE
        if not file.exists():
            self._run.mkdir(parents=True, exist_ok=True)
            with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as made:
                made.write(secrets.token_hex(32))
        return file.read_text().strip()

    def _start(self, name: str, document: str, arguments: list[str]) -> None:
        if self._holder(document) is not None:
            return
        self._run.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, TOKEN: self.token(), **self._faked(name)}
        with (self._run / f"{name}.log").open("ab") as out:
            self._started[name] = subprocess.Popen(
                [sys.executable, "-m", "godwit", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=environment,
                start_new_session=True,
            )

    def _faked(self, name: str) -> dict[str, str]:
        if not self._clocks:
            return {}
        self.jump(name, 0.0)
        path = os.pathsep.join([str(Path(clock.__file__).parent), os.environ.get("PYTHONPATH", "")])
        return {"PYTHONPATH": path, clock.FILE: str(self._run / f"{name}.clock")}

    def jump(self, name: str, by: float) -> None:
        """Set the wall clock of a process off by a number of seconds; others do not notice."""
        assert self._clocks, "these processes have clocks that cannot be set"
        draft = self._run / f"{name}.clock.new"
        draft.write_text(str(by))
        draft.rename(self._run / f"{name}.clock")

    def _await(self, document: str, name: str) -> None:
        """Until it says that it is alive, under the lock that it holds."""
        until = time.monotonic() + STARTS_WITHIN
        while time.monotonic() < until and (name not in self._started or self._started[name].poll() is None):
            who, told = self._holder(document), member(self.store, document)
            if who is not None and told is not None and told.pid == who and not told.left:
                return
            time.sleep(0.05)
        last = "\n".join((self._run / f"{name}.log").read_text(errors="replace").splitlines()[-5:])
        msg = f"{name} has not started; {self._run / name}.log ends with:\n{last}"
        raise DeploymentError(msg)

    # --- looking and stopping

    def running(self) -> list[Running]:
        told = {"coordinator": member(self.store, COORDINATOR)}
        told |= {str(region): one for region, one in region_members(self.store).items()}
        return [
            Running(name, one, self._holder(_document(name)) == one.pid, _megabytes(one.pid))
            for name, one in told.items()
            if one is not None
        ]

    def pid(self, name: str) -> int | None:
        """Of the process that runs under a name now."""
        return self._holder(_document(name))

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a process of this fleet, by its id."""
        pid = self.pid(name)
        if pid is None:
            msg = f"{name} does not run"
            raise ConfigError(msg)
        os.kill(pid, number)

    def down(self) -> None:
        """Stop all of it cleanly, the regions first."""
        names = [region.name for region in self.spec.regions]
        names += [str(region) for region in region_members(self.store) if region not in names]
        for group in (names, ["coordinator"]):
            for name in group:
                with contextlib.suppress(ConfigError, ProcessLookupError):
                    self.signal(name, signal.SIGTERM)
            for name in group:
                self._end_starting(name)
                self.gone(name)

    def _end_starting(self, name: str) -> None:
        """One that this launcher has started, and that has not come as far as its lock."""
        started = self._started.get(name)
        if started is not None and started.poll() is None and self.pid(name) is None:
            started.terminate()
            started.wait(STOPS_WITHIN)

    def gone(self, name: str) -> None:
        """Wait until nobody runs under a name."""
        until = time.monotonic() + STOPS_WITHIN
        while (pid := self.pid(name)) is not None:
            if time.monotonic() > until:
                msg = f"{name} (process {pid}) has not stopped within {STOPS_WITHIN:g} s; see {self._run / name}.log"
                raise DeploymentError(msg)
            time.sleep(0.05)

    def _holder(self, document: str) -> int | None:
        try:
            return self._lock_holder(document)
        except StoreAwayError:  # (the lease lies in a domain that is cut off, and the process on this machine)
            known = member(self.store, document)
            alive = known is not None and not known.left and bool(born(known.pid))  # (one that has ended may remain)
            return known.pid if known is not None and alive else None

    def _lock_holder(self, document: str) -> int | None:
        found = holder_of(self.store, document)
        while found is not None and "pid" not in found:  # it has the lock, and has not written its name yet
            time.sleep(0.01)
            found = holder_of(self.store, document)
        return None if found is None else int(found["pid"])


def _document(name: str) -> str:
    return COORDINATOR if name == "coordinator" else region_document(name)


def _megabytes(pid: int) -> float:
    """Resident memory of a process and its children (Java)."""
    total, parents = 0.0, {pid}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = entry.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    while parents:
        one = parents.pop()
        parents.update(children.get(one, ()))
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return total
