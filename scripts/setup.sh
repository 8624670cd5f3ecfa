#!/usr/bin/env bash
# Makes this machine ready to build: LLVM 19 from apt and a virtual environment in .venv with the pinned packages.
# Does nothing (and takes no time) when all of it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { say "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else die "need root (or sudo) for: $*"; fi
}

install_llvm() {
    # libpolly, zlib and zstd are what a static LLVM links against.
    local packages=(llvm-19-dev libpolly-19-dev zlib1g-dev libzstd-dev)
    command -v apt-get >/dev/null || die "LLVM 19 is missing and there is no apt-get: install LLVM 19 and set LLVM_SYS_191_PREFIX"
    say "installing ${packages[*]} with apt (once)"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null \
        || die "apt could not install LLVM 19: see https://apt.llvm.org, or set LLVM_SYS_191_PREFIX"
}

# The newest supported interpreter that is here: 3.12 is what the pins are tested with.
find_python() {
    local candidate
    for candidate in "${OXYTORCH_PYTHON:-}" "$HOME"/.pyenv/versions/3.12*/bin/python3.12 python3.12 python3.13 python3.11 python3; do
        [ -n "$candidate" ] || continue
        if "$candidate" -c 'import sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    die "no Python 3.11 to 3.13 found: install one, or set OXYTORCH_PYTHON"
}

# torch with its CUDA libraries is 5 GB, and 3 GB more while it is being unpacked; what is built comes to 4 GB.
ask_for_room() {
    local free
    free=$(df --output=avail -BG . 2>/dev/null | tail -1 | tr -dc 0-9) || true
    if [ -n "$free" ] && [ "$free" -lt 13 ]; then say "$free GB are free here: .venv and the build need about 13"; fi
}

make_venv() {
    local python
    python=$(find_python)
    ask_for_room
    say "creating .venv with $("$python" -V) and the packages of requirements-dev.txt (a few minutes, once)"
    "$python" -m venv --clear .venv
    .venv/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check -r requirements-dev.txt
}

if ! { [ -n "${LLVM_SYS_191_PREFIX:-}" ] && [ -x "$LLVM_SYS_191_PREFIX/bin/llvm-config" ]; } && ! command -v llvm-config-19 >/dev/null; then
    install_llvm
fi
command -v cargo >/dev/null || die "Rust is missing: see https://rustup.rs"

stamp=.venv/oxytorch-setup.stamp
if ! { [ -x .venv/bin/python ] && cmp -s requirements-dev.txt "$stamp"; }; then
    make_venv
    cp requirements-dev.txt "$stamp"
fi
