#!/bin/bash
# venv.sh STAMP : makes the virtual environment that holds STAMP, installs the locked packages and this tree into it, then writes STAMP.
set -euo pipefail
cd "$(dirname "$0")/.."
STAMP=$1
VENV=$(dirname "$STAMP")
FITS='import sys; sys.exit(sys.version_info < (3, 11))'
export PIP_DISABLE_PIP_VERSION_CHECK=1

find_python() { # the first one that is new enough; PYTHON=... names one
  local name
  for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if "$name" -c "$FITS" 2>/dev/null; then command -v "$name"; return; fi
  done
  return 1
}

if ! python=$(find_python); then
  if ! command -v python3 >/dev/null; then
    tools/packages.sh python3 python3-venv
    python=$(find_python) || python=
  fi
  if [ -z "$python" ]; then
    echo "make: Python 3.11 or newer is needed; here python3 is $(python3 --version 2>&1 || true)." >&2
    echo "make: install one, then name it: make PYTHON=/path/to/python3.13 ..." >&2
    exit 1
  fi
fi

"$python" -c 'import ensurepip, venv' 2>/dev/null ||
  tools/packages.sh "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"

# Scripts in a virtual environment name their interpreter by its full path, so a copied one does not run.
if [ -e "$VENV" ] && ! { "$VENV/bin/python" -c "$FITS" && head -1 "$VENV/bin/pip" | grep -qF "$(realpath "$VENV")/"; } 2>/dev/null; then
  rm -rf "$VENV"
fi
echo "make: installing into $VENV with $("$python" --version)"
[ -x "$VENV/bin/python" ] || "$python" -m venv "$VENV"
"$VENV/bin/pip" install --quiet --require-hashes --no-deps -r requirements.lock
"$VENV/bin/pip" install --quiet --no-deps --no-build-isolation -e .
rm -f "$VENV"/.installed-*
touch "$STAMP"
