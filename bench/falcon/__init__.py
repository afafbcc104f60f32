"""Falcon's experiments (seed 003, Section IV): keys migrate by every strategy over links with a latency."""
