"""`godwit change`: report changes of the topology to a running fleet, from another process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from godwit.cli.ask import Folder, answered, ask, opened, say
from godwit.cli.changes import given, trace_at
from godwit.errors import ConfigError

if TYPE_CHECKING:
    from godwit.mobility.driver import Cue
    from godwit.mobility.trace import Trace
    from godwit.model.changes import Change


def change(
    folder: Folder,
    changes: Annotated[
        list[str] | None, typer.Argument(help="Changes such as 'device t1 -> east', or files of them.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Play this trace: our trace.jsonl, or a folder in NebulaStream's formats.")
    ] = None,
    speed: Annotated[float, typer.Option(help="Playback speed factor.")] = 1.0,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the answer (0: do not wait).")] = 10.0,
) -> None:
    """Change the topology of a running fleet."""
    from godwit.control.commands import ChangeTopology

    if (trace is None) == (not changes):
        msg = "give either changes ('device t1 -> east', or a file of them) or --trace"
        raise ConfigError(msg)
    if trace is None:
        answered(folder, ChangeTopology(tuple(given(changes or []))), wait)
        return
    if speed <= 0:
        msg = f"--speed must be more than 0, not {speed:g}"
        raise ConfigError(msg)
    store, sent, last = opened(folder), 0, None
    for moves in paced(trace_at(trace), speed):
        last = ask(store, ChangeTopology(tuple(moves)))
        sent += len(moves)
    if last is not None:
        say(*last, wait)
    typer.echo(f"{sent} changes sent", err=True)


def paced(trace: Trace, speed: float) -> Iterator[list[Change]]:
    """The changes of each moment of a trace, when their time has come."""
    from godwit.ids import DeviceId, SiteId
    from godwit.mobility.driver import cues
    from godwit.model.changes import DeviceMoved

    started = time.monotonic()
    for t, together in groupby(cues(trace), key=_moment):
        time.sleep(max(started + t / 1000 / speed - time.monotonic(), 0))
        yield [DeviceMoved(DeviceId(cue.device), SiteId(cue.site) if cue.site else None) for cue in together]


def _moment(cue: Cue) -> float:
    return cue.t
