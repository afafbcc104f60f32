"""URLs of stores as messages show them: nobody's password stands in a log."""

from __future__ import annotations

import re

_USER = re.compile(r"//[^/@]*@")
_KEYS = "secret|password|token|access_key|account_key|sas"
_SECRET = re.compile(rf"((?:^|&)[^=&]*(?:{_KEYS})[^=&]*=)[^&]*", re.IGNORECASE)


def shown(url: object) -> str:
    """A URL without user, password and keys."""
    head, mark, options = str(url).partition("?")
    return _USER.sub("//", head) + mark + _SECRET.sub(r"\1...", options)
