#!/bin/bash
# proto.sh [OUT] : generates sublet/v1, sublet/kubelet and sublet/amd from proto/ below OUT, by default this tree.
set -euo pipefail
cd "$(dirname "$0")/.."
OUT=${1:-.}
PYTHON=${VENV:-.venv}/bin/python
"$PYTHON" -m grpc_tools.protoc -I proto --python_out="$OUT" --pyi_out="$OUT" proto/sublet/v1/*.proto
"$PYTHON" -m grpc_tools.protoc -I proto --python_out="$OUT" --pyi_out="$OUT" proto/sublet/amd/*.proto
"$PYTHON" -m grpc_tools.protoc -I proto --python_out="$OUT" --pyi_out="$OUT" --grpc_python_out="$OUT" proto/sublet/kubelet/*.proto
