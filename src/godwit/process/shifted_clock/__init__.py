"""See `sitecustomize.py`."""
