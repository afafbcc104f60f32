"""`python -m bench.service [ingest push page mqtt malformed]`: some figures, without the limit of bench-quick."""

from __future__ import annotations

import json
import sys

from bench.service import malformed
from bench.service.quick import PARTS, figures

if __name__ == "__main__":
    chosen = tuple(sys.argv[1:]) or PARTS
    unknown = set(chosen) - {*PARTS, "malformed"}
    if unknown:
        sys.exit(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}, malformed")
    for figure in figures([part for part in chosen if part in PARTS]):
        print(json.dumps(figure), flush=True)
    if "malformed" in chosen:  # (minutes: not among the quick ones)
        for figure in malformed.figures():
            print(json.dumps(figure), flush=True)
