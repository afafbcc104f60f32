"""Placement search experiments: the paper's figures and tables with ours beside them, and the targets we set."""
