"""Falcon's experiments (Section IV of its paper): keys migrate by every strategy over links with a latency."""
