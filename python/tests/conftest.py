"""What all tests share. Bugs of the compiler are fatal here: a test must not pass because eager served the call."""

import os
import pathlib
import sys

os.environ.setdefault("OXYTORCH_BUG", "fatal")
# Kernels that an earlier run has compiled would not be compiled here (`test_disk_cache.py` asks for them).
os.environ.setdefault("OXYTORCH_DISK_CACHE", "0")

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "benches"), str(pathlib.Path(__file__).parent)]

import amx  # noqa: E402

amx.avoid_if_broken()

import entries  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_dynamo():
    """Each test compiles for itself."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield


@pytest.fixture(params=entries.ENTRIES)
def entry(request):
    """Each of the ways to compile a function, for inference."""
    with torch.no_grad():
        yield entries.ENTRIES[request.param]


def pytest_terminal_summary(terminalreporter, config):
    for name in ("test_ops", "test_ops_backward"):
        ops = sys.modules.get(name)
        if ops and ops.COUNTS:
            for line in ops.summary(config.get_verbosity() > 0):
                terminalreporter.write_line(line)
