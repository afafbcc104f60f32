"""A store by its URL: what the processes of a fleet share.

/data/fleet, file:/data/fleet                    a folder that all see
s3://bucket/fleet?endpoint=http://host:8333      a bucket: S3, GCS (gs://), Azure (az://); see `bucket.py`
nats://host:4222/fleet                           NATS JetStream: logs in streams, state in its object store
nats://host:4222/fleet?segments=s3://bucket/f    logs in streams; documents and segments at another URL
nats://leaf:4222/fleet?domain=edge-west&hub=hub  a leaf node: what this region writes stays there (`nats_domains.py`)
nats://leaf:4222/fleet?hub=hub                   the same for a client, which writes nothing of its own
kafka://host:9092/fleet?segments=file:/data/f    logs in topics; documents and segments at another URL
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

from godwit import names as given
from godwit.errors import ConfigError, StateError
from godwit.storage import names
from godwit.storage.base import Disk, Durability
from godwit.storage.bucket import SCHEMES, Bucket
from godwit.storage.kafka_cluster import KafkaCluster
from godwit.storage.kafka_log import KafkaLogs
from godwit.storage.lease import Lease, lease_holder
from godwit.storage.local import LocalDisk
from godwit.storage.lock import FolderLock, holder, no_other
from godwit.storage.nats_domains import NatsDomains, domain_name
from godwit.storage.nats_log import NatsLogs
from godwit.storage.nats_objects import NatsObjects
from godwit.storage.nats_server import NatsServer
from godwit.storage.object_disk import ObjectDisk
from godwit.storage.object_log import ObjectLogs
from godwit.storage.store import Store
from godwit.storage.urls import shown

#: what may stand behind the ? of a broker's URL
OPTIONS = {"nats": ("domain", "hub", "segments"), "kafka": ("segments", "replication")}
OPTIONS["tls"] = OPTIONS["nats"]
BROKERS = ("nats", "tls", "kafka")


def is_folder(url: str | Path) -> bool:
    """Whether a store is a folder, as opposed to what a server keeps."""
    return isinstance(url, Path) or urlparse(url).scheme in ("", "file")


def folder_of(url: str | Path) -> Path:
    """The folder that `file:` names, or a plain path."""
    if isinstance(url, Path):
        return url.resolve()
    parts = urlparse(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(parts.path).resolve()
    if not parts.scheme:
        return Path(url).resolve()
    msg = f"store '{shown(url)}' is no folder; give file:/path, or a path"
    raise ConfigError(msg)


def open_store(url: str | Path, durability: Durability = "process", *, alone: bool = False) -> Store:
    """ConfigError names what can be given."""
    if is_folder(url):
        return Store.local(folder_of(url), durability, alone=alone)
    scheme = urlparse(str(url)).scheme
    if scheme in SCHEMES:
        bucket = Bucket(str(url))
        return Store(ObjectDisk(bucket), served=ObjectLogs(bucket), objects=bucket)
    if scheme in BROKERS:
        return (_of_kafka if scheme == "kafka" else _of_nats)(str(url))
    raise _unknown(str(url))


def check_url(url: str) -> None:
    """ConfigError if there is no such kind of store, or if a broker's URL cannot be used as it is written."""
    scheme = urlparse(url).scheme
    if scheme in BROKERS:
        _fleet(url)
        _options(url)
    elif not is_folder(url) and scheme not in SCHEMES:
        raise _unknown(url)


def is_same_fleet(one: str, other: str) -> bool:
    """Whether two URLs may lead to one fleet: by different NATS servers, or because they are the same."""
    parts = [urlparse(url) for url in (one, other)]
    by_nats = all(part.scheme in ("nats", "tls") for part in parts)
    return one == other or (by_nats and parts[0].path.strip("/") == parts[1].path.strip("/"))


def _unknown(url: str) -> ConfigError:
    known = ", ".join(f"{one}:" for one in ("file", *SCHEMES, *BROKERS))
    return ConfigError(f"store '{shown(url)}': there is no '{urlparse(url).scheme}:'; give a path or one of {known}")


