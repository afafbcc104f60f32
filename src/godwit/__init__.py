"""godwit keeps continuous SQL queries running on Spark while the ground under them moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from godwit.errors import GodwitError

if TYPE_CHECKING:
    from godwit.api.fleet import Fleet

__all__ = ["Fleet", "GodwitError", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Spark is imported only by those who run something.
    if name == "Fleet":
        from godwit.api.fleet import Fleet

        return Fleet
    msg = f"module 'godwit' has no attribute '{name}'"
    raise AttributeError(msg)
