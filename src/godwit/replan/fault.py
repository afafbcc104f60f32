"""What is wrong with an order or a change of plan, where, and what would help."""

from __future__ import annotations

from godwit.errors import ConfigError


def fault(problem: str, *, at: str = "", remedy: str = "") -> ConfigError:
    parts = [problem, *([f"at: {at}"] if at else []), *([f"remedy: {remedy}"] if remedy else [])]
    return ConfigError("\n  ".join(parts))
