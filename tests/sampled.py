"""Variants of one rule: some of them in every run, the others in `make test-full`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(variants: Iterable[Any], *always: Any) -> list[Any]:
    """All variants for `pytest.mark.parametrize`; those that are not named in `always` run in `make test-full` only."""
    found = list(variants)
    unknown = [name for name in always if name not in found]
    assert not unknown, f"no such variant: {unknown}"
    return [one if one in always else pytest.param(one, marks=pytest.mark.full) for one in found]
