"""`mode="reduce-overhead"`: the cases of `graph_cases` on a GPU, if there is one, and with emulated graphs on the CPU."""

import os
import pathlib
import subprocess
import sys
import warnings

import graph_cases
import oxytorch
import pytest
import torch

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.fixture(autouse=True)
def fresh():
    oxytorch.reset()


@pytest.mark.parametrize("case", graph_cases.CASES, ids=lambda case: case.__name__)
def test_emulated(case, monkeypatch):
    monkeypatch.setenv("OXYTORCH_EMULATE_GRAPHS", "1")
    case("cpu")


@gpu
@pytest.mark.parametrize("case", graph_cases.CASES + graph_cases.ON_GPU, ids=lambda case: case.__name__)
def test_on_a_gpu(case):
    case("cuda")
    torch.cuda.synchronize()


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_on_the_cpu_the_mode_does_nothing(mode):
    fast = oxytorch.compile(lambda x: torch.sin(x) * 2, mode=mode)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            x = torch.randn(8, 8)
            torch.testing.assert_close(fast(x), torch.sin(x) * 2)
    assert oxytorch.last_compile()["cuda_graphs"] is None


@pytest.mark.parametrize("mode, recorded", [("max-autotune", True), ("max-autotune-no-cudagraphs", False), (None, False)])
def test_which_modes_record(mode, recorded, monkeypatch):
    monkeypatch.setenv("OXYTORCH_EMULATE_GRAPHS", "1")
    fast = oxytorch.compile(lambda x: torch.sin(x) * 2, mode=mode)
    for _ in range(8):
        fast(torch.randn(8, 8))
    assert (oxytorch.last_compile()["cuda_graphs"] or "").startswith("recorded") == recorded


STEPS = """
import graph_cases
model, fast = graph_cases.pair("cpu")
# Always at the same place: what moves is recorded once more.
kept, x = [], graph_cases.batch("cpu")
for n in range(%d):
    fast.zero_grad(set_to_none=True)
    graph_cases.train_step(fast, x)
    if %s:
        kept.append(fast[0].weight.grad)
"""


@pytest.mark.parametrize("steps, keeps, shared, apart", [(8, "False", 1, 1), (12, "n == 6", 1, 3)])
def test_a_backward_pass_is_recorded_in_the_memory_of_its_forward_pass(steps, keeps, shared, apart):
    """Until a gradient outlives the next forward pass: then both are recorded once more, apart."""
    here = pathlib.Path(__file__).parent
    env = dict(os.environ, OXYTORCH_EMULATE_GRAPHS="1", OXYTORCH_LOGS="cudagraphs", PYTHONPATH=os.pathsep.join([str(here), str(here.parent)]))
    done = subprocess.run([sys.executable, "-c", STEPS % (steps, keeps)], env=env, capture_output=True, text=True, check=True)
    recorded = [line for line in done.stderr.splitlines() if "recorded the graph" in line]
    assert (sum("that it follows" in line for line in recorded), sum("that it follows" not in line for line in recorded)) == (shared, apart), done.stderr
