"""`mode="reduce-overhead"`: the cases of `graph_cases` on a GPU, if there is one, and with emulated graphs on the CPU."""

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
