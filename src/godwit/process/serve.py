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
from typing import Any, cast

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


#: Java that has no memory left goes on without some of its threads, and whoever asked them waits for ever
FATAL_WITHOUT_MEMORY = {"spark.driver.defaultJavaOptions": "-XX:+ExitOnOutOfMemoryError"}


def wait_for_signal(over: threading.Event | None = None) -> None:
    """Until SIGTERM or SIGINT, which set `over`. SIGUSR1 writes what every thread is doing into the log."""
    faulthandler.register(signal.SIGUSR1)
    over = over or threading.Event()
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


def _deaf_to_sigterm() -> None:
    """In a child that was just forked: what is ignored there stays ignored in what it executes."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _end_with_java(java: Any, region: str, over: threading.Event) -> None:
    """Wait for it; nothing goes on without it. All that counts is durable, so this process ends as if it had been
    killed, and whoever starts processes again sees that it has."""
    code = java.wait()
    if not over.is_set():
        log.critical(
            "region %s ends: its Java has ended (exit code %s; 3: no memory left, -9: killed, perhaps by the system "
            "for want of memory); start it again, with --memory if it needs more",
            region,
            code,
        )
        os._exit(1)


def _end_spark(spark: Any) -> None:
    """Java may have ended in the meantime."""
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

    # A terminal, and systemd unless told otherwise, signal the whole group. Java ends when this process does:
    # micro-batches that are under way need it until then.
    os.register_at_fork(after_in_child=_deaf_to_sigterm)
    options = RegionOptions(retention=Retention(keep=keep))
    spark = spark_session(
        f"godwit-{region}",
        memory=memory,
        quick=quick,
        master=master,
        settings={**SMALL, **FATAL_WITHOUT_MEMORY, **_reachable(master, host), **settings},
    )
    over = threading.Event()
    java = cast("Any", spark.sparkContext)._gateway.proc
    threading.Thread(target=_end_with_java, args=(java, region, over), name="java", daemon=True).start()
    agent = RegionAgent(store, name, spark, token, options, member)
    listener = Listener(RegionService(agent).handle, token, region, host, port)
    with contextlib.ExitStack() as ending:
        ending.callback(_end_spark, spark)
        ending.callback(agent.stop)
        ending.callback(listener.stop)
        agent.start(advertised(advertise, listener.address))
        listener.start()  # who calls before the agent stands where its predecessor stood waits in the queue
        log.warning("region %s of %s listens at %s (pid %s)", region, store.disk.root, listener.address, os.getpid())
        wait_for_signal(over)
        store.part()
    log.warning("region %s has stopped", region)
