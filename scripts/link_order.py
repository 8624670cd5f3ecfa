"""Writes crates/ox_py/llvm_order.txt: which of LLVM's functions run when the kernels of the seven workloads are compiled.

    PYTHONPATH=python python scripts/link_order.py          needs valgrind, and oxytorch

Only needed when another LLVM is linked or the passes change: a function that is missing in the list is found where it was before.
"""

from __future__ import annotations

import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORDER = ROOT / "crates/ox_py/llvm_order.txt"
A_LINE = 20
WORKLOADS = """
import sys; sys.path.insert(0, "benches")
import oxytorch, torch, zoo
for name in zoo.NAMES:
    for dtype in (torch.float32, torch.bfloat16):
        workload = zoo.build(name, dtype)
        workload.run(oxytorch.compile(workload.model))
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", WORKLOADS], cwd=ROOT, env=os.environ | {"OXYTORCH_DEBUG_DIR": folder}, check=True)
        names = called(kernels(pathlib.Path(folder)), pathlib.Path(folder))
    digits = list(dict.fromkeys(digits_of(name) for name in names))
    lines = (" ".join(digits[at : at + A_LINE]) for at in range(0, len(digits), A_LINE))
    ORDER.write_text("\n".join(lines) + "\n")
    print(f"{len(names)} functions")


def kernels(folder: pathlib.Path) -> list[pathlib.Path]:
    """Each once: layers repeat."""
    found = {path.read_text(): path for path in folder.glob("*/*-kernel-*.txt")}
    return sorted(found.values())


def called(files: list[pathlib.Path], folder: pathlib.Path) -> list[str]:
    """What is called most often comes first: what few kernels need is not between that which all of them need."""
    example = ["cargo", "build", "--release", "-q", "-p", "ox_codegen_cpu", "--example", "objects"]
    subprocess.run(example, cwd=ROOT, check=True)
    profile = folder / "callgrind.out"
    valgrind = ["valgrind", "-q", "--tool=callgrind", "--demangle=no", f"--callgrind-out-file={profile}"]
    subprocess.run([*valgrind, ROOT / "target/release/examples/objects", *files], check=True)
    calls = counts(profile.read_text())
    return sorted(calls, key=lambda name: (-calls[name], name))


def counts(profile: str) -> dict[str, int]:
    """How often each function was called. A name is written once, and then goes by its number."""
    names, calls, number = {}, collections.Counter(), None
    for place, given, name, times in re.findall(r"^(c?fn)=\((\d+)\)(?: ([A-Za-z_][^'\s]*))?|^calls=(\d+)", profile, re.MULTILINE):
        if times:
            calls[names.get(number)] += int(times)
            continue
        if name:
            names[given] = name
            calls[name] += 0
        number = given if place == "cfn" else number
    calls.pop(None, None)
    return calls


def digits_of(name: str) -> str:
    """24 bits of FNV-1a, as the build script computes them."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{value & 0xFFFFFF:06x}"


if __name__ == "__main__":
    main()
