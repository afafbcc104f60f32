"""Whether what a sink has written is still there: asked when it is opened again, and by `godwit check`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from godwit.errors import StateError


def lost(sink: str, state: Mapping[str, Any]) -> str | None:
    """What is missing of a sink's output (`sink`: its name, kind and path), given how far it had come."""
    kind, _, path = sink.partition(":")
    if kind == "json" and state.get("bytes", 0):
        size = Path(path).stat().st_size if Path(path).exists() else None
        if size is None:
            return f"the sink's output {path} is missing, of which {state['bytes']} bytes were delivered"
        if size < state["bytes"]:
            return f"the sink's output {path} was cut off: it has {size} bytes, {state['bytes']} were delivered"
    if kind == "parquet" and state.get("newest") and not (Path(path) / state["newest"]).exists():
        return f"the newest file of the sink's output, {Path(path) / state['newest']}, is missing"
    return None


def must_be_there(sink: str, state: Mapping[str, Any]) -> None:
    """Raise if it is not: to go on would leave a hole in the output."""
    gone = lost(sink, state)
    if gone is not None:
        remedy = "restore it, or run `godwit check FOLDER --repair` to have all results delivered again"
        msg = f"{gone}; {remedy}"
        raise StateError(msg)
