#!/bin/bash
# build.sh [api|cluster] : builds what the real-cluster tests run, from released Go modules, into ${SUBLET_LAB:-~/.cache/sublet-lab}.
#   api      etcd, kube-apiserver, kube-scheduler, kube-controller-manager, kubectl: no root
#   cluster  + kubelet (two versions), containerd with its shim and ctr, images; as root on Debian it installs runc, CNI plugins, busybox
# Does only what is missing. From nothing about 9 minutes of two idle cores and 5 GB of Go caches; with warm caches half a minute.
set -euo pipefail
: "${HOME:=/root}"
HERE=$(cd "$(dirname "$0")" && pwd)
LAB=${SUBLET_LAB:-$HOME/.cache/sublet-lab}
LEVEL=${1:-cluster}
KUBERNETES=v1.37.2
OLDER_KUBELET=v1.34.4
CONTAINERD=v2.4.2
export CGO_ENABLED=0 GOTOOLCHAIN=auto

kubernetes() { # kubernetes VERSION NAME... : those of the commands that are not there yet
  local v=$1 b="$LAB/bin/$1" s="$LAB/src/$1" p=k8s.io/component-base/version c=k8s.io/client-go/pkg/version todo=() x
  shift
  for x in "$@"; do
    [ -x "$b/$x" ] && continue
    if [ "$x" = etcd ]; then todo+=("$x"); else todo+=("k8s.io/kubernetes/cmd/$x"); fi
  done
  [ ${#todo[@]} -gt 0 ] || return 0
  mkdir -p "$b"; [ -f "$s/go.mod" ] || "$HERE/mkmod.sh" "$v" "$s"
  local set="-X $p.gitVersion=$v -X $p.gitMajor=1 -X $p.gitMinor=$(echo "$v" | cut -d. -f2) -X $p.gitTreeState=clean -X $p.gitCommit=lab -X $p.buildDate=2026-01-01T00:00:00Z"
  set="$set -X $c.gitVersion=$v"
  for x in "${todo[@]}"; do
    echo "building ${x##*/} $v"
    if [ "$x" = etcd ]; then x=go.etcd.io/etcd/server/v3; fi
    local out="$b/.${x##*/}.new"   # a build that is cut off leaves no half binary under the final name
    (cd "$s" && GOFLAGS="-mod=mod -buildvcs=false -trimpath" go build -ldflags "-s -w $set" -o "$out" "$x")
    if [ "$x" = go.etcd.io/etcd/server/v3 ]; then mv "$out" "$b/etcd"; else mv "$out" "$b/${x##*/}"; fi
  done
}

command -v go >/dev/null || { echo "lab: Go 1.26 or newer is needed to build Kubernetes" >&2; exit 1; }
kubernetes "$KUBERNETES" etcd kube-apiserver kubectl kube-scheduler kube-controller-manager
[ "$LEVEL" = cluster ] || exit 0

packages=(runc containernetworking-plugins busybox-static iproute2 gcc libc6-dev util-linux)
missing=()
for p in "${packages[@]}"; do dpkg -s "$p" >/dev/null 2>&1 || missing+=("$p"); done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
  else
    echo "lab: install these first: sudo apt-get install ${missing[*]}" >&2; exit 1
  fi
fi
kubernetes "$KUBERNETES" kubelet
kubernetes "$OLDER_KUBELET" kubelet
for x in containerd containerd-shim-runc-v2 ctr; do
  [ -x "$LAB/bin/$KUBERNETES/$x" ] && continue
  echo "building $x $CONTAINERD"
  (cd / && GOBIN="$LAB/bin/$KUBERNETES" GOFLAGS=-buildvcs=false go install -trimpath -ldflags "-s -w" "github.com/containerd/containerd/v2/cmd/$x@$CONTAINERD")
done
[ -f "$LAB/images/pause.tar" ] && [ -f "$LAB/images/busybox.tar" ] || python3 "$HERE/images.py" "$LAB/images"
