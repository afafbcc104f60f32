"""Logs and segments: where records and rows are kept."""
