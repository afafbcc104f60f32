"""Plans as numbers: a signature is a base-|A| number with one digit an operator (section 2.2 of APEROL).

The first operator is the most significant digit. Numbers are Python integers, so 2,047^11 is nothing special;
kernels get the digits (index vectors), never the number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from godwit.errors import PlacementError
from godwit.placement.problem.problem import PlanVector


def to_plan(signature: int, actions: int, operators: int) -> PlanVector:
    """164 in base 4 with four operators is [2, 2, 1, 0]."""
    if not 0 <= signature < actions**operators:
        msg = f"signature {signature} is out of range: there are {actions}^{operators} = {actions**operators} plans"
        raise PlacementError(msg)
    digits = []
    for _ in range(operators):
        signature, digit = divmod(signature, actions)
        digits.append(digit)
    return tuple(reversed(digits))


def split(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    """Disjoint (start, count) pieces that cover a range; the pieces are made one by one, there may be 10^30."""
    at = start
    while at < stop:
        count = min(size, stop - at)
        yield at, count
        at += count


def shuffled(count: int, seed: int) -> Iterator[int]:
    """0..count-1, each once, in a random-looking order that needs no memory: i -> (step * i + offset) mod count."""
    random = np.random.default_rng(seed)
    offset = int.from_bytes(random.bytes(32), "little") % count
    step = int.from_bytes(random.bytes(32), "little") % count or 1
    while math.gcd(step, count) != 1:
        step += 1
    for i in range(count):
        yield (step * i + offset) % count
