"""Proofs of how good an answer is."""