def _options(url: str) -> dict[str, list[str]]:
    """Of a broker's URL. One that is misspelt would put a region's logs elsewhere without a word."""
    parts = urlparse(url)
    told, known = parse_qs(parts.query, keep_blank_values=True), OPTIONS[parts.scheme]
    for key in told:
        if key not in known:
            msg = f"store '{shown(url)}': there is no option '{key}'; {given.hint(key, known)}"
            raise ConfigError(msg)
    for apart in told.get("segments", ()):
        if not is_folder(apart) and urlparse(apart).scheme not in SCHEMES:
            kinds = ", ".join(f"{one}:" for one in ("file", *SCHEMES))
            msg = f"store '{shown(url)}': segments={apart!r} cannot be used; give a path or one of {kinds}"
            raise ConfigError(msg)
    return told


def _of_nats(url: str) -> Store:
    parts = urlparse(url)
    options = _options(url)
    domain, apart = domain_name(url, options, "domain"), options.get("segments")
    hub = domain_name(url, options, "hub") or ("hub" if domain else None)
    if hub and (apart or domain == hub):
        what = "segments=... cannot be combined with domain= or hub=" if apart else f"domain={domain} is the hub's"
        remedy = "a region with a domain of its own keeps everything there: ?domain=NAME&hub=hub"
        msg = f"store '{shown(url)}': {what}; {remedy}"
        raise ConfigError(msg)
    server = NatsServer(f"{parts.scheme}://{parts.netloc}", _fleet(url), domain=domain, hub=hub)
    try:
        domains = NatsDomains(server, segments_apart=apart is not None)
    except Exception:
        server.close()
        raise
    objects = NatsObjects(server, domains)
    disk = _disk(apart[-1]) if apart else ObjectDisk(objects)
    return Store(disk, served=NatsLogs(server, disk, domains), objects=objects)


def _of_kafka(url: str) -> Store:
    parts, told, fleet = urlparse(url), _options(url), _fleet(url)
    if "segments" not in told:
        msg = f"store '{shown(url)}': Kafka keeps logs only; say where the rest goes, as in ?segments=file:/data/fleet"
        raise ConfigError(msg)
    copies = told.get("replication", ["-1"])[-1]
    if copies != "-1" and not re.fullmatch(r"[1-9]\d{0,2}", copies):
        msg = f"store '{shown(url)}': replication={copies!r} is no number of copies; write replication=3"
        raise ConfigError(msg)
    disk = _disk(told["segments"][-1])
    cluster = KafkaCluster(parts.netloc, fleet, int(copies))
    return Store(disk, served=KafkaLogs(cluster, disk), objects=disk.objects if isinstance(disk, ObjectDisk) else None)


def _fleet(url: str) -> str:
    """The fleet that the path of a broker's URL names."""
    parts = urlparse(url)
    name = parts.path.strip("/")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", name):
        host = parts.netloc.rpartition("@")[2]
        msg = f"store '{shown(url)}': name the fleet, as in {parts.scheme}://{host}/my-fleet (letters, digits, - and _)"
        raise ConfigError(msg)
    return name


def _disk(url: str) -> Disk:
    return LocalDisk(folder_of(url)) if is_folder(url) else ObjectDisk(Bucket(url))


# --- who has a name in a store


def lock_of(store: Store, name: str) -> FolderLock | Lease:
    """`name`: empty for the whole of it."""
    if store.objects is not None:
        return Lease(store.objects, name or "fleet")
    return FolderLock(f"{store.disk.root}/{name}" if name else store.disk.root)


def holder_of(store: Store, name: str) -> dict[str, Any] | None:
    """Who has a name now: pid, host, since; None: nobody."""
    if store.objects is not None:
        return lease_holder(store.objects, name or "fleet")
    return holder(f"{store.disk.root}/{name}")


def no_processes(store: Store) -> None:
    """StateError if processes of a fleet work in a store."""
    if store.objects is None:
        no_other(Path(store.disk.root) / names.PROCESSES)
        return
    known = [f"{names.PROCESSES}/coordinator"]
    known += [f"{names.PROCESSES}/regions/{one}" for one in store.objects.names(f"leases/{names.PROCESSES}/regions")]
    for name in known:
        if (who := lease_holder(store.objects, name)) is not None:
            msg = (
                f"{store.where(name)} is in use by process {who.get('pid', '?')}; stop the fleet first (`godwit down`)"
            )
            raise StateError(msg)
