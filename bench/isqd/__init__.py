"""The published redeployment experiments of ISQD on the running data plane, all strategies side by side."""
