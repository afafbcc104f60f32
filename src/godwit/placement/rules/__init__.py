"""Rules that place instances one by one along the ways to their sinks, and what to re-place after changes."""
