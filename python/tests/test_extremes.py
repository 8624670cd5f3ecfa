"""Numbers at the ends of their types: what overflows, and what is infinite or no number, is so where eager's is."""

import compare
import oxytorch
import pytest
import torch
import torch.nn.functional as F

INF, NAN = float("inf"), float("nan")

ROWS = {
    "huge": [1e38, 2e38, -1e38, 3e38],
    "one huge": [1e38, 1.0, 2.0, 3.0],
    "squares too large": [1e20, -1e20, 2e20, 0.0],
    "infinite": [1.0, INF, 2.0, 3.0],
    "both infinities": [1.0, INF, -INF, 3.0],
    "no number": [1.0, NAN, 2.0, 3.0],
    "tiny": [1e-40, 2e-40, 3e-40, 0.0],
}

SPREADS = {
    "var": lambda x: x.var(-1),
    "std": lambda x: x.std(-1),
    "var_mean": lambda x: torch.var_mean(x, -1),
    "std_mean": lambda x: torch.std_mean(x, -1, correction=0),
    "too few": lambda x: torch.var_mean(x[:, :1], -1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("width", [4, 37])
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@torch.no_grad()
def test_spreads_of_extreme_rows(spread, width, dtype):
    compiled = oxytorch.compile(SPREADS[spread])
    for name, row in ROWS.items():
        x = torch.ones(3, width).to(dtype)
        x[:, :4] = torch.tensor(row).to(dtype)
        compare.assert_same(compiled(x), SPREADS[spread](x), label=name)


def test_gradients_of_the_mean_beside_a_variance():
    def both(x):
        variance, mean = torch.var_mean(x, -1)
        return variance + 3 * mean

    x = torch.randn(5, 7)
    ours, eagers = x.clone().requires_grad_(), x.clone().requires_grad_()
    oxytorch.compile(both)(ours).sum().backward()
    both(eagers).sum().backward()
    compare.assert_same(ours.grad, eagers.grad)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("log", [False, True])
@torch.no_grad()
def test_steps_of_a_poisson_loss_are_rounded_in_f16(log, full):
    """The `eps` that is added to keep the logarithm finite is lost in f16, and products overflow before they are subtracted."""
    loss = lambda x, y: F.poisson_nll_loss(x, y, log_input=log, full=full, reduction="none")
    x = torch.tensor([0.0, -0.0, 6e-5, 1.0, 12.0, 65504.0, -65504.0, INF, NAN], dtype=torch.float16)
    compiled = oxytorch.compile(loss)
    for y in x, x.flip(0), x.roll(3), torch.ones_like(x):
        compare.assert_same(compiled(x, y), loss(x, y))
