"""Drivers of other systems (Kafka, PostgreSQL, ...): an extra of the installation, imported when one is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from godwit.errors import ConfigError


def driver(module: str) -> Any:
    """A module of the extra `connectors`; a ConfigError says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        msg = f"this needs the Python package of '{module}' ({error}): pip install 'godwit[connectors]'"
        raise ConfigError(msg) from error
