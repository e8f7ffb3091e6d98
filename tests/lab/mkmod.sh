#!/bin/bash
# mkmod.sh VERSION DIR : writes DIR/go.mod, which pins k8s.io/kubernetes VERSION and its staging modules
set -euo pipefail
V=$1; D=$2; S=v0.${V#v1.}
mkdir -p "$D"; cd "$D"
src=$(GOFLAGS=-mod=mod go mod download -json "k8s.io/kubernetes@$V" | python3 -c 'import json,sys;print(json.load(sys.stdin)["GoMod"])')
{
  echo "module lab.local/kube"; echo
  grep -E '^(go|godebug) ' "$src"
  echo; echo "require k8s.io/kubernetes $V"
  # upstream's own requirements, with staging v0.0.0 -> v0.X.Y
  awk '/^require \(/{p=1} p{print} p&&/^\)/{p=0}' "$src" | sed "s/ v0\.0\.0$/ $S/; s/ v0\.0\.0 / $S /"
  echo "replace ("
  sed -nE "s#^\s*(k8s.io/[a-z0-9-]+) => \./staging.*#\t\1 => \1 $S#p" "$src"
  echo ")"
} >go.mod.tmp
mv go.mod.tmp go.mod
