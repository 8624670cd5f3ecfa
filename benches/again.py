"""The first call of a process that comes after another: what is left to compile when both compilers have kept what they could.

    make bench BENCH=--again

Each process has its model and its inputs before the clock starts; torch.compile has its caches on, as it has by default.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

import amx
from measure import compiler, timed

RUNS = ("eager", "inductor", "oxytorch")
COLUMNS = f"{'model':10} {'eager':>8} {'torch.compile':>20} {'oxytorch':>20}   first call in s: of the first process, of the second"


def main(models: list[str]) -> None:
    print(COLUMNS)
    for name in models:
        (eager, _), *others = (pair(name, run) for run in RUNS)
        print(f"{name:10} {eager:8.3f} " + " ".join(f"{first:10.3f} {again:9.3f}" for first, again in others), flush=True)


def pair(name: str, run: str) -> tuple[float, float]:
    """The first calls of two processes that share a folder which was empty."""
    with tempfile.TemporaryDirectory(prefix="oxytorch-again-") as folder:
        env = os.environ | dict(TORCHINDUCTOR_CACHE_DIR=folder, OXYTORCH_CACHE_DIR=folder)
        first = lambda: json.loads(subprocess.run([sys.executable, __file__, name, run], env=env, check=True, capture_output=True, text=True).stdout)
        return first(), first()


def first_call(name: str, run: str) -> float:
    amx.avoid_if_broken()
    import torch
    import zoo

    workload = zoo.build(name, torch.float32)
    compiled, _ = compiler(run, "default")(workload.model)
    return timed(lambda: workload.run(compiled))[0]


if __name__ == "__main__":
    print(json.dumps(first_call(*sys.argv[1:])))
