"""Topology changes as people write them, one a line.

device train-1 -> west-2            the device is attached there now
device train-1 -> nowhere           it is out of reach
device train-9 added at west-1      ("at ..." may be left out)
device train-9 removed
site west-3 added in edge-west cpu 4
site west-3 removed                 in an orderly way
site west-3 failed                  with everything on it
site west-3 cpu 8
link west-3 - cloud added mbps 1000 ms 2
link west-3 - cloud removed
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from godwit.errors import TopologyError
from godwit.ids import DEFAULT_REGION, DeviceId, RegionId, SiteId
from godwit.model.changes import (
    CapacityChanged,
    Change,
    DeviceAdded,
    DeviceMoved,
    DeviceRemoved,
    LinkAdded,
    LinkRemoved,
    SiteAdded,
    SiteFailed,
    SiteRemoved,
)
from godwit.model.topology import Device, Link, Site

NOWHERE = "nowhere"
_NUMBER = r"(\d+(?:\.\d+)?)"
_INF = float("inf")
Made = Callable[..., Change]


def _attached(site: str | None) -> SiteId | None:
    return None if site is None or site == NOWHERE else SiteId(site)


#: what a line looks like, and the change it means
_FORMS: tuple[tuple[str, Made], ...] = (
    (r"device (\S+) -> (\S+)", lambda d, s: DeviceMoved(DeviceId(d), _attached(s))),
    (r"device (\S+) added(?: at (\S+))?", lambda d, s: DeviceAdded(Device(DeviceId(d), _attached(s)))),
    (r"device (\S+) removed", lambda d: DeviceRemoved(DeviceId(d))),
    (
        rf"site (\S+) added(?: in (\S+))?(?: cpu {_NUMBER})?",
        lambda s, r, c: SiteAdded(Site(SiteId(s), RegionId(r) if r else DEFAULT_REGION, float(c or _INF))),
    ),
    (r"site (\S+) removed", lambda s: SiteRemoved(SiteId(s))),
    (r"site (\S+) failed", lambda s: SiteFailed(SiteId(s))),
    (rf"site (\S+) cpu {_NUMBER}", lambda s, c: CapacityChanged(SiteId(s), float(c))),
    (
        rf"link (\S+) - (\S+) added(?: mbps {_NUMBER})?(?: ms {_NUMBER})?",
        lambda a, b, mbps, ms: LinkAdded(Link(SiteId(a), SiteId(b), float(mbps or _INF), float(ms or 0))),
    ),
    (r"link (\S+) - (\S+) removed", lambda a, b: LinkRemoved(SiteId(a), SiteId(b))),
)


def parse_change(text: str) -> Change:
    """The change that a line means; TopologyError shows the forms there are."""
    words = " ".join(text.split())
    for form, make in _FORMS:
        found = re.fullmatch(form, words)
        if found:
            return make(*found.groups())
    msg = f"'{words}' is no topology change; write for example\n  device train-1 -> west-2 (or nowhere)\n  "
    msg += "site west-3 failed\n  link west-3 - cloud added mbps 1000 ms 2"
    raise TopologyError(msg)


def parse_changes(lines: Iterable[str]) -> list[Change]:
    """All lines; those that are empty or begin with # are passed over."""
    return [parse_change(line) for line in lines if line.strip() and not line.lstrip().startswith("#")]


def as_changes(given: Change | str | Iterable[Change | str]) -> tuple[Change, ...]:
    """Changes that are given as values, or as lines; one of them need not be in a list."""
    some = [given] if isinstance(given, str | Change) else given
    return tuple(
        found for one in some for found in (parse_changes(one.splitlines()) if isinstance(one, str) else [one])
    )


def move_text(device: str, site: str | None) -> str:
    """The line that says where a device is now."""
    return f"device {device} -> {site or NOWHERE}"


def change_text(change: Change) -> str:
    """The line that means a change; TopologyError: what it says of a site or a device is more than a line can."""
    text = summary(change)
    if parse_change(text) != change:
        msg = f"no line says all of {change}; load it as a topology file"
        raise TopologyError(msg)
    return text


def summary(change: Change) -> str:
    """A change in a line, for people: of a site or a device that is added it may not say all."""
    match change:
        case DeviceMoved(device, site):
            return move_text(device, site)
        case DeviceAdded(added):
            return f"device {added.id} added" + (f" at {added.site}" if added.site else "")
        case DeviceRemoved(device):
            return f"device {device} removed"
        case SiteAdded(site):
            return f"site {site.id} added in {site.region}" + (f" cpu {site.cpu:g}" if site.cpu < _INF else "")
        case SiteRemoved(site):
            return f"site {site} removed"
        case SiteFailed(site):
            return f"site {site} failed"
        case CapacityChanged(site, cpu):
            return f"site {site} cpu {cpu:g}"
        case LinkAdded(link):
            mbps = f" mbps {link.mbps:g}" if link.mbps < _INF else ""
            return f"link {link.a} - {link.b} added{mbps}" + (f" ms {link.ms:g}" if link.ms else "")
        case LinkRemoved(a, b):
            return f"link {a} - {b} removed"
