"""Writes crates/ox_py/warm_order.txt: which functions of the extension run in calls that find everything compiled.

    PYTHONPATH=python python scripts/warm_order.py          needs an extension with symbols, on x86-64 Linux

A process that has been compiling and now calls has a breakpoint set on every function; each is taken away when it is hit. Only needed when
the way of a call changes much: a function that is missing in the list is found where it was before.
"""

from __future__ import annotations

import collections
import ctypes
import os
import pathlib
import re
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORDER = ROOT / "crates/ox_py/warm_order.txt"
TRACE_ME, GO_ON, READ_REGISTERS, WRITE_REGISTERS = 0, 7, 12, 13
REGISTERS, RIP = 27, 16
BREAKPOINT = b"\xcc"
# A pattern stands for all instances of generic code. Where these are larger, it is better to look for the one elsewhere.
MOST_BYTES = 32768
WORKLOADS = """
import os, signal, sys
sys.path.insert(0, "benches")
import oxytorch, torch, zoo
torch.set_num_threads(1)
calls = []
for name in zoo.NAMES:
    workload = zoo.build(name, torch.float32, zoo.TEST_SIZES)
    calls.append((workload.run, oxytorch.compile(workload.model)))
# With sizes that vary, and with a backward pass.
double = oxytorch.compile(lambda x: (x * 2).relu() + 1, dynamic=True)
calls.append((lambda f: [f(torch.ones(n, 8)) for n in (3, 5)], double))
calls.append((lambda f: f(torch.ones(3, 8, requires_grad=True)).sum().backward(), oxytorch.compile(lambda x: x.exp() * 2)))
for _ in range(5):
    [run(f) for run, f in calls]
os.kill(os.getpid(), signal.SIGSTOP)
[run(f) for run, f in calls]
os.kill(os.getpid(), signal.SIGSTOP)
"""

ptrace = ctypes.CDLL(None).ptrace
ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def main() -> None:
    (extension,) = (ROOT / "python/oxytorch").glob("_oxytorch*.so")
    pid = os.fork()
    if pid == 0:
        ptrace(TRACE_ME, 0, None, None)
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-c", WORKLOADS])
    while next_stop(pid) != signal.SIGSTOP:
        pass
    symbols, sizes = functions(extension)
    names = called(pid, symbols)
    os.kill(pid, signal.SIGKILL)
    wanted = sorted({pattern(name) for name in names if sizes[pattern(name)] <= MOST_BYTES})
    ORDER.write_text("\n".join(wanted) + "\n")
    print(f"{len(names)} functions, {len(wanted)} patterns, {sum(sizes[name] for name in wanted)} bytes")


def functions(extension: pathlib.Path) -> tuple[dict[int, list[str]], collections.Counter[str]]:
    """Their names by address, and how large all are that a pattern stands for."""
    found: dict[int, list[str]] = {}
    sizes: collections.Counter[str] = collections.Counter()
    nm = subprocess.run(["nm", "--defined-only", "--print-size", extension], capture_output=True, text=True, check=True)
    for line in nm.stdout.splitlines():
        at, *size, kind, name = line.split()
        if kind in "tT":
            found.setdefault(int(at, 16), []).append(name)
            sizes[pattern(name)] += int(*size, 16) if size else 0
    return found, sizes


def called(pid: int, symbols: dict[int, list[str]]) -> set[str]:
    """Of a process that has stopped: up to its next stop."""
    base, start, end = code_of(pid)
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        old = memory.read(end - start)
        new = bytearray(old)
        for at in symbols:
            if start <= base + at < end:
                new[base + at - start : base + at - start + 1] = BREAKPOINT
        memory.seek(start)
        memory.write(new)
        names: set[str] = set()
        registers = (ctypes.c_ulonglong * REGISTERS)()
        while (stop := next_stop(pid)) == signal.SIGTRAP:
            ptrace(READ_REGISTERS, pid, None, ctypes.byref(registers))
            at = registers[RIP] - 1
            memory.seek(at)
            memory.write(old[at - start : at - start + 1])
            registers[RIP] = at
            ptrace(WRITE_REGISTERS, pid, None, ctypes.byref(registers))
            names.update(symbols[at - base])
    if stop is None:
        sys.exit("the process ended before its calls were done: perhaps a thread of its own, which is not looked after, came to a breakpoint")
    return names


def code_of(pid: int) -> tuple[int, int, int]:
    """Where the extension begins, and where its code begins and ends."""
    maps = [line.split() for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines() if "_oxytorch" in line]
    ranges = [[int(side, 16) for side in line[0].split("-")] for line in maps]
    code = next(range for range, line in zip(ranges, maps) if "x" in line[1])
    return ranges[0][0], *code


def next_stop(pid: int) -> int | None:
    """Goes on until a breakpoint or the process' own stop; None if it has ended."""
    passed_on = 0
    while True:
        if next_stop.begun:
            ptrace(GO_ON, pid, None, passed_on or None)
        next_stop.begun = True
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            return None
        if os.WSTOPSIG(status) in (signal.SIGSTOP, signal.SIGTRAP):
            return os.WSTOPSIG(status)
        passed_on = os.WSTOPSIG(status)


next_stop.begun = False


def pattern(name: str) -> str:
    """The name without what differs from one compiler to the next: hashes of types and of crates, and places in the name, which depend on those."""
    name = re.sub(r"17h[0-9a-f]{16}E.*", "17h*", name)
    name = re.sub(r"\.llvm\.\d+$", "*", name)
    return "".join(parts(name)) if name.startswith("_R") else name


# Of a name that Rust has mangled: a crate, a place in the name, a number that tells equal names apart, a constant, the length of an identifier.
PART = re.compile(r"(Cs)[0-9A-Za-z]*_|(B)[0-9A-Za-z]*_|s[0-9A-Za-z]*_|[a-z]n?[0-9a-f]+_|(?P<length>[0-9]+)_?|.")


def parts(name: str):
    """Identifiers are left as they are, whatever letters they begin with."""
    at = 0
    while found := PART.match(name, at):
        at = found.end() + int(found["length"] or 0)
        hashed = found[1] or found[2]
        yield f"{hashed}*_" if hashed else name[found.start() : at]


if __name__ == "__main__":
    main()
