"""What `make bench` prints and draws."""

import re
import subprocess
import tempfile
import types

import bench
import turns


def test_a_process_that_a_signal_ended_says_so():
    """Not the last of its warnings alone, which may be an empty line."""
    errors = tempfile.TemporaryFile("w+")
    errors.write("a warning\n  \n")
    process = subprocess.Popen(["sh", "-c", "kill -9 $$"])
    process.wait()
    failure = turns.Worker._failure(types.SimpleNamespace(errors=errors, process=process))
    row = bench.line(dict(model="bert", run="oxytorch", mode="freezing", failed=failure), None)
    assert "exit code -9" in row and "a warning" in row


def test_the_chart_shows_the_mode_that_was_measured(tmp_path):
    row = lambda run, mode, ms: dict(model="bert", run=run, mode=mode, ms=ms, first_s=0.5)
    shapes = {}
    for mode in ("default", "freezing"):
        bench.chart([row("eager", "default", 4.0), row("oxytorch", mode, 2.0)], tmp_path / f"{mode}.svg")
        shapes[mode] = re.findall(r' d="([^"]+)"', (tmp_path / f"{mode}.svg").read_text())
    assert shapes["freezing"] == shapes["default"]
    bench.chart([row("eager", "default", 4.0)], tmp_path / "alone.svg")
