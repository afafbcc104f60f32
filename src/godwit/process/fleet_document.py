"""What all processes of a fleet must agree on, as the coordinator has written it down when it was first started."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from godwit.errors import ConfigError
from godwit.process.wire import FORMAT
from godwit.storage import names
from godwit.storage.store import Store

DOCUMENT = f"{names.PROCESSES}/fleet"


@dataclass(frozen=True)
class FleetDocument:
    rule: str = "bottom-up"
    redeployment: str = "incremental"
    #: how the state of a moved instance travels
    state: str = "delta"
    format: int = FORMAT


def write_fleet_options(store: Store, options: FleetDocument) -> None:
    known = store.get_document(DOCUMENT)
    if known is not None:
        _check(store, known)
    store.put_document(DOCUMENT, asdict(options))


def fleet_options(store: Store) -> FleetDocument:
    known = store.get_document(DOCUMENT)
    if known is None:
        msg = f"{store.where('')} has no fleet of processes; start its coordinator first (`godwit coordinator`)"
        raise ConfigError(msg)
    _check(store, known)
    return FleetDocument(**known)


def _check(store: Store, known: dict[str, object]) -> None:
    if known.get("format") != FORMAT:
        msg = (
            f"{store.where(DOCUMENT)} is of format {known.get('format')}, and this godwit has {FORMAT}: stop all "
            "processes of the fleet, and start them with one godwit version"
        )
        raise ConfigError(msg)
