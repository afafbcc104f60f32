"""What is in the way of another plan for a query, and what helps."""

from __future__ import annotations

from godwit.api.core import FleetCore
from godwit.ids import QueryId
from godwit.model.plan import Query
from godwit.model.taps import family
from godwit.replan.change_progress import under_way


def obstacle(fleet: FleetCore, name: QueryId, old: Query) -> tuple[str, str] | None:
    """(what is in the way, what to do); None: nothing. Those that share operators with it go over with it."""
    deployment, keys = fleet.deployment, fleet.plane.keys
    for one in family(old, deployment.queries):
        its = "it" if one.id == old.id else f"'{fleet.aliases.name_of(one.id)}', which shares operators with it,"
        if fleet.aliases.name_of(one.id) in fleet.parked or one.id in fleet.parked:
            return f"{its} has no place now", "Wait until it has one: `godwit status` says what is missing"
        if keys.migrates(one.id):
            return "keys of it migrate", "Wait until they have: `godwit status` shows how far they are"
        for operator in (operator for query, operator in deployment.key_routes if query == one.id):
            regions = sorted(deployment.owners(one, operator))
            if len(regions) > 1 and one.shape.plan.operators[operator].answered_stay:
                divided = f"keys of its operator {operator}, an outer join, are divided over {', '.join(regions)}"
                return divided, f"Migrate them to one of these first (`godwit migrate {name}`)"
        if under_way(one, deployment):
            before = "the change before" if one.id == old.id else f"a change of {its[:-1]}"
            return f"{before} is still under way", "Wait for it: `godwit history` shows how far it is"
    return None


def elsewhere(fleet: FleetCore, old: Query) -> tuple[str, str] | None:
    """The same for another text: a part of the plan that is to be compared with it is another query's."""
    if not old.parts:
        return None
    shown = ", ".join(f"'{fleet.aliases.name_of(other)}'" for other in sorted(old.parts))
    begins = "Withdraw it and submit the new text: it begins again, on its own"
    return f"it reads rows that {shown} makes for it", begins
