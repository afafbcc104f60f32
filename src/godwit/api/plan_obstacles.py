"""What is in the way of another plan for a query, and what helps."""

from __future__ import annotations

from godwit.api.core import FleetCore
from godwit.ids import QueryId
from godwit.model.plan import Query
from godwit.model.taps import readers
from godwit.replan.change_progress import under_way


def obstacle(fleet: FleetCore, name: QueryId, old: Query) -> tuple[str, str] | None:
    """(what is in the way, what to do); None: nothing."""
    deployment = fleet.deployment
    others = {*old.taps.values(), *readers(old.id, deployment.queries.values()), *old.parts}
    if others:
        shown = ", ".join(f"'{fleet.aliases.name_of(other)}'" for other in sorted(others))
        anew = "Withdraw it and submit it with its streams in that order: it begins anew, on its own"
        return f"operators of it are executed once for it and {shown}, and the others would change with it", anew
    if name in fleet.parked or old.id in fleet.parked:
        return "it has no place now", "Wait until it has one: `godwit status` says what is missing"
    for _, operator in (place for place in deployment.key_routes if place[0] == old.id):
        regions = sorted(deployment.owners(old, operator))
        if len(regions) > 1:
            divided = f"keys of its operator {operator} are divided over {', '.join(regions)}"
            return divided, f"Migrate them to one of these first (`godwit migrate {name}`)"
    if under_way(old, deployment):
        return "the change before is still under way", "Wait for it: `godwit history` shows how far it is"
    return None
