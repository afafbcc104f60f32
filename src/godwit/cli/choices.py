"""Options whose values are names of strategies: their help lists all that there are."""

from __future__ import annotations

from typing import Annotated

import typer

from godwit.migration.base import STRATEGIES
from godwit.migration.phases import AUTO, KEY_STRATEGIES
from godwit.placement.rules.base import RULES

Rule = Annotated[str, typer.Option(help=f"Where operators go: {', '.join(RULES)}.")]
State = Annotated[str, typer.Option(help=f"How the state of a moved instance travels: {', '.join(STRATEGIES)}.")]
KeyStrategy = Annotated[
    str, typer.Option(help=f"How keys migrate: {', '.join([AUTO, *KEY_STRATEGIES])} (auto: as the operator declares).")
]
#: (written out: the module that has them needs a parser of SQL)
Redeployment = Annotated[
    str, typer.Option(help="What is placed again: incremental, holistic-serial, holistic-concurrent.")
]
