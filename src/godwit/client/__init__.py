"""A fleet behind a server, used as if it were here; without Spark."""

from godwit.client.remote import RemoteFleet

__all__ = ["RemoteFleet"]
