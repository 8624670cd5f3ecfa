"""Running sums and products: what leaves the range on the way, and that sums of what is not negative never fall."""

import pytest
import torch
from compare import assert_same

import oxytorch

HALVES = [torch.bfloat16, torch.float16]
FLOATS = [*HALVES, torch.float32, torch.float64]


def filled(value, first, dtype):
    x = torch.full((4, 200), value, dtype=dtype)
    x[:, 0] = first
    return x


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("value, first", [(300.0, 0.0), (0.001, torch.inf), (-2.0, 1.0), (1.0, torch.nan)])
def test_products_leave_the_range_where_eager_s_do(dtype, value, first):
    x = filled(value, first, dtype)
    for function in (lambda x: x.cumprod(1), lambda x: x.cumprod(1, dtype=torch.float64).to(x.dtype), lambda x: x.cumprod(0).exp()):
        assert_same(oxytorch.compile(function)(x), function(x))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gradients_of_products(dtype):
    def loss(x):
        return x.cumprod(1).sum()

    ours, theirs = (filled(1.01, 0.5, dtype).requires_grad_() for _ in range(2))
    oxytorch.compile(loss)(ours).backward()
    loss(theirs).backward()
    assert torch.isfinite(ours.grad).all()
    assert_same(ours.grad, theirs.grad)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_sums_leave_the_range_where_eager_s_do(dtype):
    most = torch.finfo(dtype).max
    x = torch.tensor([most, most, -most, -most] * 20, dtype=dtype).repeat(3, 1)
    assert_same(oxytorch.compile(lambda x: x.cumsum(1))(x), x.cumsum(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sums_of_what_is_not_negative_never_fall(dtype):
    x = torch.rand(200, 500, dtype=dtype)
    x[torch.rand(200, 500) < 0.3] = 0
    sums = oxytorch.compile(lambda x: x.cumsum(1))(x)
    steps = sums.diff(dim=1)
    assert (steps >= 0).all() and (steps[x[:, 1:] == 0] == 0).all()
