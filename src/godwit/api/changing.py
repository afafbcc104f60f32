"""How a running fleet is changed: plans and texts of queries, placement, keys."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from godwit.api.declaring import DeclaringFleet
from godwit.api.key_names import Keys, as_keys, in_words
from godwit.api.migrating import asked_keys, explain_keys
from godwit.control.commands import (
    MigrateKeys,
    PlaceByHand,
    Replace,
    Replan,
)
from godwit.errors import ConfigError
from godwit.ids import DeviceId, SiteId
from godwit.migration.phases import REPLICA
from godwit.model.change_text import as_changes
from godwit.model.changes import Change
from godwit.replan.explain import explained
from godwit.replan.probing import explained as explained_probes
from godwit.replan.probing import probes
from godwit.replan.wishes import PlanWish
from godwit.sql import Builder
from godwit.sql.hinted import hinted


class ChangingFleet(DeclaringFleet):
    """Changes what runs, without a restart."""

    def replan(
        self,
        query: str,
        *,
        order: str = "",
        partial: bool | None = None,
        filters_up: Sequence[str] = (),
        filters_down: Sequence[str] = (),
        strategy: str = "auto",
        run_out: bool = False,
        alone: bool = False,
        dry_run: bool = False,
    ) -> str:
        """Another plan for a running query; its results go on, each of them once. `order`: how its streams are joined
        (`"(b JOIN c) JOIN a"`); `partial`: whether rows are combined before they travel; `filters_up`, `filters_down`:
        streams whose filters go above the joins, or back. `strategy`: moving-state, background, parallel-track,
        pause-drain-resume (`run_out`: by letting windows run out) or, for a query with probing joins, stateless-order.
        Queries that share its joins change with it, in one epoch, and go on sharing; `alone`: they keep their plan, and
        it shares no longer. Returns when the change has begun; where both plans run side by side, the old one goes
        by itself later. `dry_run`: return what would be done.
        """
        wish, name = PlanWish(order, partial, tuple(filters_up), tuple(filters_down)), self.known(query)
        if dry_run and (node := probes(self.execution(name).shape.plan)) is not None:
            return explained_probes(self.execution(name), node, order)
        if dry_run:
            known, ran = self.replanner.load(name), self._operations.plans.ran
            return explained(self.execution(name), wish, self.deployment.streams, known, ran=ran)
        self._operations.plans.rehearse(name, wish, strategy, run_out, alone)
        self.control.execute(Replan(query, order, strategy, run_out, partial, wish.up, wish.down, alone))
        return f"'{query}': {wish}"

    def replace(self, query: str, sql: str | Builder, *, dry_run: bool = False) -> str:
        """Give a running query another text, in one epoch; what both texts have below an operator goes on with its
        state. Returns which operators go on and which begin again; `dry_run`: and does nothing.

        What was due before the switch the old text has answered, the rest the new one answers.
        """
        text = hinted(sql)
        with self.control.driving():
            explained = self._operations.replacing.planned(self.known(query), text).explained()
        if not dry_run:
            self.control.execute(Replace(query, text))
        return explained

    def move(self, placement: dict[str, str], cause: str = "moved by hand") -> None:
        """Place instances by hand (`query/operator` -> site): they stay there, as long as the sites can host them."""
        self.control.execute(PlaceByHand(placement, cause))

    def replicate(self, query: str, *, keys: Keys, to: str, operator: int | None = None) -> None:
        """Keep a replica of the state of these keys at a site, refreshed every 500 ms with what has changed, until
        they migrate: `migrate(..., strategy="hot-backup")` to that site then moves the last difference alone. Given up
        when they go elsewhere, and when the fleet is closed."""
        self.control.execute(MigrateKeys(query, as_keys(keys), to, REPLICA, operator))

    def migrate(
        self,
        query: str,
        *,
        keys: Keys,
        to: str,
        strategy: str = "auto",
        operator: int | None = None,
        dry_run: bool = False,
    ) -> str:
        """Move keys of a running query to a site, live: listed ones, a pattern (`"S41-*"`), `("buckets", 0, 32)`, or
        `"*"` for all that no other route names. Many keys are best given as an Arrow column (or, where a key has
        several columns, as a table of them). Returns when the migration is taken on; `fleet.status()` and `godwit
        history` show how far it is. `dry_run`: move nothing, and return what would move where."""
        command = MigrateKeys(query, as_keys(keys), to, strategy, operator)
        if dry_run:
            with self.control.driving():
                return explain_keys(self, asked_keys(self, command))
        self.control.execute(command)
        return f"keys {in_words(command.keys)} of '{query}' go to {to}"

    def notify_handover(self, device: str, site: str) -> None:
        """The network says that a source is attached to another site (as in ETSI MEC's notifications): its rows come in
        there from now on, and its keys follow it. Needs `Fleet(mobility=True)`."""
        if self.mobility.following is None:
            msg = f"nothing follows '{device}': source mobility is off; open the fleet with mobility=True"
            raise ConfigError(msg)
        self.move_device(DeviceId(device), SiteId(site))
        self.mobility.notified(DeviceId(device), SiteId(site), time.time())

    def explain_change(self, changes: Change | str | Iterable[Change | str]) -> str:
        """What these changes would do; nothing happens."""
        with self.control.driving():
            return self.plane.explain_change(as_changes(changes))
