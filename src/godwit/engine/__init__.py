"""Spark behind one door: session, plans, rows in and out."""
