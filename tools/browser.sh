#!/usr/bin/env bash
# A chromium for the browser tests: says which is there, or installs one: bash tools/browser.sh [find]
#
# `find` only prints the path, nothing if there is none. A machine that cannot install one is told what to do, and that
# is no failure: the tests are skipped there, and say so.
set -euo pipefail

find_one() {
  local name
  for name in "${GLASSFORMER_CHROMIUM:-}" chromium chromium-headless-shell google-chrome; do
    [ -n "$name" ] && command -v "$name" && return
  done
  return 1
}

debian_package() {
  local name
  for name in chromium-headless-shell chromium; do
    apt-cache show "$name" >/dev/null 2>&1 && echo "$name" && return
  done
  return 1
}

install_one() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  local package
  apt-get update -qq && package=$(debian_package) || return 1
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$package" fonts-dejavu
}

if [ "${1:-}" = find ]; then
  find_one || true
elif found=$(find_one); then
  echo "browser: $found"
elif install_one >&2 && found=$(find_one); then
  echo "browser: $found, installed now"
else
  echo "browser: none, so its tests are skipped; install chromium, or name one in GLASSFORMER_CHROMIUM."
fi
