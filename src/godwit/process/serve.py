"""The main functions of the two kinds of processes: start, say so, run until SIGTERM, stop cleanly."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import signal
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from godwit.engine.collector import search_seldom
from godwit.ids import RegionId
from godwit.process.fleet_document import fleet_options
from godwit.process.members import COORDINATOR, Membership, region_document
from godwit.process.wire import Listener, advertised, listening, token_of
from godwit.storage.open_store import open_store
from godwit.storage.store import Store

log = logging.getLogger(__name__)

#: Spark refuses heaps below one and a half times of what it sets aside for itself (300 MB)
SMALL = {"spark.testing.reservedMemory": str(100_000_000)}


def wait_for_signal() -> None:
    """Until SIGTERM or SIGINT. SIGUSR1 writes what every thread is doing into the log."""
    faulthandler.register(signal.SIGUSR1)
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    while not over.wait(0.5):
        pass


def joined(store: Store, name: str) -> Membership:
    """Before anything heavy is imported or started: whoever has the name already is told at once."""
    member = Membership(store, name)
    member.join()
    return member


def serve_coordinator(
    url: str,
    options: Mapping[str, Any],
    host: str,
    lease: float,
    port: int = 0,
    extras: Mapping[str, Any] = MappingProxyType({}),
    advertise: str = "",
) -> None:
    """`options`: as `FleetOptions` has them; `extras`: as `CoordinatorExtras` has them."""
    search_seldom()
    token = token_of(os.environ)
    _checked_address(host, port, advertise)
    store = open_store(url)
    member = joined(store, COORDINATOR)
    from godwit.api.core import FleetOptions
    from godwit.process.coordinator_agent import CoordinatorAgent, CoordinatorExtras

    agent = CoordinatorAgent(
        store, token, FleetOptions(**options), member, lease=lease, extras=CoordinatorExtras(**extras)
    )
    listener = Listener(agent.handle, token, "coordinator", host, port)
    with contextlib.ExitStack() as ending:
        ending.callback(agent.stop)
        ending.callback(listener.stop)
        agent.serve(advertised(advertise, listener.address))
        listener.start()
        log.warning("the coordinator of %s listens at %s (pid %s)", store.disk.root, listener.address, os.getpid())
        wait_for_signal()
        store.part()
    log.warning("the coordinator has stopped")


def _checked_address(host: str, port: int, advertise: str) -> None:
    """What is written wrong is said before anything heavy is started, and before the name is taken."""
    with listening(host, port):
        advertised(advertise, f"{host}:{port}")


def _end_spark(spark: Any) -> None:
    """Java may have ended already: a terminal, and systemd unless told otherwise, signal the whole group."""
    try:
        spark.stop()
    except Exception as fault:
        log.info("Java has ended before this process: %s", fault)


def _reachable(master: str, host: str) -> dict[str, str]:
    """Executors on other machines must reach the driver where this process listens."""
    return {} if master.startswith("local") else {"spark.driver.host": host, "spark.driver.bindAddress": host}


def serve_region(
    url: str,
    region: str,
    host: str,
    master: str,
    memory: str,
    keep: bool,
    quick: bool,
    port: int,
    advertise: str,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """`advertise`: the address that others are told, where they reach this one by another than its own; `settings`:
    more of Spark's, for a cluster."""
    token, name = token_of(os.environ), RegionId(region)
    _checked_address(host, port, advertise)
    store = open_store(url)
    fleet_options(store)
    if store.served is not None:
        store.served.claim(name)
    member = joined(store, region_document(name))
    from godwit.engine.session import spark_session
    from godwit.maintenance.housekeeping import Retention
    from godwit.process.region_agent import RegionAgent, RegionOptions
    from godwit.process.region_process import RegionService

    options = RegionOptions(retention=Retention(keep=keep))
    spark = spark_session(
        f"godwit-{region}",
        memory=memory,
        quick=quick,
        master=master,
        settings={**SMALL, **_reachable(master, host), **settings},
    )
    agent = RegionAgent(store, name, spark, token, options, member)
    listener = Listener(RegionService(agent).handle, token, region, host, port)
    with contextlib.ExitStack() as ending:
        ending.callback(_end_spark, spark)
        ending.callback(agent.stop)
        ending.callback(listener.stop)
        agent.start(advertised(advertise, listener.address))
        listener.start()  # who calls before the agent stands where its predecessor stood waits in the queue
        log.warning("region %s of %s listens at %s (pid %s)", region, store.disk.root, listener.address, os.getpid())
        wait_for_signal()
        store.part()
    log.warning("region %s has stopped", region)
