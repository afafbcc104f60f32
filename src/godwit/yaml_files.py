"""YAML files that users write: what cannot be read is said with its line and column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from godwit.errors import ConfigError, GodwitError

#: libyaml's where PyYAML was built with it: ten times faster, and as safe
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path, kind: type[GodwitError] = ConfigError, what: str = "") -> Any:
    """A file's content. `kind`: of the error, if it cannot be read; `what`: "the topology file "."""
    return parse_yaml(read_text(path, kind, what), str(path), kind)


def read_text(path: Path, kind: type[GodwitError] = ConfigError, what: str = "") -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or error) if isinstance(error, OSError) else error
        msg = f"cannot read {what}{path}: {why}; check the path and that it is UTF-8 text"
        raise kind(msg) from error


def parse_yaml(text: str, name: str, kind: type[GodwitError] = ConfigError) -> Any:
    """`name`: how messages call the text."""
    try:
        return yaml.load(text, _LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        msg = f"{where}: not YAML: {getattr(error, 'problem', None) or error}; check indentation and brackets"
        raise kind(msg) from None


def to_yaml(content: Any) -> str:
    """As people write it: short lists on one line, keys in their order."""
    return str(yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=120))
