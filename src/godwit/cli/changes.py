"""Topology changes for the command line: as lines, from a file of lines, or from a trace of either format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from godwit.errors import ConfigError

if TYPE_CHECKING:
    from godwit.mobility.trace import Trace
    from godwit.model.changes import Change


def given(arguments: list[str]) -> list[Change]:
    """Each argument is a change, or a file of changes, one per line."""
    from godwit.model.change_text import parse_changes

    return parse_changes(lines(arguments))


def lines(arguments: list[str]) -> list[str]:
    """The changes as lines."""
    found: list[str] = []
    for argument in arguments:
        path = Path(argument)
        if " " not in argument.strip() or path.is_file():
            found += _file(path)
        else:
            found.append(argument)
    return found


def _file(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"'{path}' is neither a change such as 'device t1 -> east' nor a file of changes ({error})"
        raise ConfigError(msg) from error


def trace_at(path: Path) -> Trace:
    """A trace file of ours, or a folder in NebulaStream's formats (or one of its files)."""
    from godwit.mobility.nebula import read_nebula
    from godwit.mobility.trace import read_trace

    if path.is_dir():
        return read_nebula(path).trace
    if path.name.startswith("topology_updates.json"):
        return read_nebula(path.parent).trace
    return read_trace(path)
