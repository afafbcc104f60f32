"""Commands: everything that users may ask of a fleet, as values with a codec. Python and the command line write them.

A command is durable before it is carried out, and has one answer: the epoch that brought it, or what was wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args

from godwit.errors import StateError
from godwit.model.changes import Change
from godwit.model.codec import decode, encode
from godwit.model.plan import Stream

VERSION = 1


@dataclass(frozen=True)
class Declare:
    """Make a stream known."""

    stream: Stream


@dataclass(frozen=True)
class AlterStream:
    """A stream has columns more (`name type, ..`) from now on; rows without them have NULL there."""

    stream: str
    add: str


@dataclass(frozen=True)
class Connect:
    """A device (made known if it is new), where it is (None: as it is), and the streams it feeds from now on."""

    device: str
    site: str | None
    streams: tuple[str, ...]


@dataclass(frozen=True)
class Submit:
    query: str
    sql: str
    sink: str | None = None
    #: "stateless": joins keep no intermediate rows, each new row probes the other streams
    joins: str = "materialised"


@dataclass(frozen=True)
class Withdraw:
    query: str


@dataclass(frozen=True)
class Alter:
    """The query goes on under its name with other parameters: the same shape."""

    query: str
    sql: str


@dataclass(frozen=True)
class Replan:
    """The query has another plan from now on; its results go on. What is not said of the plan stays."""

    query: str
    order: str = ""
    strategy: str = "auto"
    #: of pause-drain-resume: windows may run out
    run_out: bool = False
    partial: bool | None = None
    up: tuple[str, ...] = ()
    down: tuple[str, ...] = ()
    #: queries that share operators with it keep their plan, and share them no longer
    alone: bool = False


@dataclass(frozen=True)
class Replace:
    """The query goes on under its name with another text, and with the state of all that both texts have."""

    query: str
    sql: str


@dataclass(frozen=True)
class AdvancePlan:
    """The next step of a change of plan can be taken: asked for by the fleet itself. `query`: the new version."""

    query: str


@dataclass(frozen=True)
class ChangeTopology:
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class PlaceByHand:
    """Put instances ("query/operator") on sites by hand."""

    placement: Mapping[str, str]
    cause: str


@dataclass(frozen=True)
class MigrateKeys:
    """Keys of a query go to a site: texts (`S41-*`: all that begin so), ("buckets", low, high), or ("*",): the rest."""

    query: str
    keys: tuple[str, ...]
    site: str
    strategy: str = "auto"
    #: which of its operators; None: the only one that keeps state by key
    operator: int | None = None


@dataclass(frozen=True)
class LoadTable:
    """Rows of a file go into a reference table. `whole`: the file has all of them, what it has not is taken out."""

    table: str
    file: str
    whole: bool = False


Command = (
    Declare
    | AlterStream
    | Connect
    | Submit
    | Withdraw
    | Alter
    | Replan
    | Replace
    | AdvancePlan
    | ChangeTopology
    | PlaceByHand
    | MigrateKeys
    | LoadTable
)
_COMMANDS = get_args(Command)
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in _COMMANDS}


@dataclass(frozen=True)
class Answer:
    """What has become of a command: taken, in an epoch, or refused."""

    epoch: int | None
    #: of a refusal: the error's class and message
    error: str = ""
    message: str = ""

    @property
    def taken(self) -> bool:
        return not self.error


def to_json(command: Command) -> dict[str, Any]:
    inside = {field.name: encode(getattr(command, field.name)) for field in fields(command)}
    return {"version": VERSION, "kind": type(command).__name__, **inside}


def from_json(record: Mapping[str, Any]) -> Command:
    kind = _KINDS.get(record.get("kind", ""))
    if record.get("version") != VERSION or kind is None:
        msg = f"the command log holds a '{record.get('kind')}' of version {record.get('version')}; update godwit"
        raise StateError(msg)
    # (a field that a kind has gained since is not in older records)
    values = {field.name: decode(record[field.name]) for field in fields(kind) if field.name in record}
    made: Command = kind(**values)
    return made
