"""Where things are in a store: every name is made, and read back, here and nowhere else.

control/0000000001.log                           epochs, from the first one on
snapshots/0000000500.json                        whole deployments
commands/0000000012.json                         commands of any process: a file each
regions/west/sources/passengers/0000000001.log   entries of a source; many rows in data/
regions/west/shapes/ab12/commits/0000000001.log  commits of a shape; many rows in data/0000000001/
regions/west/shapes/ab12/outbox/east/0000000001.log  messages of a shape to another region
regions/west/shapes/ab12/kept/0000000001.log     results of commits whose records are gone
sinks/occupancy/1f3a0c5d7e91.json                how far a sink has come
reports/west/0000000001.log                      what the process of a region tells the coordinator
processes/coordinator.json                       who runs, where it listens: the coordinator, and
processes/regions/west.json                      the process of each region
processes/regions/west/followed.json             the epoch that a region has followed
processes/domains/west                           where a region's logs lie, if a server keeps them (`nats_domains.py`)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from godwit.ids import RegionId, StreamId
from godwit.storage.base import Disk

CONTROL, SNAPSHOTS, REGIONS, SINKS = "control", "snapshots", "regions", "sinks"
STANDINGS, COMMANDS, ANSWERS = "snapshots/standing", "commands", "answers"
ALIASES, VERSIONS, RELAYS, DEAD_LETTERS = "aliases", "versions", "ways", "dead_letters"
UNKNOWN_COLUMNS = "unknown_columns"
HISTORY = "history.jsonl"
#: what region processes tell the coordinator; who runs
REPORTS, PROCESSES = "reports", "processes"
#: which JetStream domain a region's logs lie in
DOMAINS = f"{PROCESSES}/domains"
#: shapes whose folders are being removed: one that is named here is removed before anything else happens to it
REMOVING = "removing"

#: logs that several processes write: a file for each record, so that the file system decides who has a number. All
#: others have one writer, and many records per file
SHARED = frozenset({COMMANDS})

#: the file that says that there is a folder, or a log that a server keeps
MARK = ".folder"

#: (region, shape)
Key = tuple[RegionId, str]


def number(value: int) -> str:
    """A number as names have it: their order is that of the numbers."""
    return f"{value:010d}"


def number_of(name: str) -> int | None:
    """The number that a name is; None: it is none of ours."""
    return int(name) if len(name) == 10 and name.isascii() and name.isdigit() else None


def chunk_first(name: str) -> int | None:
    """The number of a chunk file's first record; None: it is none of ours."""
    return number_of(name.removesuffix(".log")) if name.endswith(".log") else None


#: what a region writes, and nobody else does
_OWNED = re.compile(
    r"(?:(?:large/)?(?:regions|reports|landing)|leases/processes/regions)/([^/]+)(?:/.*)?|processes/regions/([^/]+)/.*",
    re.DOTALL,
)
#: folders whose next part is the name of a region that may keep it elsewhere
_BY_REGION = ("regions/", "reports/", "landing/", "leases/processes/regions/", "large/regions/", "large/reports/")


def owner_of(name: str) -> str | None:
    """The region that writes a log, document or file; None: the coordinator, or clients."""
    found = _OWNED.fullmatch(name)
    return None if found is None else found[1] or found[2]


def has_many_owners(folder: str) -> bool:
    """Whether names of several regions lie in or below a folder."""
    return not folder or any(one.startswith(f"{folder}/") for one in _BY_REGION)


def is_domain(name: str) -> bool:
    """Whether it can be a part of subjects and names of streams."""
    return re.fullmatch(r"[A-Za-z0-9_-]{1,32}", name) is not None


def report_log(region: str) -> str:
    """What a region's process tells the coordinator."""
    return f"{REPORTS}/{region}"


def plan_lines(region: str) -> str:
    """Where versions of queries part in the region's source logs, if its process has drawn the line."""
    return f"regions/{region}/plan_lines"


def source_log(region: str, stream: str) -> str:
    return f"regions/{region}/sources/{stream}"


def commit_log(region: str, shape: str) -> str:
    return f"regions/{region}/shapes/{shape}/commits"


def kept_log(region: str, shape: str) -> str:
    return f"regions/{region}/shapes/{shape}/kept"


def commit_data(region: str, shape: str) -> str:
    return f"regions/{region}/shapes/{shape}/data"


def outbox_log(region: str, shape: str, receiver: str) -> str:
    """What a region has for another one."""
    return f"regions/{region}/shapes/{shape}/outbox/{receiver}"


def sent_in(log: str) -> tuple[RegionId, str, RegionId] | None:
    """(sender, shape, receiver) of a log of messages; None: it is another one."""
    found = re.fullmatch(r"regions/([^/]+)/shapes/([^/]+)/outbox/([^/]+)", log)
    return None if found is None else (RegionId(found[1]), found[2], RegionId(found[3]))


def receivers(disk: Disk, region: str, shape: str) -> list[RegionId]:
    """The regions that a region has ever had a message for."""
    return sorted(RegionId(name) for name in disk.names(f"regions/{region}/shapes/{shape}/outbox"))


def legacy(query: str) -> str:
    """The folder of the state that a version of a query leaves to the next; a document an operator."""
    return f"plans/{query}"


def sink_position(query: str, digest: str) -> str:
    return f"{SINKS}/{query}/{digest}"


def sink_positions(disk: Disk) -> Iterator[str]:
    """The documents that say how far sinks have come."""
    for query in sorted(disk.names(SINKS)):
        for file in sorted(disk.names(f"{SINKS}/{query}")):
            if re.fullmatch(r"[0-9a-f]{12}\.json", file):
                yield sink_position(query, file.removesuffix(".json"))


def regions(disk: Disk) -> list[RegionId]:
    return sorted(RegionId(name) for name in disk.names(REGIONS))


def regions_of(disk: Disk, shape: str) -> list[RegionId]:
    """The regions that run, or ever ran, a shape."""
    return [region for region in regions(disk) if disk.is_folder(commit_log(region, shape))]


def shape_folder(region: str, shape: str) -> str:
    return f"regions/{region}/shapes/{shape}"


def shapes(disk: Disk) -> Iterator[Key]:
    """Every (region, shape) that ever ran."""
    for region in regions(disk):
        for shape in shapes_of(disk, region):
            yield region, shape


def shapes_of(disk: Disk, region: str) -> Iterator[str]:
    for shape in sorted(disk.names(f"regions/{region}/shapes")):
        if disk.is_folder(commit_log(region, shape)):
            yield shape


def sources(disk: Disk) -> Iterator[tuple[RegionId, StreamId]]:
    """Every source log: its region and stream."""
    for region in regions(disk):
        for stream in streams_of(disk, region):
            yield region, stream


def streams_of(disk: Disk, region: str) -> Iterator[StreamId]:
    folder = f"regions/{region}/sources"
    for stream in sorted(disk.names(folder)):
        # (a file that somebody left there is no log)
        there = disk.names(f"{folder}/{stream}")
        if any(chunk_first(name) is not None for name in there) or disk.exists(f"{folder}/{stream}/{MARK}"):
            yield StreamId(stream)
