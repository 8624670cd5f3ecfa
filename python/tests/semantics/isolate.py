"""Runs cases in processes of their own, so that a crash or a hang is the result of one case and not the end of all."""

import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent.parent
SECONDS = 60
END = "the end of the process"


def run(names, capture="oxytorch", python=sys.executable):
    """Yields a report for each case."""
    left = list(names)
    while left:
        for report in run_process(left, capture, python):
            yield report
            if report["case"] != END:
                left.remove(report["case"])


def run_process(names, capture, python):
    """Reports until the process ends; the case that ended it is reported last."""
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1", "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryFile() as errors:
        command = [python, "-m", "semantics.worker", capture, *names]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment, cwd=TESTS)
        begun, done = None, 0
        for line in lines_within(process, SECONDS):
            message = json.loads(line)
            begun = message.get("begin")
            if "case" in message:
                done += 1
                yield message
        status = "hung" if process.poll() is None else "crashed"
        process.kill()
        process.wait()
        errors.seek(0)
        tail = errors.read().decode(errors="replace").splitlines()
        if not done and begun is None:
            raise RuntimeError("\n".join(tail[-20:]))
        if begun or process.returncode:
            yield {"case": begun or END, "status": status, "lines": [f"exit status {process.returncode}", *crash(tail)], "complaints": []}


def crash(tail, limit=14):
    """The part of the error output that says where it crashed."""
    fatal = next((n for n, line in enumerate(tail) if "Fatal" in line or "panicked" in line), max(0, len(tail) - limit))
    return tail[fatal : fatal + limit]


def lines_within(process, seconds):
    """The lines of a process's output; ends with the output, or when nothing came for too long."""
    pending, descriptor = b"", process.stdout.fileno()
    while select.select([descriptor], [], [], seconds)[0]:
        data = os.read(descriptor, 1 << 16)
        if not data:
            process.wait()
            return
        *lines, pending = (pending + data).split(b"\n")
        yield from lines
