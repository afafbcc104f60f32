"""Mutual TLS between processes: certificates of the fleet's own authority, by files that the environment names.

    GODWIT_TLS_CA=ca.pem GODWIT_TLS_CERT=edge-west.pem GODWIT_TLS_KEY=edge-west.key

With all three set, everything that processes say is encrypted, and whoever has no certificate of that authority gets
nothing. The token is then an addition, not a need. Host names are not compared: regions move between machines.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from godwit.errors import ConfigError

CA, CERT, KEY = "GODWIT_TLS_CA", "GODWIT_TLS_CERT", "GODWIT_TLS_KEY"


@dataclass(frozen=True)
class TlsFiles:
    ca: str
    cert: str
    key: str

    def context(self, server: bool) -> ssl.SSLContext:
        """ConfigError names the file that cannot be used."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        made.check_hostname = False
        made.verify_mode = ssl.CERT_REQUIRED
        try:
            made.load_verify_locations(self.ca)
            made.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as fault:
            msg = f"the files of {CA}, {CERT} and {KEY} cannot be used: {fault}; give PEM files of one authority"
            raise ConfigError(msg) from fault
        return made


def tls_of(environment: Mapping[str, str]) -> TlsFiles | None:
    """None: none of them is set."""
    told = [environment.get(name, "") for name in (CA, CERT, KEY)]
    if not any(told):
        return None
    if not all(told):
        missing = ", ".join(name for name, value in zip((CA, CERT, KEY), told, strict=True) if not value)
        msg = f"TLS needs {CA}, {CERT} and {KEY}; not set: {missing}"
        raise ConfigError(msg)
    return TlsFiles(*told)
