"""Scenario files: what to run, and running it."""
