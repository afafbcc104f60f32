"""Redeployment strategies, one per file."""
