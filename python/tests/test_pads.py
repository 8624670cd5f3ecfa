"""Pads whose elements come from the tensor: rows in parts, places in the other dimensions; eager's values, gradients and errors."""

import oxytorch
import pytest
import torch
import torch.nn.functional as F
from compare import assert_same
from torch.profiler import ProfilerActivity, profile

MODES = ["reflect", "replicate", "circular"]
# Short and long rows, one side and both, cropped on the other side, several dimensions, nothing at all.
CASES = [
    ((2, 7), (3, 2)),
    ((3, 2, 150), (70, 1)),
    ((3, 2, 150), (0, 5)),
    ((3, 90), (4, -2)),
    ((2, 3, 5, 64), (1, 1, 2, 2)),
    ((2, 3, 5, 64), (0, 0, 1, 4)),
    ((2, 5, 128), (3, 0, 0, 2)),
    ((1, 2, 4, 5, 70), (1, 2, 3, 1, 0, 2)),
    ((2, 3, 9), (0, 0)),
]


def trained(function, x):
    leaf = x.clone().requires_grad_()
    result = function(leaf)
    (result * torch.linspace(-1, 1, result.numel(), dtype=x.dtype).view(result.shape)).sum().backward()
    return result.detach(), leaf.grad


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape, pads", CASES)
def test_values_and_gradients(mode, shape, pads):
    function = lambda x: F.pad(x, pads, mode=mode)
    compiled, fused = oxytorch.compile(function), oxytorch.compile(lambda x: function(x * 2) + 1)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = torch.randn(shape).to(dtype)
        assert_same(compiled(x), function(x))
        assert_same(fused(x), function(x * 2) + 1)
        assert compiled(x).data_ptr() != x.data_ptr()
    x = torch.randn(shape)
    assert_same(trained(compiled, x), trained(function, x))


@pytest.mark.parametrize("mode", MODES)
def test_sizes_that_vary(mode):
    function = lambda x: F.pad(x, (2, 3, 1, 1), mode=mode)
    compiled = oxytorch.compile(function, dynamic=True)
    for size in (6, 70, 4, 300):
        x = torch.randn(2, 3, 5, size)
        assert_same(compiled(x), function(x))
    assert compiled.stats()["traced"] == 1


@pytest.mark.parametrize("mode", MODES)
def test_threads_share_rows(mode):
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        x = torch.randn(7, 3, 50, 331)
        function = lambda x: F.pad(x, (9, 5, 1, 1), mode=mode)
        assert_same(oxytorch.compile(function)(x), function(x))
    finally:
        torch.set_num_threads(threads)


def test_parts_of_one_value_do_not_keep_it():
    """What is rolled, or mirrored at its ends, was computed into memory first."""
    for function in (lambda x: (x.exp() + x.sin()).roll(3, 1), lambda x: F.pad(x.exp() + x.sin(), (1, 2), mode="reflect")):
        x = torch.randn(64, 300)
        assert_same(oxytorch.compile(function)(x), function(x))
        assert oxytorch.last_compile()["kernels"] == 1


@pytest.mark.parametrize("mode", MODES)
def test_rows_are_copied_in_parts(mode):
    """By computed places they took 2 to 7 times eager's time."""
    x, compiled = torch.randn(3, 200), oxytorch.compile(lambda x: F.pad(x, (2, 3), mode=mode))
    compiled(x)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        compiled(x)
    assert [event.name for event in profiler.events() if event.name.startswith("oxytorch::") and "recorded" not in event.name] == ["oxytorch::cat"]


def test_parts_that_overlap_keep_what_costs_much():
    """In short rows each vector that lies in two parts, and what is mirrored, was computed for each of them: gelu took three times as long."""
    thirds = lambda y: torch.cat([y[:, :22].flip(1), y[:, 22:44].flip(1), y[:, 44:].flip(1)], 1)
    mirrored = lambda y: F.pad(y, (8, 8), mode="reflect")
    for parts, x in ((thirds, torch.randn(40, 66)), (mirrored, torch.randn(40, 100))):
        for function, kernels in ((lambda x: parts(F.gelu(x)), 2), (lambda x: parts(x * 2), 1)):
            assert_same(oxytorch.compile(function)(x), function(x))
            assert oxytorch.last_compile()["kernels"] == kernels
