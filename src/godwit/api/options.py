"""What users pass to a fleet, checked before anything happens: declarations of streams, options, names in changes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from godwit import names
from godwit.errors import ConfigError, SourceError, TopologyError
from godwit.ids import StreamId
from godwit.ingest.schema import columns_of
from godwit.model.changes import Change, DeviceAdded, SiteAdded
from godwit.model.plan import Column, Stream
from godwit.sql.duration import microseconds
from godwit.sql.fault import SqlFault

#: how far ahead of the wall clock a row may be, unless the stream says otherwise
AHEAD = "1 day"


def declared(name: str, schema: str, known: Iterable[StreamId], **options: Any) -> Stream:
    """The stream that `fleet.stream` was asked for; a SourceError or ConfigError says what cannot be."""
    names.check("stream", name)
    return declared_of(name, columns_of(schema), known, **options)


def declared_of(
    name: str,
    columns: tuple[Column, ...],
    known: Iterable[StreamId],
    *,
    time: str,
    device: str | None,
    disorder: str | None,
    idle: str | None,
    ahead: str | None,
    mbps: float | None,
) -> Stream:
    """The same of columns that Spark has read already."""
    names.check("stream", name)
    other = next((k for k in known if k != name and k.lower() == name.lower()), None)
    if other is not None:
        msg = f"stream '{name}' is the same name to SQL as '{other}', which is declared; choose another name"
        raise ConfigError(msg)
    names.identifiers("column", (column.name for column in columns))
    _check_roles(name, columns, time, device)
    if mbps is not None and not mbps >= 0:
        msg = f"stream '{name}', mbps={mbps!r}: a device cannot send less than nothing; give 0 or more"
        raise ConfigError(msg)
    disorder_us = length(name, "disorder", disorder) if disorder is not None else 0
    idle_seconds = length(name, "idle", idle) / 1e6 if idle is not None else None
    ahead_us = length(name, "ahead", ahead) if ahead is not None else None
    return Stream(StreamId(name), columns, time, device, disorder_us, idle_seconds, mbps, ahead_us)


def widened(stream: Stream, add: str, derived: bool) -> Stream | None:
    """The stream with columns more (`name type, ..`); None: it has them. A ConfigError says what cannot be."""
    what = "a derived stream: its columns are those of its query" if derived else "a reference table" * bool(stream.key)
    if what:
        msg = f"'{stream.id}' is {what}; columns can be added to streams of devices only"
        raise ConfigError(msg)
    more = columns_of(add)
    have = {column.name.lower(): column.type for column in stream.columns}
    if all(have.get(column.name.lower()) == column.type for column in more):
        return None
    for column in more:
        if column.name.lower() in have:
            msg = (
                f"stream '{stream.id}' has a column '{column.name}' ({have[column.name.lower()]}); choose another name"
            )
            raise ConfigError(msg)
    names.identifiers("column", (column.name for column in (*stream.columns, *more)))
    return stream.widened(more)


def _check_roles(stream: str, columns: tuple[Column, ...], time: str, device: str | None) -> None:
    """The columns that say when and who."""
    types = {column.name: column.type for column in columns}
    for what, column in (("time", time), ("device", device)):
        if column is not None and column not in types:
            msg = f"stream '{stream}' has no column '{column}' (its {what} column); it has {list(types)}"
            raise SourceError(msg)
    if types[time] != "timestamp":
        msg = (
            f"stream '{stream}': its time column '{time}' is of type {types[time]}; declare it as timestamp, and "
            "convert what you push (text with datetime.fromisoformat, dates to midnight in UTC)"
        )
        raise ConfigError(msg)


def length(stream: str, option: str, text: object) -> int:
    try:
        found = microseconds(text) if isinstance(text, str) else None
    except SqlFault as fault:
        msg = f"stream '{stream}', {option}={text!r}: {fault.problem}; {fault.remedy}"
        raise ConfigError(msg) from fault
    if found is None or found < 0:
        msg = f"stream '{stream}', {option}={text!r}: not a length of time; write for example '10 seconds'"
        raise ConfigError(msg)
    return found


def check_options(made: Callable[..., object], options: Mapping[str, Any]) -> None:
    """Options by name, as `made` takes them; a misspelt one is named with the nearest there is."""
    known = [p.name for p in inspect.signature(made).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            msg = f"a fleet has no option '{option}'; {names.hint(option, known)}"
            raise ConfigError(msg)


def check_changes(changes: Iterable[Change]) -> None:
    """Users may not add what has a name of the program's own."""
    for change in changes:
        problem = None
        if isinstance(change, DeviceAdded):
            problem = names.reserved("device", change.device.id)
        elif isinstance(change, SiteAdded):
            problem = names.reserved("site", change.site.id)
        if problem is not None:
            raise TopologyError(problem)
