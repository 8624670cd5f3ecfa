"""Operators that a program has registered with torch: recorded where they compute something, called in their place where they only do something."""

import pytest
import torch
from compare import assert_same
from oxytorch import _oxytorch


@torch.library.custom_op("oxytorch_operators::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("oxytorch_operators::put", mutates_args=("x",))
def put(x: torch.Tensor, value: float) -> None:
    x.fill_(value)


@torch.library.custom_op("oxytorch_operators::put_and_sum", mutates_args=("x",))
def put_and_sum(x: torch.Tensor, value: float) -> torch.Tensor:
    x.fill_(value)
    return x.sum()


@put_and_sum.register_fake
def _(x, value):
    return x.new_empty(())


HANDLES = {
    "as it was defined": (twice, put, put_and_sum),
    "by torch.ops": tuple(getattr(torch.ops.oxytorch_operators, name) for name in ("twice", "put", "put_and_sum")),
    "an overload": tuple(getattr(torch.ops.oxytorch_operators, name).default for name in ("twice", "put", "put_and_sum")),
}


def check(function, breaks):
    captured = _oxytorch.capture(function)
    with torch.no_grad():
        for n in range(3):
            ours, theirs = (torch.arange(4.0) + n for _ in range(2))
            assert_same((captured(ours), ours), (function(theirs), theirs))
    stats = captured.stats()
    assert (stats["traced"], len(stats["breaks"])) == (1, breaks)


@pytest.mark.parametrize("handle", HANDLES)
def test_what_is_computed_is_recorded(handle):
    operator = HANDLES[handle][0]
    check(lambda x: operator(x + 1) + 1, 0)


@pytest.mark.parametrize("handle", HANDLES)
def test_what_returns_nothing_is_done(handle):
    operator = HANDLES[handle][1]

    def function(x):
        y = x + 1
        operator(y, 3.0)
        operator(x[1:], 5.0)
        return y + 1, x * 2

    check(function, 2)


@pytest.mark.parametrize("handle", HANDLES)
def test_what_writes_and_returns(handle):
    operator = HANDLES[handle][2]

    def function(x):
        y = x + 1
        total = operator(y, 3.0)
        return y + 1, total + operator(x, 2.0)

    check(function, 0)
