"""The report."""


def write() -> None:
    """Write it."""
