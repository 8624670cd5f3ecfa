"""Measurements that take turns: each in a process of its own with empty caches, compiled one after the other, then timed in rounds.

A machine that others use is slower in one minute than in the next. What is compared must therefore be measured in the same minutes.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import measure

PROGRAM = pathlib.Path(measure.__file__).resolve()


class Worker:
    """A process that measures one workload under one compiler."""

    def __init__(self, name: str, run: str, mode: str, dtype: str, iters: int, train: bool):
        self.about = dict(model=name, run=run, mode=mode, dtype=dtype)
        self.folder = tempfile.TemporaryDirectory(prefix="oxytorch-bench-")
        self.errors = tempfile.TemporaryFile("w+")
        command = [sys.executable, PROGRAM, name, run, "--mode", mode, "--dtype", dtype, "--iters", str(iters), "--turns"]
        command += ["--train"] if train else []
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.process = subprocess.Popen(command, env=os.environ | measure.empty_caches(self.folder.name), **pipes)
        self.line = self._next_line()

    def turn(self) -> None:
        if self.line != measure.READY:
            return
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        self.line = self._next_line()

    def result(self) -> dict:
        if self.line == measure.READY:
            self.process.stdin.close()
            self.line = self._next_line()
        self.process.wait()
        self.folder.cleanup()
        return json.loads(self.line) if self.line.startswith("{") else self.about | dict(failed=self._failure())

    def _next_line(self) -> str:
        """What libraries print besides is not meant for us; nothing is left to read when the process is dead."""
        for line in self.process.stdout:
            if line.strip() == measure.READY or line.startswith("{"):
                return line.strip()
        return ""

    def _failure(self) -> str:
        self.errors.seek(0)
        # The last line may be a warning's, if a signal ended the process.
        said = [line for line in self.errors.read().splitlines() if line.strip()]
        return " ".join([f"exit code {self.process.returncode}", *said[-1:]])


def side_by_side(name: str, runs, dtype: str = "float32", iters: int = 20, train: bool = False, rounds: int = 5):
    """For each (run, mode), in their order, what `measure.measure` returns; its `iters` calls are spread over so many rounds."""
    workers = [Worker(name, run, mode, dtype, -(-iters // rounds), train) for run, mode in runs]
    for _ in range(rounds):
        for worker in workers:
            worker.turn()
    return [worker.result() for worker in workers]
