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
    "infinite at last": [1.0, 2.0, 3.0, -INF],
    "infinite twice": [1.0, INF, 3.0, INF],
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


CHOICES = {
    "where": lambda x: torch.where(x == 0, -INF, x),
    "too large": lambda x: torch.where(x > 0, 60000.0, x) * 1e3,
    "no number": lambda x: torch.where(x > 0, NAN, x),
    "masked_fill": lambda x: x.masked_fill(x > 0, INF),
    "log2": lambda x: torch.log2(torch.deg2rad(x)),
}


@pytest.mark.parametrize("to", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("choice", CHOICES)
@torch.no_grad()
def test_what_no_integer_can_hold_is_converted_as_eager_does(choice, dtype, to):
    """Such a conversion has no meaning to LLVM, which may not conclude that the number was another one."""
    convert = lambda x: CHOICES[choice](x).to(to)
    x = torch.tensor([0.0, 1.0, -0.0, -1.0, 3.0] * 7).to(dtype)
    compare.assert_same(oxytorch.compile(convert)(x), convert(x))


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, -1, INF, -INF])
@torch.no_grad()
def test_the_norm_of_one_element_is_its_size(p):
    norm = lambda x: (torch.linalg.vector_norm(x, p, dim=0), torch.norm(x[0, 0], p))
    x = torch.tensor([[1e30, -1e-30, -3e38, INF, NAN, 0.0, 1e-40]])
    compare.assert_same(oxytorch.compile(norm)(x), norm(x))


@torch.no_grad()
def test_a_distance_of_bools_is_refused():
    distance = lambda x, y: torch.dist(x, y)
    x, y = torch.ones(3), torch.ones(3, dtype=torch.bool)
    for args in (x, y), (y, x), (y, y):
        for function in distance, oxytorch.compile(distance):
            with pytest.raises(RuntimeError, match="Subtraction"):
                function(*args)


POOLS = {
    "averages": lambda x, size, **more: F.avg_pool2d(x, size, **more),
    "of elements": lambda x, size, **more: F.avg_pool2d(x, size, count_include_pad=False, **more),
    "divided": lambda x, size, **more: F.avg_pool2d(x, size, divisor_override=3, **more),
    "maxima": lambda x, size, **more: F.max_pool2d(x, size, **more),
}


@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("size", [5, (9, 4), (400_000, 5), 300_000])
@pytest.mark.parametrize("name", POOLS)
def test_a_window_that_reaches_far_beyond_its_image(name, size, padding):
    """It is summed as far as there are elements: over all of its places it would take hours."""
    function = lambda x: POOLS[name](x, size, padding=padding, ceil_mode=True)
    compiled, found = oxytorch.compile(function), []
    for called in (compiled, function):
        x = torch.linspace(-3, 4, 2 * 3 * 6 * 7).reshape(2, 3, 6, 7).requires_grad_()
        result = called(x)
        (result * torch.arange(result.numel()).reshape(result.shape)).sum().backward()
        found.append((result.detach(), x.grad))
    compare.assert_same(*found)
