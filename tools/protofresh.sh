#!/bin/bash
# protofresh.sh : fails when the checked-in generated messages are not what proto/ says.
set -euo pipefail
cd "$(dirname "$0")/.."
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
tools/proto.sh "$made"
for package in v1 kubelet amd; do
  diff -r --exclude=__pycache__ --exclude=__init__.py "sublet/$package" "$made/sublet/$package" >&2 || {
    echo "make: sublet/$package is not what proto/ says: run make proto" >&2
    exit 1
  }
done
