"""Kernels of more inputs than a processor has registers for addresses."""

from __future__ import annotations

import functools
import operator

import oxytorch
import pytest
import torch

DTYPES = (torch.float32, torch.bfloat16, torch.int64)


def product(first, *others):
    return functools.reduce(operator.mul, others, first) + 1


def columns(first, *others):
    """Rows and columns: addresses are moved in front of the inner loop."""
    return functools.reduce(operator.add, (other[:, None] * first for other in others)).sum(1)


def numbers(count: int, size: int, dtype):
    values = torch.rand(count, size) + 0.5 if dtype.is_floating_point else torch.randint(-3, 4, (count, size))
    return list(values.to(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", (1, 7, 8, 100))
@pytest.mark.parametrize("count", (9, 10, 11, 12, 40, 150))
def test_elementwise(count, size, dtype):
    inputs = numbers(count, size, dtype)
    with torch.no_grad():
        assert torch.equal(oxytorch.compile(product)(*inputs), product(*inputs))


@pytest.mark.parametrize("count", (12, 40))
def test_columns(count):
    inputs = numbers(count, 33, torch.float32)
    with torch.no_grad():
        torch.testing.assert_close(oxytorch.compile(columns)(*inputs), columns(*inputs))


def test_what_reads_nothing_else_is_no_kernel_of_its_own():
    """The expression is cut when it has grown to 100 inputs; what is done to it then is done in the same loop."""
    inputs = numbers(101, 8, torch.float32)
    with torch.no_grad():
        assert torch.equal(oxytorch.compile(product)(*inputs), product(*inputs))
    assert oxytorch.last_compile()["kernels"] == 1


def test_writes_of_many():
    """Every address is loaded anew behind the writes of others."""

    def step(*tensors):
        for n, tensor in enumerate(tensors):
            tensor.add_(n)
        return torch.stack(tensors).sum()

    ours, theirs = [numbers(30, 9, torch.float32) for _ in range(2)]
    for a, b in zip(ours, theirs):
        a.copy_(b)
    with torch.no_grad():
        compiled = oxytorch.compile(step)
        for _ in range(3):
            torch.testing.assert_close(compiled(*ours), step(*theirs))
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs))
