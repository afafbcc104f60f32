"""Who may do what: bearer tokens with roles. Pure; the routes ask, and refuse with the answer's reason.

    read      look at everything, follow results, dry runs
    feed      send rows, perhaps of some streams or one device only, and attach that device
    operate   read, feed, and change what runs: queries, devices, topology, placement
    admin     operate, and declare streams

Tokens are kept as SHA-256 digests: a token is 32 random bytes, so a digest cannot be guessed back. Tokens come from a
YAML file (`godwit serve --tokens FILE`) or from GODWIT_TOKENS ("name:role:token, name:role:token").
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from godwit.errors import ConfigError
from godwit.validation import worded
from godwit.yaml_files import read_yaml


class Role(StrEnum):
    READ = "read"
    FEED = "feed"
    OPERATE = "operate"
    ADMIN = "admin"


#: role -> its rights
ALLOWS: Mapping[Role, frozenset[Role]] = {
    Role.READ: frozenset({Role.READ}),
    Role.FEED: frozenset({Role.FEED}),
    Role.OPERATE: frozenset({Role.READ, Role.FEED, Role.OPERATE}),
    Role.ADMIN: frozenset(Role),
}


class Token(BaseModel):
    """A line of the tokens file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=100)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    role: Role
    #: of a feeder: the streams it may feed (default: all)
    streams: tuple[str, ...] | None = None
    #: of a feeder: the device it is
    device: str | None = None


class TokensFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tokens: tuple[Token, ...]


@dataclass(frozen=True)
class Caller:
    """The sender of a request."""

    name: str
    role: Role
    streams: tuple[str, ...] | None = None
    device: str | None = None

    def refusal(self, need: Role) -> str | None:
        """Why the caller may not do something that needs a role; None: it may."""
        if need in ALLOWS[self.role]:
            return None
        return f"token '{self.name}' has the role '{self.role}', and this needs '{need}'"

    def attaching_refusal(self, device: str) -> str | None:
        """Why the caller may not say where a device is; None: it may. A feeder speaks for its own device only."""
        if self.role is not Role.FEED or self.device == device:
            return None
        mine = f"for device '{self.device}'" if self.device else "for no device"
        return f"token '{self.name}' is {mine}, and may not attach '{device}'; that needs its own token, or 'operate'"

    def feeding_refusal(self, stream: str, device: str | None) -> str | None:
        """Why the caller may not send rows of a stream (and a device, if it names one); None: it may."""
        if self.streams is not None and stream not in self.streams:
            return f"token '{self.name}' may feed {', '.join(self.streams) or 'no stream'}, not '{stream}'"
        if self.device is not None and device != self.device:
            return f"token '{self.name}' is for device '{self.device}'; send its rows only, with ?device={self.device}"
        return None


#: the caller of a server without tokens
ANYBODY = Caller("anybody", Role.ADMIN)


class Access:
    """All tokens of a server; without tokens, every caller has all rights."""

    def __init__(self, tokens: Sequence[Token] = ()) -> None:
        self._tokens = tuple(tokens)
        names = [token.name for token in tokens]
        if len(names) != len(set(names)):
            msg = f"two tokens have one name ({', '.join(sorted(names))}); give each its own"
            raise ConfigError(msg)

    @property
    def open(self) -> bool:
        return not self._tokens

    def caller(self, token: str | None) -> Caller | None:
        """The owner of a token; None: it is unknown."""
        if self.open:
            return ANYBODY
        digest = digest_of(token or "")
        found = None
        for known in self._tokens:  # all of them, so that the time taken says nothing
            if hmac.compare_digest(known.sha256, digest):
                found = Caller(known.name, known.role, known.streams, known.device)
        return found


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def new_token() -> str:
    return secrets.token_urlsafe(32)


def load_tokens(file: Path | None, environment: Mapping[str, str]) -> Access:
    """Tokens of a file and of the environment."""
    found = [*_from_file(file)] if file is not None else []
    found += _from_text(environment.get("GODWIT_TOKENS", ""))
    return Access(found)


def _from_file(file: Path) -> tuple[Token, ...]:
    try:
        return TokensFile.model_validate(read_yaml(file, what="the tokens file ")).tokens
    except ValidationError as error:
        first = worded(error.errors(), TokensFile, secret=True)[0]
        msg = f"{file}: {first}; `godwit token NAME --role read` prints a line of it"
        raise ConfigError(msg) from error


def _from_text(text: str) -> list[Token]:
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, rest = part.partition(":")
        role, _, token = rest.partition(":")
        if not (name and token and role in list(Role)):
            roles = ", ".join(Role)
            msg = f"GODWIT_TOKENS: '{name}:{role}:...' is not name:role:token, where role is one of {roles}"
            raise ConfigError(msg)
        found.append(Token(name=name, sha256=digest_of(token), role=Role(role)))
    return found
