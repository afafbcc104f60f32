"""`fleet.yaml`: the processes of a fleet on one machine.

store: file:/data/fleet          # or a path, relative to this file; or nats://..., s3://... (`storage/open_store.py`)
run: run                         # logs of the processes and the token; STORE/run if the store is a folder
lease: 5                         # seconds of silence after which a region counts as lost
topology: ring.yaml              # added when the fleet is started for the first time
regions:
  edge-west: {}
  edge-east: {memory: 512m}
  cloud: {master: "local[2]", memory: 1g}
  far: {store: "nats://leaf:4222/my-fleet?domain=far&hub=hub"}     # of a fleet in NATS: its logs stay at its leaf node
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from godwit import names
from godwit.engine.java import check_heap
from godwit.errors import ConfigError
from godwit.migration.base import STRATEGIES
from godwit.placement.rules.base import RULES
from godwit.storage.open_store import check_url, folder_of, is_folder, is_same_fleet
from godwit.storage.urls import shown
from godwit.yaml_files import read_yaml

_KEYS = ("store", "run", "host", "lease", "rule", "state", "topology", "regions")
_OF_REGION = ("master", "memory", "keep", "quick", "conf", "store")


@dataclass(frozen=True)
class RegionSpec:
    """How the process of a region is started."""

    name: str
    master: str = "local[2]"
    memory: str = "384m"
    #: keep sources and results for ever
    keep: bool = False
    #: interpret plans instead of compiling them
    quick: bool = False
    #: more of Spark's settings
    conf: Mapping[str, str] = field(default_factory=dict)
    #: how this region reaches the fleet's store, if not as the others do: by a leaf node (which may keep its logs)
    store: str | None = None

    @property
    def options(self) -> list[str]:
        more = [flag for flag, on in (("--keep", self.keep), ("--quick", self.quick)) if on]
        more += [part for key, value in self.conf.items() for part in ("--conf", f"{key}={value}")]
        return ["--name", self.name, "--master", self.master, "--memory", self.memory, *more]


@dataclass(frozen=True)
class FleetFile:
    #: a folder, or the URL of a store
    store: Path | str
    regions: tuple[RegionSpec, ...]
    host: str = "127.0.0.1"
    lease: float = 5.0
    rule: str = "bottom-up"
    state: str = "delta"
    topology: Path | None = None
    #: where logs and the token go, if not into the store's folder
    run_folder: Path | None = None
    #: for tests: more options of the coordinator
    coordinator: tuple[str, ...] = field(default=())

    @property
    def run(self) -> Path:
        if self.run_folder is not None:
            return self.run_folder
        if isinstance(self.store, Path):
            return self.store / "run"
        msg = f"store {self.store} is no folder: say in `run:` where logs and the token go"
        raise ConfigError(msg)


def load_fleet_file(path: Path) -> FleetFile:
    """ConfigError names the place and what would do."""
    told = read_yaml(path)
    if not isinstance(told, dict) or "store" not in told or not isinstance(told.get("regions"), dict):
        msg = f"{path}: a fleet has `store: PATH` and `regions:` with a name for each process; see docs/howto"
        raise ConfigError(msg)
    _known(path, told, _KEYS, "")
    regions = tuple(_region(path, name, more) for name, more in told["regions"].items())
    store = str(told["store"])
    check_url(store)
    for region in regions:
        if region.store is not None and not is_same_fleet(region.store, store):
            msg = (
                f"{path}: regions: {region.name}: store: {shown(region.store)} is another fleet than {shown(store)}; "
                "only in a fleet that lies in NATS a region may have a leaf node of its own: ?domain=NAME&hub=hub"
            )
            raise ConfigError(msg)
    at: Path | str = store
    if is_folder(store):
        at = folder_of(store if ":" in store or store.startswith("/") else path.parent / store)
    run = path.parent / str(told["run"]) if "run" in told else None if isinstance(at, Path) else path.parent / "run"
    options: dict[str, Any] = {key: str(told[key]) for key in ("host", "rule", "state") if key in told}
    for key, known in (("rule", RULES), ("state", STRATEGIES)):
        if key in options and options[key] not in known:
            msg = f"{path}: {key}: there is no '{options[key]}'; {names.hint(options[key], known)}"
            raise ConfigError(msg)
    lease = told.get("lease", 5.0)
    if not isinstance(lease, int | float) or lease < 1:
        msg = f"{path}: lease: {lease!r} is not a number of seconds, 1 or more"
        raise ConfigError(msg)
    topology = path.parent / str(told["topology"]) if "topology" in told else None
    return FleetFile(at, regions, lease=float(lease), topology=topology, run_folder=run, **options)


def _region(path: Path, name: Any, more: Any) -> RegionSpec:
    names.check("region", name)
    if more is not None and not isinstance(more, dict):
        msg = f"{path}: regions: {name}: {more!r} is not a mapping; write `{name}: {{memory: 512m}}`"
        raise ConfigError(msg)
    told = dict(more or {})
    _known(path, told, _OF_REGION, where := f"regions: {name}: ")
    if "memory" in told:
        check_heap(told["memory"], f"{path}: {where}memory")
    for key in ("master", "store"):
        if key in told and not (isinstance(told[key], str) and told[key]):
            msg = f"{path}: {where}{key}: {told[key]!r} is not a text; write it in quotes"
            raise ConfigError(msg)
    for key in ("keep", "quick"):
        if not isinstance(told.get(key, False), bool):
            msg = f"{path}: {where}{key}: {told[key]!r} is neither true nor false"
            raise ConfigError(msg)
    if "conf" in told:
        told["conf"] = _conf(told["conf"], f"{path}: {where}conf")
    if "store" in told:
        check_url(told["store"])
    return RegionSpec(name, **told)


def _conf(given: Any, place: str) -> dict[str, str]:
    """Spark's settings, as Spark wants them: text."""
    if not isinstance(given, dict):
        msg = f"{place}: {given!r} is not a mapping; write `{{spark.executor.memory: 4g}}`"
        raise ConfigError(msg)
    for key in given:
        if not str(key).startswith("spark."):
            msg = f"{place}: '{key}' is none of Spark's settings; write `spark.NAME: VALUE`"
            raise ConfigError(msg)
    return {str(key): str(value).lower() if isinstance(value, bool) else str(value) for key, value in given.items()}


def _known(path: Path, told: dict[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in told:
        if key not in keys:
            msg = f"{path}: {where}there is no '{key}'; {names.hint(str(key), keys)}"
            raise ConfigError(msg)
