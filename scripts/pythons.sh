#!/usr/bin/env bash
# Builds the extension for other interpreters and runs the tests of capture with each. Run by `make pythons`, after setup.
# Environments and artifacts lie in target/pythons; an interpreter that is not installed is left out.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'pythons: %s\n' "$*"; }

# `python3.x` of the path that can run, or pyenv's.
find_python() {
    local candidate
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
        if "$candidate" -c 'import venv' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
}

tests=(test_capture*.py test_nothing_twice.py test_semantics.py test_semantics_itself.py test_compile.py)

failed=
for version in "$@"; do
    python=$(find_python "$version")
    if [ -z "$python" ]; then
        say "there is no Python $version"
        continue
    fi
    home=$PWD/target/pythons/$version
    stamp=$home/setup.stamp
    packages=$(grep -E '^(torch|numpy|pytest|expecttest)==' requirements-dev.txt | sed 's/ *#.*//')
    if [ "$(cat "$stamp" 2>/dev/null)" != "$packages" ]; then
        say "an environment for $("$python" -V) (minutes, once)"
        "$python" -m venv --clear "$home/venv"
        # shellcheck disable=SC2086
        "$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check $packages
        printf '%s\n' "$packages" >"$stamp"
    fi
    say "building for $version"
    PYO3_PYTHON=$home/venv/bin/python CARGO_TARGET_DIR=$home/build cargo build --quiet --profile quick -p ox_py
    suffix=$("$home/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
    cp "$home/build/quick/lib_oxytorch.so" "python/oxytorch/_oxytorch$suffix"
    say "testing with $version"
    (cd python/tests && PYTHONPATH=.. OXYTORCH_BUG=fatal "$home/venv/bin/python" -m pytest -q -p no:cacheprovider ${tests[@]}) || failed="$failed $version"
done
[ -z "$failed" ] || { say "failed with$failed"; exit 1; }
