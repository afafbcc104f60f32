"""The headline figures of the placement area in about half a minute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.placement.headline import auto_against_singles, esc_rate, greedy_times, heuristic_and_proof
from godwit.placement.published.instances import data_folder


def figures() -> Iterator[dict[str, Any]]:
    """See bench/quick.py; nothing where the published instances are absent."""
    if not data_folder().is_dir():
        return
    yield from esc_rate()
    yield from greedy_times()
    yield from heuristic_and_proof(repeats=3)
    yield from auto_against_singles(sizes=(31,), seconds=0.2)


if __name__ == "__main__":
    import json

    for each in figures():
        print(json.dumps(each))
