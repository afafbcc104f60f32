"""`python -m bench.service [ingest push page mqtt]`: some of the figures, without the limit of bench-quick."""

from __future__ import annotations

import json
import sys

from bench.service.quick import PARTS, figures

if __name__ == "__main__":
    unknown = set(sys.argv[1:]) - set(PARTS)
    if unknown:
        sys.exit(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    for figure in figures(tuple(sys.argv[1:]) or PARTS):
        print(json.dumps(figure), flush=True)
