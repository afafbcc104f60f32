"""A name for one life of a sink, kept with its position: what another life wrote elsewhere is not taken for its own.

A query that is withdrawn and submitted again counts its commits from 1; a position that its first life has left in
a database must not make the second pass over them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any


def run_name(state: Mapping[str, Any]) -> str:
    """The name in a sink's state; a new one if it begins."""
    return str(state.get("run") or secrets.token_hex(6))
