"""The main functions of the two kinds of processes: start, say so, run until SIGTERM, stop cleanly."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from pathlib import Path

from godwit.api.core import FleetOptions
from godwit.ids import RegionId
from godwit.process.coordinator_agent import CoordinatorAgent
from godwit.process.fleet_document import fleet_options
from godwit.process.members import Membership, region_document
from godwit.process.wire import Listener, token_of
from godwit.storage.store import Store

log = logging.getLogger(__name__)

#: Spark refuses heaps below one and a half times of what it sets aside for itself (300 MB)
SMALL = {"spark.testing.reservedMemory": str(100_000_000)}


def wait_for_signal() -> None:
    """Until SIGTERM or SIGINT."""
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    while not over.wait(0.5):
        pass


def serve_coordinator(root: Path, options: FleetOptions, host: str, lease: float, port: int = 0) -> None:
    token = token_of(os.environ)
    agent = CoordinatorAgent(root, token, options, lease=lease)
    listener = Listener(agent.handle, token, "coordinator", host, port)
    with contextlib.ExitStack() as ending:
        ending.callback(agent.stop)
        ending.callback(listener.stop)
        listener.start()
        agent.serve(listener.address)
        log.warning("the coordinator of %s listens at %s (pid %s)", root, listener.address, os.getpid())
        wait_for_signal()
    log.warning("the coordinator has stopped")


def serve_region(
    root: Path, region: str, host: str, master: str, memory: str, keep: bool, quick: bool, port: int = 0
) -> None:
    from godwit.engine.session import spark_session
    from godwit.maintenance.housekeeping import Retention
    from godwit.process.region_agent import RegionAgent, RegionOptions
    from godwit.process.region_process import RegionService

    token = token_of(os.environ)
    options, name = RegionOptions(retention=Retention(keep=keep)), RegionId(region)
    store = Store.local(root, options.durability)
    fleet_options(store)
    member = Membership(store, region_document(name), root)
    member.join()  # before Spark is started: whoever has the name already is told at once
    spark = spark_session(f"godwit-{region}", memory=memory, quick=quick, master=master, settings=SMALL)
    agent = RegionAgent(store, name, spark, token, options, member)
    listener = Listener(RegionService(agent).handle, token, region, host, port)
    with contextlib.ExitStack() as ending:
        ending.callback(spark.stop)
        ending.callback(agent.stop)
        ending.callback(listener.stop)
        listener.start()
        agent.start(listener.address)
        log.warning("region %s of %s listens at %s (pid %s)", region, root, listener.address, os.getpid())
        wait_for_signal()
    log.warning("region %s has stopped", region)
