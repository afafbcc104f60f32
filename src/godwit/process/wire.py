"""What processes of a fleet say to each other: frames of a JSON head and bytes (Arrow), over TCP, behind a token.

Both sides prove that they have the token by answering the other's nonce (HMAC), so that it never travels. What a
process says is data: nothing on the wire is ever executed or unpickled. With certificates (`tls.py`) it is encrypted.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import os
import secrets
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from godwit import errors
from godwit.errors import ConfigError, GodwitError, StateError, StoreAwayError
from godwit.process.tls import TlsFiles, tls_of

log = logging.getLogger(__name__)

#: the version of what is said here, and of the logs that processes share
FORMAT = 1
#: the environment variable that holds the token
TOKEN = "GODWIT_FLEET_TOKEN"
MOST_HEAD, MOST_BODY = 4_000_000, 512_000_000
#: how long a new connection may take to prove who it is (seconds)
HELLO_SECONDS = 5.0
_LENGTHS = struct.Struct(">II")

Head = dict[str, Any]
Handler = Callable[[Head, bytes], tuple[Head, bytes] | None]


class WireError(GodwitError):
    """A process cannot be reached, or did not answer."""


def token_of(environment: Mapping[str, str]) -> str:
    found = environment.get(TOKEN, "")
    if not found and tls_of(environment) is not None:
        return ""  # certificates say who is who
    if len(found) < 16:
        msg = (
            f"processes of a fleet share a token: set {TOKEN} to at least 16 characters (`openssl rand -hex 16`; of a "
            "fleet that `godwit up` has started, what is in run/token), or give all of them certificates "
            "(GODWIT_TLS_CA, GODWIT_TLS_CERT, GODWIT_TLS_KEY)"
        )
        raise ConfigError(msg)
    return found


def send(to: socket.socket, head: Head, body: bytes = b"") -> None:
    text = json.dumps(head).encode()
    to.sendall(_LENGTHS.pack(len(text), len(body)) + text + body)


def receive(of: socket.socket, most_body: int = MOST_BODY) -> tuple[Head, bytes] | None:
    """The next frame; None: the other side has hung up between two."""
    lengths = _exactly(of, _LENGTHS.size, may_end=True)
    if lengths is None:
        return None
    head_size, body_size = _LENGTHS.unpack(lengths)
    if head_size > MOST_HEAD or body_size > most_body:
        msg = f"a frame of {head_size} + {body_size} bytes is too large; send fewer rows at a time"
        raise WireError(msg)
    head = json.loads(_exactly(of, head_size) or b"{}")
    if not isinstance(head, dict):
        msg = "a frame without a head"
        raise WireError(msg)
    return head, _exactly(of, body_size) or b""


def _exactly(of: socket.socket, size: int, may_end: bool = False) -> bytes | None:
    parts, left = [], size
    while left:
        part = of.recv(min(left, 1 << 20))
        if not part:
            if may_end and left == size:
                return None
            msg = "the other side has hung up in the middle of a frame"
            raise WireError(msg)
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _proof(token: str, side: str, nonce: str) -> str:
    return hmac.new(token.encode(), f"{side}|{nonce}".encode(), hashlib.sha256).hexdigest()


def as_error(fault: Exception) -> Head:
    """An error as others hear of it."""
    told = {
        name: str(getattr(fault, name)) for name in ("problem", "place", "remedy", "region") if hasattr(fault, name)
    }
    kind = StoreAwayError if isinstance(fault, StoreAwayError) else type(fault)  # (each store has its own)
    return {"error": kind.__name__, "message": str(fault), **told}


def raise_error(head: Head) -> None:
    """Raise what the other side has raised; nothing if it has not."""
    name = head.get("error")
    if name is None:
        return
    kind = getattr(errors, str(name), None)
    if not (isinstance(kind, type) and issubclass(kind, GodwitError)):
        kind = StateError
    if issubclass(kind, errors.SqlError):
        raise kind(head.get("problem", ""), place=head.get("place", ""), remedy=head.get("remedy", ""))
    if issubclass(kind, errors.ElsewhereError):
        raise kind(head["message"], head.get("region", ""))
    raise kind(head["message"])


def listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except (OSError, OverflowError) as fault:
        why = getattr(fault, "strerror", None) or fault
        msg = f"cannot listen on {host}, port {port}: {why}; check --host, and give another --port (0: any free)"
        raise ConfigError(msg) from fault


def advertised(told: str, listens: str) -> str:
    """The address that others are told: `told` by the user, its port being that which the process `listens` at unless
    it says another."""
    host, _, port = listens.rpartition(":")
    if not told:
        if host in ("", "0.0.0.0", "::"):
            msg = f"--host {host or '(nothing)'} is every address of this machine; add --advertise HOST"
            raise ConfigError(msg)
        return listens
    named, colon, at = told.rpartition(":")
    if not colon:
        return f"{told}:{port}"
    if not named or not at.isdigit() or not 0 < int(at) < 65536:
        msg = f"--advertise {told!r} is no address; write HOST or HOST:PORT"
        raise ConfigError(msg)
    return told


class Listener:
    """Answers frames, each connection on a thread of its own. `handle` returns an answer, or None for news."""

    def __init__(
        self,
        handle: Handler,
        token: str,
        name: str,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: TlsFiles | None = None,
    ) -> None:
        """`tls`: unless given, as the environment says."""
        self._handle, self._token, self._name = handle, token, name
        files = tls or tls_of(os.environ)
        self._tls = None if files is None else files.context(server=True)
        self._socket = listening(host, port)
        self._open: set[socket.socket] = set()
        self._stopping = False
        self.address = f"{host}:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, name=f"{name}/listen", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._socket.close()
        for one in list(self._open):
            _hang_up(one)

    def _run(self) -> None:
        while not self._stopping:
            try:
                caller, at = self._socket.accept()
            except OSError:
                return
            who = f"{at[0]}:{at[1]}"
            threading.Thread(target=self._serve, args=(caller, who), name=f"{self._name}/{who}", daemon=True).start()

    def _serve(self, caller: socket.socket, who: str) -> None:
        self._open.add(caller)
        try:
            caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                plain, caller = caller, self._encrypted(caller, self._tls, who)
                self._open.discard(plain)
                self._open.add(caller)
            if self._let_in(caller, who):
                while (frame := receive(caller)) is not None:
                    self._answer(caller, *frame)
        except (OSError, WireError, ValueError) as fault:
            if not self._stopping:
                log.info("%s: %s has gone: %s", self._name, who, fault)
        finally:
            self._open.discard(caller)
            _hang_up(caller)

    def _encrypted(self, caller: socket.socket, tls: ssl.SSLContext, who: str) -> socket.socket:
        caller.settimeout(HELLO_SECONDS)
        try:
            made = tls.wrap_socket(caller, server_side=True)
            made.do_handshake()
        except (ssl.SSLError, TimeoutError) as fault:
            told = getattr(fault, "reason", None) or fault
            log.warning(
                "%s: %s connected without a certificate of the fleet, and was refused (%s)", self._name, who, told
            )
            raise
        return made

    def _let_in(self, caller: socket.socket, who: str) -> bool:
        caller.settimeout(HELLO_SECONDS)
        nonce = secrets.token_hex(16)
        send(caller, {"godwit": FORMAT, "nonce": nonce})
        frame = receive(caller, most_body=0)
        told = frame[0] if frame else {}
        if not hmac.compare_digest(str(told.get("proof", "")), _proof(self._token, "caller", nonce)):
            said = str(told.get("name"))[:80]
            log.warning("%s: %s (%r) connected without the fleet's token, and was refused", self._name, who, said)
            refusal = f"{self._name} does not take this token; set the same {TOKEN} everywhere"
            send(caller, {"error": "ConfigError", "message": refusal})
            return False
        if told.get("godwit") != FORMAT:
            log.warning("%s: %s speaks format %s, not %s: refused", self._name, who, told.get("godwit"), FORMAT)
            send(caller, {"error": "ConfigError", "message": _other_format(told.get("godwit"))})
            return False
        send(caller, {"proof": _proof(self._token, "listener", str(told.get("nonce")))})
        caller.settimeout(None)
        return True

    def _answer(self, caller: socket.socket, head: Head, body: bytes) -> None:
        try:
            answer = self._handle(head, body)
        except GodwitError as fault:
            answer = as_error(fault), b""
        except OSError as fault:
            log.warning("%s: '%s' failed: %s", self._name, head.get("do"), fault)
            answer = {"error": "StoreAwayError", "message": f"{self._name} cannot use its store now: {fault}"}, b""
        except Exception as fault:
            log.exception("%s: '%s' failed", self._name, head.get("do"))
            answer = {"error": "StateError", "message": f"{type(fault).__name__}: {fault}"}, b""
        if answer is not None:
            send(caller, *answer)


class WireCaller:
    """A connection to a process of the fleet; one call at a time, made again when it was lost."""

    def __init__(self, address: str, token: str, name: str, timeout: float = 30.0, tls: TlsFiles | None = None) -> None:
        """`tls`: unless given, as the environment says."""
        self.address, self._token, self._name, self._timeout = address, token, name, timeout
        self._files = tls or tls_of(os.environ)
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def call(self, head: Head, body: bytes = b"", timeout: float | None = None) -> tuple[Head, bytes]:
        """Ask and wait; raises what the other side says is wrong. WireError: it may or may not have heard."""
        with self._lock:
            try:
                to = self._connected()
                to.settimeout(timeout or self._timeout)
                send(to, head, body)
                answer = receive(to)
            except GodwitError:
                self._drop()
                raise
            except (OSError, ValueError) as fault:
                plain = isinstance(fault, TimeoutError) and self._socket is None and self._files is None
                hint = " (a fleet with certificates answers only who has GODWIT_TLS_CA, _CERT and _KEY set)" * plain
                msg = f"{self._name} at {self.address} cannot be reached: {fault}{hint}"
                self._drop()
                raise WireError(msg) from fault
            if answer is None:
                self._drop()
                self._hung_up()
        raise_error(answer[0])
        return answer

    def send(self, head: Head) -> None:
        """News: no answer comes, and nothing depends on it that a look at the logs would not find."""
        with self._lock:
            try:
                send(self._connected(), head)
            except (OSError, WireError, ValueError):
                self._drop()
                raise

    def _connected(self) -> socket.socket:
        if self._socket is not None:
            return self._socket
        host, _, port = self.address.rpartition(":")
        made = socket.create_connection((host, int(port)), timeout=HELLO_SECONDS)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if self._files is not None:
                made = self._files.context(server=False).wrap_socket(made)
            self._greet(made)
        except ssl.SSLError as fault:
            made.close()
            msg = f"{self._name} at {self.address} does not take this certificate, or is none of the fleet: {fault}"
            raise ConfigError(msg) from fault
        except BaseException:
            made.close()
            raise
        made.settimeout(self._timeout)
        self._socket = made
        return made

    def _greet(self, made: socket.socket) -> None:
        hello = receive(made, most_body=0)
        if hello is None:
            self._hung_up()
        if hello[0].get("godwit") != FORMAT:
            raise ConfigError(_other_format(hello[0].get("godwit")))
        nonce = secrets.token_hex(16)
        proof = _proof(self._token, "caller", str(hello[0]["nonce"]))
        send(made, {"godwit": FORMAT, "name": f"pid {os.getpid()}", "proof": proof, "nonce": nonce})
        answer = receive(made, most_body=0)
        if answer is None:
            self._hung_up()
        raise_error(answer[0])
        if not hmac.compare_digest(str(answer[0].get("proof", "")), _proof(self._token, "listener", nonce)):
            msg = f"whoever listens at {self.address} does not have the fleet's token"
            raise ConfigError(msg)

    def _hung_up(self) -> NoReturn:
        msg = f"{self._name} at {self.address} has hung up"
        raise WireError(msg)

    def _drop(self) -> None:
        if self._socket is not None:
            _hang_up(self._socket)
            self._socket = None

    def close(self) -> None:
        with self._lock:
            self._drop()


def _other_format(theirs: object) -> str:
    return f"the other process speaks format {theirs}, this one {FORMAT}: run the same godwit version everywhere"


def _hang_up(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
