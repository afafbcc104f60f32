"""Commands from requests: written to the command log, then awaited or followed by their number."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from pydantic import BaseModel

from godwit.control.commands import Command
from godwit.server.service import service_of

#: whether the response waits until the command is carried out; otherwise its number is returned at once
Wait = Annotated[bool, Query(description="Wait until it is carried out; otherwise follow /v1/commands/{number}.")]


class CommandSent(BaseModel):
    """What has become of a command."""

    command: int
    #: "done" or "waiting"
    state: str
    epoch: int | None = None
    #: queries that have no place from now on, with the reason: their rows wait, and they resume by themselves
    suspended: dict[str, str] = {}


def send(request: Request, command: Command, wait: bool) -> CommandSent:
    """Raises what is wrong with the command, if the response waits for it."""
    fleet = service_of(request).fleet
    if not wait:
        return CommandSent(command=fleet.post(command), state="waiting")
    before = fleet.deployment.parked
    number, epoch = fleet.execute(command)
    now = {str(query): why for query, why in fleet.deployment.parked.items() if before.get(query) != why}
    return CommandSent(command=number, state="done", epoch=epoch, suspended=now)
