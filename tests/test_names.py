"""Names: what each kind of thing may be called, and the sentence that refuses the rest. The cases are data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from godwit import names
from godwit.errors import ConfigError, SourceError, TopologyError
from godwit.ids import DeviceId, RegionId, SiteId
from godwit.model.changes import DeviceAdded, SiteAdded, apply
from godwit.model.topology import Device, Site, Topology
from godwit.model.topology_file import load_topology

FOLDER = Path(__file__).parent / "fixtures" / "names"
KINDS = ("query", "stream", "column", "device", "site", "region", "sink", "feeder")


def cases() -> list[tuple[Any, object, str]]:
    bad: dict[str, list[dict[str, Any]]] = yaml.safe_load((FOLDER / "bad.yaml").read_text())
    everywhere: list[tuple[Any, object, str]] = []
    for case in bad.pop("all"):
        # SQL identifiers have a rule of their own, so only some of the words are the same
        plain = [k for k in KINDS if k not in ("stream", "column")]
        everywhere += [(kind, case["name"], case["says"] if kind in plain else "") for kind in KINDS]
    return everywhere + [(kind, case["name"], case["says"]) for kind, found in bad.items() for case in found]


@pytest.mark.parametrize(("kind", "name", "says"), cases())
def test_a_bad_name_is_refused_in_one_sentence(kind: Any, name: object, says: str) -> None:
    with pytest.raises(ConfigError) as told:
        names.check(kind, name)
    text = str(told.value)
    assert says in text
    assert kind in text
    assert "\n" not in text
    assert ";" in text  # what is wrong; what to do


@pytest.mark.parametrize(
    ("kind", "name"),
    [(k, n) for k, found in yaml.safe_load((FOLDER / "good.yaml").read_text()).items() for n in found],
)
def test_a_good_name_is_taken_as_it_is(kind: Any, name: str) -> None:
    assert names.check(kind, name) == name


def test_columns_that_sql_cannot_tell_apart() -> None:
    names.identifiers("column", ["a", "b"])
    with pytest.raises(SourceError, match="'A' is declared beside 'a', which is the same name to SQL"):
        names.identifiers("column", ["a", "A"], SourceError)
    with pytest.raises(ConfigError, match="declared twice"):
        names.identifiers("column", ["a", "a"])


def test_topologies_and_changes_obey() -> None:
    with pytest.raises(TopologyError, match="site 'a/b' has the character '/'"):
        Topology.of([Site(SiteId("a/b"))])
    with pytest.raises(TopologyError, match=r"region '\.\.' would be a folder's path"):
        apply(Topology(), [SiteAdded(Site(SiteId("a"), RegionId("..")))])
    with pytest.raises(TopologyError, match="device 'x@y' has the character '@'"):
        apply(Topology(), [DeviceAdded(Device(DeviceId("x@y")))])


def test_topology_files_obey() -> None:
    with pytest.raises(TopologyError, match="names that begin with 'query:' are reserved"):
        load_topology("sites: [{id: west}]\ndevices: [{id: 'query:x', site: west}]\n")
