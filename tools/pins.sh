#!/usr/bin/env bash
# Write requirements.lock and constraints-oldest.txt anew, after a change of pyproject.toml or constraints.txt: bash tools/pins.sh
#
# It needs uv (pip install uv). The lock file leaves torch out: each platform has builds of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 - "$work" <<'PY'
import sys, tomllib
from pathlib import Path

work, project = Path(sys.argv[1]), tomllib.loads(Path("pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
needed = project["dependencies"] + [one for name, of in extras.items() if name not in ("dev", "docs", "all") for one in of]
(work / "oldest.txt").write_text("\n".join(one.replace(">=", "==") for one in needed))
(work / "all.in").write_text("\n".join(one for one in needed if not one.startswith("torch>")))
(work / "dev.in").write_text("\n".join(extras["dev"]))
PY
compile=(uv pip compile --quiet --no-header --no-annotate --python-version 3.11)
"${compile[@]}" --universal --generate-hashes --constraint constraints.txt --output-file "$work/lock" "$work/all.in"
"${compile[@]}" --constraint "$work/oldest.txt" --output-file "$work/tested" "$work/all.in" "$work/dev.in"
mv "$work/lock" requirements.lock
grep -vE "^(triton|nvidia-|cuda-)" "$work/tested" > constraints-oldest.txt
