"""Run schedules and say what went wrong: `python -m godwit.sim.run --schedules 10000`, or `--seed 17` to see one."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from godwit.sim.drawn_gathering import draw_gathering
from godwit.sim.schedule import (
    Schedule,
    draw,
    draw_ahead,
    draw_divided_plans,
    draw_keys,
    draw_moving_sinks,
    draw_passing,
    draw_plans,
    draw_ranked_keys,
    draw_scattered,
    draw_shared_plans,
)
from godwit.sim.world import World


def play(schedule: Schedule) -> list[str]:
    """Play a schedule to its end; returns the faults, none if all is right."""
    world = World(schedule)
    try:
        for action in schedule.actions:
            world.play(action)
        world.finish()
        return world.faults()
    except Exception:
        return [traceback.format_exc(limit=8)]


def story(schedule: Schedule) -> str:
    """The script of a schedule, what the control plane did, and what is wrong in the end."""
    world = World(schedule)
    lines = []
    for number, action in enumerate(schedule.actions):
        lines.append(f"  {number:>3}  {action}")
        before = len(world.log)
        try:
            world.play(action)
        except Exception as error:
            lines.append(f"       !! {error!r}")
            break
        lines += [f"         -> {line}" for line in world.log[before:]]
    faults = "\n".join(play(schedule)) or "nothing"
    return "\n".join([schedule.script().splitlines()[0], *lines, f"wrong in the end: {faults}"])


def failing(seeds: Iterable[int], drawing: Callable[[int], Schedule] = draw) -> list[int]:
    return [seed for seed in seeds if play(drawing(seed))]


def run(
    schedules: int,
    first: int = 0,
    processes: int | None = None,
    chunk: int = 250,
    drawing: Callable[[int], Schedule] = draw,
) -> list[int]:
    """The seeds that fail among `schedules` of them, over all cores."""
    chunks = [range(k, min(k + chunk, first + schedules)) for k in range(first, first + schedules, chunk)]
    processes = processes or os.cpu_count() or 1
    if processes == 1 or len(chunks) == 1:
        return [seed for seeds in chunks for seed in failing(seeds, drawing)]
    with ProcessPoolExecutor(processes) as pool:
        return [seed for found in pool.map(partial(failing, drawing=drawing), chunks) for seed in found]


def _drawing(options: argparse.Namespace) -> Callable[[int], Schedule]:
    named = {
        "keys": draw_keys,
        "ranked_keys": draw_ranked_keys,
        "plans": draw_plans,
        "shared_plans": draw_shared_plans,
        "divided_plans": draw_divided_plans,
        "ahead": draw_ahead,
        "passing": draw_passing,
        "sinks": draw_moving_sinks,
        "scattered": draw_scattered,
        "gathering": draw_gathering,
    }
    return next((drawing for name, drawing in named.items() if getattr(options, name)), draw)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m godwit.sim.run", description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--keys", action="store_true", help="schedules that migrate keys")
    parser.add_argument("--ranked-keys", action="store_true", help="the same of ranks and functions that look ahead")
    parser.add_argument("--plans", action="store_true", help="schedules that change plans")
    parser.add_argument("--shared-plans", action="store_true", help="the same of queries that share operators")
    parser.add_argument("--divided-plans", action="store_true", help="the same while keys migrate")
    parser.add_argument("--ahead", action="store_true", help="the same of states that are made ahead")
    parser.add_argument("--passing", action="store_true", help="schedules of queries that answer each row")
    parser.add_argument("--sinks", action="store_true", help="the same, and their sinks move")
    parser.add_argument("--scattered", action="store_true", help="the same, and results leave where their rows are")
    parser.add_argument("--gathering", action="store_true", help="schedules in which rows wait until they are needed")
    parser.add_argument("--seed", type=int, help="play one schedule and print its script and what happened")
    options = parser.parse_args(arguments)
    drawing = _drawing(options)
    if options.seed is not None:
        sys.stdout.write(story(drawing(options.seed)) + "\n")
        return int(bool(play(drawing(options.seed))))
    bad = run(options.schedules, options.first, drawing=drawing)
    sys.stdout.write(f"{options.schedules} schedules, {len(bad)} failed{': ' + str(bad[:20]) if bad else ''}\n")
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
