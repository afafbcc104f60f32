"""Regions and the coordinator as processes of their own."""
