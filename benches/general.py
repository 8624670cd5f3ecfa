"""Code for any size beside code for one size: seven workloads at the sizes of the zoo, each compiler in a fresh process, timed in turns.

    make bench BENCH=--general
    make bench BENCH="--general --models gpt2,vit --iters 40 --threads 1"

`static` is `oxytorch.compile(dynamic=False)`, `general` `dynamic=True`, `torch` is `torch.compile(dynamic=True)`. The first call in seconds,
compile included, is the median of `--repeats` processes; calls after it in milliseconds, the least of all turns: other processes make times
longer, never shorter. An exclamation mark stands behind a ratio above its goal.
"""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import amx
from measure import READY, empty_caches, timed

RUNS = {"static": ("oxytorch", False), "general": ("oxytorch", True), "torch": ("torch", True)}
COLUMNS = f"{'model':10} {'static ms':>9} {'general':>9} {'ratio':>6} {'torch':>9} {'ratio':>6} {'static s':>9} {'general':>9} {'ratio':>6} {'torch':>9}"
# The goals.
STEADY, COLD = 1.05, 1.5


def main(models: list[str], iters: int = 20, repeats: int = 3, rounds: int = 8, threads: int = 0) -> None:
    print(COLUMNS)
    for name in models:
        cold, steady = {}, {}
        for repeat in range(repeats):
            workers = {run: Worker(name, run, threads) for run in RUNS if run != "torch" or repeat == 0}
            for run, worker in workers.items():
                cold.setdefault(run, []).append(worker.first)
            if repeat == 0:
                steady = turns(workers, iters, rounds)
            for worker in workers.values():
                worker.end()
        print(row(name, steady, {run: statistics.median(seconds) for run, seconds in cold.items()}), flush=True)


def turns(workers: dict[str, Worker], iters: int, rounds: int) -> dict[str, float]:
    best = dict.fromkeys(workers, float("inf"))
    for _ in range(rounds):
        for run, worker in workers.items():
            best[run] = min(best[run], worker.turn(-(-iters // rounds)))
    return best


def row(name: str, steady: dict[str, float], cold: dict[str, float]) -> str:
    ratio = lambda times, other, limit: f"{times['general'] / times[other]:5.2f}{'' if times['general'] <= limit * times[other] else '!'}"
    ms = {run: f"{seconds * 1e3:9.2f}" for run, seconds in steady.items()}
    s = {run: f"{seconds:9.2f}" for run, seconds in cold.items()}
    warm = f"{ms['static']} {ms['general']} {ratio(steady, 'static', STEADY):>6} {ms['torch']} {ratio(steady, 'torch', 1):>6}"
    return f"{name:10} {warm} {s['static']} {s['general']} {ratio(cold, 'static', COLD):>6} {s['torch']}"


class Worker:
    """A process with one workload under one compiler and empty caches."""

    def __init__(self, name: str, run: str, threads: int):
        self.folder = tempfile.TemporaryDirectory(prefix="oxytorch-general-")
        command = [sys.executable, pathlib.Path(__file__).resolve(), name, run, str(threads)]
        env = os.environ | empty_caches(self.folder.name)
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.first = self._answer()

    def turn(self, iters: int) -> float:
        """The least of as many calls, in seconds."""
        self.process.stdin.write(f"{iters}\n")
        self.process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.folder.cleanup()

    def _answer(self) -> float:
        for line in self.process.stdout:
            if line.startswith(READY):
                return json.loads(line[len(READY) :])
        raise RuntimeError(f"a process ended with {self.process.wait()}")


def work(name: str, run: str, threads: int) -> None:
    """In the process of a worker: the first call, then as many as it is asked for, line by line."""
    amx.avoid_if_broken()
    import torch
    import zoo

    if threads:
        torch.set_num_threads(threads)
    workload = zoo.build(name)
    compiled = compiled_by(*RUNS[run])(workload.model)
    call = lambda: workload.run(compiled)
    print(READY, timed(call)[0], flush=True)
    for _ in range(3):
        call()
    for line in sys.stdin:
        # The first call of a turn finds other people's data in the caches.
        print(READY, min([timed(call)[0] for _ in range(int(line) + 1)][1:]), flush=True)


def compiled_by(compiler: str, dynamic: bool):
    import oxytorch
    import torch

    return lambda module: (oxytorch if compiler == "oxytorch" else torch).compile(module, dynamic=dynamic)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], int(sys.argv[3]))
