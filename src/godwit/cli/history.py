"""`godwit history`: the reconfigurations of a fleet as a list, or one of them in full."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from godwit.cli.ask import Folder
from godwit.cli.output import Output, as_json, as_table, form
from godwit.errors import ConfigError, StateError

if TYPE_CHECKING:
    from godwit.control.reconfigurations import ReconfigurationRecord

Number = Annotated[int | None, typer.Argument(help="Show this reconfiguration in detail.")]
Last = Annotated[int, typer.Option(min=0, help="Show at most this many of the newest (0: all).")]
Record = dict[str, Any]


def history(
    folder: Folder,
    number: Number = None,
    last: Last = 50,
    output: Output = "auto",
) -> None:
    """What was reconfigured, when, why and how long it took."""
    how, records = form(output), read(folder)
    show(str(folder), records, number, last, how)
    if number is not None and how != "json":
        _tell_plans(folder, _find(str(folder), records, number))


def show(fleet: str, records: list[Record], number: int | None, last: int, how: str) -> None:
    """A list of them, or one in full."""
    from godwit.observe.key_phases import whole

    if number is not None:
        record = _find(fleet, records, number)
        told = {phase["migration"] for phase in record.get("keys", ())}
        _tell(record, {one: whole(records, one) for one in sorted(told)}, how)
    elif how == "json":
        as_json(records[-last:] if last else records)
    else:
        _list(records[-last:] if last else records)


def read(folder: str | Path) -> list[Record]:
    """All records of a fleet, oldest first."""
    from godwit.observe.history import newest
    from godwit.storage.names import CONTROL, HISTORY
    from godwit.storage.open_store import open_store

    store = open_store(folder)
    if not store.disk.exists(CONTROL):
        msg = f"{folder} is not a fleet's folder: it has no control log; give the folder it was opened with"
        raise ConfigError(msg)
    if not store.disk.exists(HISTORY):
        return []
    found = []
    for i, line in enumerate(store.read_lines(HISTORY), start=1):
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError as error:
            msg = f"{store.where(HISTORY)}:{i}: not a record ({error.msg}); the line was cut off, remove it"
            raise StateError(msg) from error
    return newest(found)


def _find(fleet: str, records: list[Record], number: int) -> Record:
    for record in records:
        if record["number"] == number:
            return record
    span = f"{records[0]['number']} to {records[-1]['number']}" if records else "none"
    msg = f"{fleet} has no reconfiguration {number}; it has {span}"
    raise ConfigError(msg)


def _tell_plans(folder: str, record: Record) -> None:
    """The changes of plan that a reconfiguration is a step of, phase by phase."""
    from godwit.replan.change_record import PLAN_CHANGES, PlanChangeRecord
    from godwit.storage.open_store import open_store

    for told in open_store(folder).get_document(PLAN_CHANGES) or ():
        if {*told["versions"], told["query"]} & {*record["queries"]}:
            typer.echo(PlanChangeRecord.from_json(told).text())


def _tell(record: Record, migrations: dict[int, list[Record]], how: str) -> None:
    """One reconfiguration; if it is a phase of a migration of keys, all phases of that."""
    from godwit.control.reconfigurations import KeyPhase

    if how == "json":
        as_json({**record, "migrations_of_keys": migrations} if migrations else record)
        return
    typer.echo(_story(record).text())
    typer.echo(f"  at         {_when(record)}")
    for number, phases in migrations.items():
        size, first, last = sum(phase["bytes"] or 0 for phase in phases), phases[0]["at"], phases[-1]
        took = (last["at"] - first + (last["seconds"] or 0.0)) * 1000
        instance, keys = phases[0]["instance"], phases[0]["keys"]
        typer.echo(f"migration {number} of keys {keys} of {instance}: {size:,} bytes in {took:.1f} ms")
        for phase in phases:
            told = KeyPhase(**{name: value for name, value in phase.items() if name not in ("reconfiguration", "at")})
            typer.echo(
                f"  reconfiguration {phase['reconfiguration']}, +{(phase['at'] - first) * 1000:.1f} ms: {told.text()}"
            )


def _list(records: list[Record]) -> None:
    rows = []
    for record in records:
        story = _story(record)
        took = sum(story.phases.values()) * 1000
        kinds = ", ".join(f"{n} {kind.removeprefix('ToBe').lower()}" for kind, n in story.contexts.items())
        moved = sum(m.bytes or 0 for m in story.migrations)
        size = f"{len(story.migrations)} ({moved:,} B)" if story.migrations else ""
        cause = _short(story.cause)
        rows.append((story.number, _when(record), story.outcome, cause, len(story.queries), kinds, size, f"{took:.1f}"))
    as_table((">no", "at", "outcome", "cause", ">queries", "contexts", "state moved", ">ms"), rows)


def _short(cause: str) -> str:
    """Many changes of one kind together: 'SiteAdded(a, b), 40x DeviceMoved'."""
    kinds: dict[str, list[str]] = {}
    for one in cause.split("; "):
        kind, _, about = one.partition("(")
        kinds.setdefault(kind, []).append(about.removesuffix(")"))
    if sum(map(len, kinds.values())) > 1 and all(about for those in kinds.values() for about in those):
        cause = ", ".join(
            f"{kind}({', '.join(those)})" if len(those) <= 3 else f"{len(those)}x {kind}"
            for kind, those in kinds.items()
        )
    return cause if len(cause) <= 80 else cause[:77] + "..."


def _story(record: Record) -> ReconfigurationRecord:
    from godwit.control.reconfigurations import ReconfigurationRecord

    return ReconfigurationRecord.from_json({key: value for key, value in record.items() if key != "at"})


def _when(record: Record) -> str:
    return datetime.fromtimestamp(record["at"], UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
