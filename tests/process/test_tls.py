"""Mutual TLS between processes: who has no certificate of the fleet gets nothing, and the log says who connected."""

from __future__ import annotations

import ast
import contextlib
import datetime
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import godwit
from godwit.errors import ConfigError
from godwit.process.tls import TlsFiles, tls_of
from godwit.process.wire import Head, Listener, WireCaller, WireError, token_of

Signed = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def _signed(name: str, by: Signed | None = None) -> Signed:
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(who).issuer_name(by[0].subject if by else who)
    made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
    made = made.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
    made = made.add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    return made.sign(by[1] if by else key, hashes.SHA256()), key


def _files(folder: Path, name: str, authority: Signed) -> TlsFiles:
    certificate, key = _signed(name, authority)
    ca, cert, secret = (folder / f"{name}.{kind}" for kind in ("ca", "pem", "key"))
    ca.write_bytes(authority[0].public_bytes(serialization.Encoding.PEM))
    cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    secret.write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
    return TlsFiles(str(ca), str(cert), str(secret))


@pytest.fixture
def authority() -> Signed:
    return _signed("the fleet")


@pytest.fixture
def listener(tmp_path: Path, authority: Signed) -> Iterator[Listener]:
    made = Listener(_answers, "", "west", tls=_files(tmp_path, "west", authority))
    made.start()
    yield made
    made.stop()


def _answers(head: Head, body: bytes) -> tuple[Head, bytes]:
    return {"size": len(body)}, body[::-1]


def test_processes_with_certificates_of_the_fleet_talk(tmp_path: Path, authority: Signed, listener: Listener) -> None:
    caller = WireCaller(listener.address, "", "west", tls=_files(tmp_path, "east", authority))
    assert caller.call({"do": "echo"}, b"ab" * 500_000) == ({"size": 1_000_000}, b"ba" * 500_000)
    caller.close()


def test_a_certificate_of_another_authority_gets_nothing(
    tmp_path: Path, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = _files(tmp_path, "stranger", _signed("somebody else"))
    with pytest.raises((ConfigError, WireError)):
        WireCaller(listener.address, "", "west", tls=stranger).call({"do": "echo"})
    _logged(caplog)


def test_who_trusts_the_fleet_but_has_a_foreign_certificate_is_logged(
    tmp_path: Path, authority: Signed, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    foreign, mine = _files(tmp_path, "stranger", _signed("somebody else")), _files(tmp_path, "x", authority)
    caller = WireCaller(listener.address, "", "west", tls=TlsFiles(mine.ca, foreign.cert, foreign.key))
    with pytest.raises((ConfigError, WireError)):
        caller.call({"do": "echo"})
    _logged(caplog)


def test_without_tls_nothing_is_said(listener: Listener, caplog: pytest.LogCaptureFixture) -> None:
    host, _, port = listener.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5) as plain:
        plain.sendall(b"\0" * 64)
        said = b""
        with contextlib.suppress(ConnectionResetError):
            said = plain.recv(1024)
        assert not said.startswith(b"\0\0")  # (an alert of TLS at most, no frame of ours)
    _logged(caplog)


def _logged(caplog: pytest.LogCaptureFixture) -> None:
    until = time.monotonic() + 5
    while "connected without a certificate of the fleet" not in caplog.text and time.monotonic() < until:
        time.sleep(0.01)
    assert "west: 127.0.0.1:" in caplog.text
    assert any(record.levelno == logging.WARNING for record in caplog.records)


def test_the_environment_names_the_files(tmp_path: Path, authority: Signed) -> None:
    assert tls_of({}) is None
    files = _files(tmp_path, "west", authority)
    told = {"GODWIT_TLS_CA": files.ca, "GODWIT_TLS_CERT": files.cert, "GODWIT_TLS_KEY": files.key}
    assert tls_of(told) == files
    assert token_of(told) == ""
    with pytest.raises(ConfigError, match="not set: GODWIT_TLS_KEY"):
        tls_of({k: v for k, v in told.items() if k != "GODWIT_TLS_KEY"})
    with pytest.raises(ConfigError, match="cannot be used"):
        TlsFiles(files.ca, files.cert, str(tmp_path / "none")).context(server=True)


def test_nothing_that_processes_say_or_keep_is_pickled() -> None:
    """Neither on a wire nor in a store: no module imports a library that executes what it reads."""
    forbidden, pickled = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}, set()
    for file in Path(godwit.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if {name.split(".")[0] for name in names} & forbidden:
                pickled.add(file.relative_to(Path(godwit.__file__).parent).as_posix())
    assert not pickled, "say it as JSON or Arrow"
