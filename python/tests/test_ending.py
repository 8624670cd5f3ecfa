"""A process may end while NVRTC gets going on a thread of ours."""

import os
import subprocess
import sys

import oxytorch
import pytest

PROGRAM = """
import sys, time
sys.path.insert(0, sys.argv[1])
import torch
torch.cuda.is_initialized = lambda: True
import oxytorch
oxytorch.compile(lambda x: x + 1)
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize("milliseconds", [0, 10, 30, 60])
def test_a_process_that_ends_while_nvrtc_gets_going(milliseconds: int) -> None:
    folder = os.path.dirname(os.path.dirname(oxytorch.__file__))
    ended = subprocess.run([sys.executable, "-c", PROGRAM, folder, str(milliseconds / 1e3)], timeout=120)
    assert ended.returncode == 0
