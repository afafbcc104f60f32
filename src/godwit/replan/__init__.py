"""Changing the plan of a running query: trees, boxes, matching of states, strategies and what they cost (pure)."""
