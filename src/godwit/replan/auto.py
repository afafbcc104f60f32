"""The strategy that `auto` stands for: of those that do not refuse, the one whose forecast hurts least.

Silence counts most, because somebody waits for results; then extra work, which other queries pay; then length.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from godwit.replan.forecast import Forecast

#: what a second of silence, of extra work, and of length weigh
SILENCE, WORK, LENGTH = 10.0, 1.0, 0.05


def weight(forecast: Forecast) -> float:
    return SILENCE * forecast.silence_s + WORK * forecast.extra_s + LENGTH * forecast.length_s


def best(forecasts: Mapping[str, Forecast], possible: Collection[str]) -> Forecast:
    """Of equals the first in the table of strategies."""
    return min((f for name, f in forecasts.items() if name in possible), key=weight)


def explain(forecasts: Mapping[str, Forecast], possible: Collection[str]) -> str:
    """What `--dry-run` prints: one line per strategy, the chosen one marked."""
    chosen = best(forecasts, possible)
    marks = {name: "->" if name == chosen.strategy else "  " if name in possible else "no" for name in forecasts}
    return "\n".join(f"{marks[name]} {forecast}" for name, forecast in forecasts.items())
