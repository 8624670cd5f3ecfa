"""Autocast, inside of compiled functions and around them."""

import warnings

import compare
import oxytorch
import pytest
import torch
import torch.nn.functional as F
from checking import check_native


def test_regions_of_autocast():
    linear = torch.nn.Linear(4, 4)

    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = linear(x)
            inside = torch.mm(y.softmax(-1), x.t()), F.layer_norm(y, (4,)), torch.cat([x, y]), F.gelu(y) * x
            losses = F.mse_loss(y, y.relu()), F.cross_entropy(y, torch.tensor([1, 2, 0])), y.add(1).prod(-1)
            with torch.autocast("cpu", enabled=False):
                off = torch.mm(x.t(), x)
            product = torch.einsum("ij,kj->ik", x, y)
        return y, inside, losses, off, product, linear(x)

    check_native(f, torch.randn(3, 4))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_around_the_call(dtype):
    parts = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 5)
    model = torch.nn.Sequential(*parts).eval()

    def f(x, q):
        return model(x), F.scaled_dot_product_attention(q, q, q, q[0, 0] > 0), (x + 1) * 2, x.double() @ x.double()

    with torch.autocast("cpu", dtype=dtype):
        compiled = check_native(f, torch.randn(2, 3, 8, 8), torch.randn(1, 2, 8, 8))
    x, q = torch.randn(2, 3, 8, 8), torch.randn(1, 2, 8, 8)
    with torch.no_grad():
        compare.assert_same(compiled(x, q), f(x, q))


def test_pointwise_results_under_autocast_are_eagers_bit_for_bit():
    def f(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x * y + x).relu() / 7 + y.bfloat16(), torch.stack([x, y.bfloat16()]) * y

    x, y = torch.randn(4096), torch.randn(4096)
    got, want = torch.compile(f, backend="oxytorch", fullgraph=True)(x, y), f(x, y)
    assert all(a.dtype == b.dtype and a.equal(b) for a, b in zip(got, want))


def test_a_function_that_autocast_converts_in_part_runs_in_eager():
    def f(x):
        return F.multi_head_attention_forward(*[x] * 3, 8, 2, weight, bias, None, None, False, 0.0, out, None, need_weights=False)[0]

    weight, bias, out = torch.randn(24, 8), torch.randn(24), torch.randn(8, 8)
    x = torch.randn(5, 1, 8)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare.assert_same(torch.compile(f, backend="oxytorch", fullgraph=True)(x), f(x))
    assert "autocast" in oxytorch.last_compile()["reason"]
