#!/bin/bash
# lab.sh api|cluster : builds what the tests on real clusters lack; without Go the tests say themselves what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/local/go/bin"
if ! command -v go >/dev/null; then
  echo "make: Go is not there, so nothing more is built for the tests on real clusters"
elif [ "$1" = cluster ] && [ "$(id -u)" != 0 ]; then
  echo "make: not root, so only the control plane is built; tests on real kubelets need root"
  tests/lab/build.sh api
else
  tests/lab/build.sh "$1"
fi
