"""Changed SQL of a running query: what of it goes on, what begins again, and what a dry run says of both.

Every stateful operator of the new plan either *goes on*, with all state that the running plan has for it, or *begins
again*, with what reaches it from the switch on. The switch is one epoch, a line in the source logs: what was due before
it, the old text has answered; what is due later, the new text answers. Where everything goes on, that is what the new
text would have answered from then on, had it been there since the old one began.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from godwit.model.plan import Operator, Query
from godwit.replan.aligned import aligned
from godwit.replan.box import Streams
from godwit.replan.fault import fault
from godwit.replan.matching import StateMatch, match


@dataclass(frozen=True)
class Replacement:
    old: Query
    #: the changed query, written with sub-plans of the old one
    new: Query
    match: StateMatch

    @property
    def goes_on(self) -> tuple[int, ...]:
        """The stateful operators of the new plan that have their state."""
        return tuple(i for i in _stateful(self.new) if i not in self.begins_again)

    @property
    def begins_again(self) -> tuple[int, ...]:
        empty = {key.signature for key in self.match.empty}
        return tuple(i for i in _stateful(self.new) if self.new.shape.signatures[i] in empty)

    @property
    def whole(self) -> bool:
        """Whether the new text answers as if it had been there since the old one began."""
        return not self.begins_again

    @property
    def same_columns(self) -> bool:
        return self.old.output == self.new.output

    def explained(self) -> str:
        """What `--dry-run` prints."""
        operators = self.new.shape.plan.operators
        lines = [f"goes on:      {self._told(operators[i])}" for i in self.goes_on]
        lines += [f"begins again: {self._told(operators[i])}: {self._why(i)}" for i in self.begins_again]
        lines += [] if lines else ["keeps no state: rows from the switch on are answered by the new text"]
        lines += [f"ends:         {one.describe()}" for one in self._ended()]
        if not self.same_columns:
            was, now = ", ".join(self.old.output), ", ".join(self.new.output)
            lines.append(f"columns:      ({was}) become ({now}); earlier results end with the old text")
        return "\n".join(lines)

    def _why(self, index: int) -> str:
        """The first operator below it that the running plan does not have."""
        known = set(self.old.signatures)
        found = next((i for i in _below(self.new, index) if self.new.signatures[i] not in known), index)
        what = self._told(self.new.shape.plan.operators[found])
        return f"the running plan has no '{what}'" if found != index else "the running plan has none like it"

    def _told(self, operator: Operator) -> str:
        """With the values of its literals."""
        return re.sub(r":p(\d+)\b", lambda found: self.new.parameters[int(found[1])], operator.describe())

    def _ended(self) -> list[Operator]:
        used = {m.old.signature for m in self.match.matched}
        places = self.old.shape.signatures
        return [op for i, op in enumerate(self.old.shape.plan.operators) if op.stateful and places[i] not in used]


def replacement(old: Query, new: Query, streams: Streams) -> Replacement:
    """How a query goes over to another text; ConfigError where that would be another query altogether."""
    was, now = ({scan.stream for _, scan in q.shape.plan.scans} for q in (old, new))
    if not was & now:
        msg = (
            f"the new text reads {', '.join(sorted(now))}, the running one {', '.join(sorted(was))}: nothing can go on"
        )
        raise fault(msg, remedy="submit it under a name of its own, and withdraw this one")
    if old.target != new.target:
        msg = f"results of the running query go to {_stream(old)}, those of the new text to {_stream(new)}"
        raise fault(msg, remedy="insert into the same stream, or submit it under a name of its own")
    written = aligned(old, new, streams)
    return Replacement(old, written, match(old, written, streams))


def _stream(query: Query) -> str:
    return f"stream '{query.target}'" if query.target else "no stream"


def _stateful(query: Query) -> list[int]:
    return [i for i, operator in enumerate(query.shape.plan.operators) if operator.stateful]


def _below(query: Query, index: int) -> list[int]:
    """What an operator stands on, scans first."""
    inputs = query.shape.plan.operators[index].inputs
    return [i for child in inputs for i in (*_below(query, child), child)]
