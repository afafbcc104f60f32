"""Regions as processes against regions as threads; and the control plane far past this machine, simulated."""
