"""What `godwit` logs on stderr: lines for people, or objects for machines (`--log json`)."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from godwit.errors import ConfigError

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """One object per record."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told)


def set_up_logging(how: str, level: int) -> None:
    if how not in ("text", "json"):
        msg = f"--log {how!r} is unknown; use text or json"
        raise ConfigError(msg)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if how == "json" else logging.Formatter(TEXT))
    logging.basicConfig(level=level, handlers=[handler])
