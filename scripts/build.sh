#!/usr/bin/env bash
# Builds the extension in release with maturin, into the virtual environment. Run by `make build`, after setup.
set -euo pipefail
cd "$(dirname "$0")/.."

log=target/build.log
mkdir -p target
. .venv/bin/activate
# The first time the package is installed (editable, with its entry point); afterwards only the extension is new.
how=()
if python -c 'import importlib.metadata as m; m.distribution("oxytorch")' 2>/dev/null; then
    how=(--skip-install)
    echo "build: the extension in release"
else
    echo "build: the extension in release (minutes, the first time)"
fi
if ! maturin develop --release "${how[@]}" >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
