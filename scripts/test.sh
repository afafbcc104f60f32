#!/usr/bin/env bash
# Runs the tests in two lanes side by side: most of those that need Spark, and all others (tests/conftest.py says which).
# Arguments go to pytest.
set -uo pipefail
cd "$(dirname "$0")/.."
other=$(mktemp)
trap 'rm -f "$other"' EXIT
# (the lane that waits for timers goes first where both want a core)
nice -n 5 .venv/bin/python -m pytest --lane other -p no:cacheprovider "$@" >"$other" 2>&1 &
beside=$!
trap 'kill $beside 2>/dev/null; rm -f "$other"' INT TERM
.venv/bin/python -m pytest --lane session "$@"
session=$?
echo "--- the other lane, which ran beside this one:"
wait $beside
rest=$?
cat "$other"
exit $((session != 0 ? session : rest))
