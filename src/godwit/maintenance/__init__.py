"""Supervision and housekeeping of a running fleet."""
