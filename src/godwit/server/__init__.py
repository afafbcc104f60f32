"""godwit as a service: one process, one port, REST under /v1, live results, metrics and the page."""
