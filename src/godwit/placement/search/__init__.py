"""Searches over placement plans, one per file."""
