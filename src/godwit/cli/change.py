"""`godwit change`: tell a running fleet, from another process, that its ground has moved."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from godwit.cli.changes import lines, trace_at
from godwit.errors import ConfigError
from godwit.mobility.driver import Cue, cues
from godwit.mobility.trace import Trace
from godwit.model.change_text import move_text


def change(
    folder: Annotated[Path, typer.Argument(help="The running fleet's folder.")],
    changes: Annotated[
        list[str] | None, typer.Argument(help="Changes such as 'device t1 -> east', or files of them.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Play this trace: our trace.jsonl, or a folder in NebulaStream's formats.")
    ] = None,
    speed: Annotated[float, typer.Option(help="Play the trace so many times faster.")] = 1.0,
    wait: Annotated[float, typer.Option(help="Wait so many seconds for the fleet's answer; 0: only queue.")] = 10.0,
) -> None:
    """Tell a running fleet about changes of its topology."""
    from godwit.api.inbox import send

    if (trace is None) == (not changes):
        msg = "give either changes ('device t1 -> east', or a file of them) or --trace"
        raise ConfigError(msg)
    if trace is None:
        _answered(send(folder, lines(changes or [])), wait)
        return
    if speed <= 0:
        msg = f"--speed must be more than 0, not {speed:g}"
        raise ConfigError(msg)
    file = None
    sent = 0
    for texts in paced(trace_at(trace), speed):
        file = send(folder, texts)
        sent += len(texts)
    if file is not None:
        _answered(file, wait)
    typer.echo(f"{sent} changes sent", err=True)


def paced(trace: Trace, speed: float) -> Iterator[list[str]]:
    """The changes of each moment of a trace, when their time has come."""
    started = time.monotonic()
    for t, together in groupby(cues(trace), key=_moment):
        time.sleep(max(started + t / 1000 / speed - time.monotonic(), 0))
        yield [move_text(cue.device, cue.site) for cue in together]


def _moment(cue: Cue) -> float:
    return cue.t


def _answered(file: Path, wait: float) -> None:
    """Say what has become of the changes; a refusal ends with exit code 1."""
    from godwit.api.inbox import state_of

    until = time.monotonic() + wait
    state, reason = state_of(file)
    while state == "waiting" and time.monotonic() < until:
        time.sleep(0.05)
        state, reason = state_of(file)
    if state == "refused":
        typer.echo(f"error: refused: {reason}", err=True)
        raise typer.Exit(1)
    typer.echo(state if state == "taken" else f"queued in {file.parent}: a fleet takes it when it runs")
