"""Frozen values of the model as JSON has them."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any


def plain_values(value: Any) -> dict[str, Any]:
    """A dataclass as a dict; JSON has no infinity, so None is no limit."""
    return {k: None if isinstance(v, float) and math.isinf(v) else _listed(v) for k, v in asdict(value).items()}


def _listed(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else value
