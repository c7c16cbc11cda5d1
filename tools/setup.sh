#!/usr/bin/env bash
# Make the virtual environment: bash tools/setup.sh PYTHON VENV [CONSTRAINTS]
#
# CONSTRAINTS is a file of pinned versions; without one, the newest versions are installed.
# torch comes first and alone: its CPU build is enough for everything here, and on Linux a plain install would bring
# several gigabytes of GPU libraries along with a newer version.
set -euo pipefail
python=$1 venv=$2 pinned=(--upgrade --upgrade-strategy eager)
[ -z "${3:-}" ] || pinned=(--constraint "$3")
"$python" - <<'PY' || { echo "glassformer needs Python 3.11 or newer; run make PYTHON=python3.11" >&2; exit 1; }
import sys
sys.exit(sys.version_info < (3, 11))
PY
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${pinned[@]}")
"${pip[@]}" torch
# Without this, the pip of Debian 12 runs the setup.py of a source package with what it finds in the environment.
"${pip[@]}" --use-pep517 --editable ".[dev,all]"
