"""The store of a fleet by its URL: what processes share."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlparse

from godwit.errors import ConfigError


def folder_of(url: str | Path) -> Path:
    """The folder that `file:` names, or a plain path; ConfigError for what is not there yet."""
    if isinstance(url, Path):
        return url.resolve()
    parts = urlparse(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(parts.path).resolve()
    if not parts.scheme:
        return Path(url).resolve()
    msg = f"store '{url}': processes share a folder; give file:/path (on all machines the same, for example NFS)"
    raise ConfigError(msg)
