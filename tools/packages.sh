#!/bin/bash
# packages.sh PACKAGE... : installs the missing ones of these Debian packages as root, or stops with the one command to type.
set -euo pipefail
missing=()
if command -v dpkg >/dev/null; then
  for package in "$@"; do
    dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
  done
else
  missing=("$@")
fi
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
elif command -v apt-get >/dev/null; then
  echo "make: this is missing here; install it with: sudo apt-get install ${missing[*]}" >&2
  exit 1
else
  echo "make: install what your system calls ${missing[*]} (Debian's names), then try again" >&2
  exit 1
fi
