"""java.util.Random, bit for bit: the published root plans were drawn with it."""

from __future__ import annotations

_MULTIPLIER, _MASK = 0x5DEECE66D, (1 << 48) - 1


class JavaRandom:
    """The 48-bit linear congruential generator documented for java.util.Random."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ _MULTIPLIER) & _MASK

    def _next(self, bits: int) -> int:
        self._state = (self._state * _MULTIPLIER + 0xB) & _MASK
        value = self._state >> (48 - bits)
        return value - (1 << bits) if value >= 1 << (bits - 1) else value

    def next_int(self, bound: int) -> int:
        """Uniform in 0..bound-1, as nextInt(bound)."""
        bits = self._next(31) & 0x7FFFFFFF
        if bound & (bound - 1) == 0:
            return (bound * bits) >> 31
        value = bits % bound
        while bits - value + (bound - 1) > 0x7FFFFFFF:
            bits = self._next(31) & 0x7FFFFFFF
            value = bits % bound
        return value
