"""Gradients where formulas part: ties, zeros, bounds, NaN and infinities. Eager's are the right ones, to the last NaN."""

import compare
import oxytorch
import pytest
import torch
import torch.nn.functional as F

INF, NAN = float("inf"), float("nan")
WEIGHTS = torch.tensor([1.0, 2.0, -3.0, 0.5, 4.0, -1.0])

ACTIVATIONS = {
    "relu": (F.relu, [-1.0, 0.0, 1.0, NAN]),
    "relu6": (F.relu6, [-1.0, 0.0, 6.0, 3.0, NAN]),
    "hardtanh": (F.hardtanh, [-1.0, 1.0, 0.0, NAN]),
    "hardswish": (F.hardswish, [-3.0, 3.0, -4.0, 4.0, NAN]),
    "hardsigmoid": (F.hardsigmoid, [-3.0, 3.0, 0.0, NAN]),
    "elu": (F.elu, [100.0, 0.0, -1.0, -100.0]),
    "selu": (F.selu, [100.0, 0.0, -1.0]),
    "softplus": (F.softplus, [100.0, 0.0, -100.0, 20.0]),
    "mish": (F.mish, [100.0, -100.0, 0.0]),
    "silu": (F.silu, [-100.0, 100.0, 0.0]),
    "gelu": (F.gelu, [-100.0, 100.0, 0.0]),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), [-10.0, 10.0, 0.0]),
    "logsigmoid": (F.logsigmoid, [0.0, -100.0, 100.0]),
    "leaky_relu": (F.leaky_relu, [0.0, -1.0, 1.0, NAN]),
    "softshrink": (F.softshrink, [0.5, -0.5, 0.0, 2.0]),
    "hardshrink": (F.hardshrink, [0.5, -0.5, 0.0, 2.0]),
    "threshold": (lambda x: F.threshold(x, 0.5, 7.0), [0.5, 0.0, 2.0]),
}

SCALARS = {
    "abs": (torch.abs, [0.0, -2.0, NAN]),
    "sign": (torch.sign, [0.0, 3.0]),
    "sqrt": (torch.sqrt, [0.0, 4.0, -1.0]),
    "rsqrt": (torch.rsqrt, [0.0, 4.0]),
    "reciprocal": (torch.reciprocal, [0.0, 2.0]),
    "log": (torch.log, [0.0, -1.0, 2.0]),
    "pow_zero": (lambda x: x**0, [0.0, 2.0]),
    "pow_half": (lambda x: x**0.5, [0.0, 4.0]),
    "pow_two": (lambda x: x**2, [0.0, -3.0]),
    "pow_three": (lambda x: x**3.0, [0.0, -3.0]),
    "zero_to_the": (lambda x: torch.pow(torch.zeros(3), x), [0.0, 1.0, -1.0]),
    "atan2": (lambda x: torch.atan2(x, torch.zeros(2)), [0.0, 1.0]),
    "hypot": (lambda x: torch.hypot(x, torch.zeros(2)), [0.0, 1.0]),
    "sinc": (torch.sinc, [0.0, 1.0, 0.5]),
    "clamp": (lambda x: x.clamp(0, 1), [0.0, 1.0, 0.5, 2.0, NAN]),
    "clamp_min": (lambda x: x.clamp(min=0), [0.0, 1.0, -1.0, NAN]),
    "maximum": (lambda x: torch.maximum(x, torch.ones(3)), [1.0, NAN, 2.0]),
    "minimum": (lambda x: torch.minimum(x, torch.ones(3)), [1.0, NAN, 2.0]),
    "fmax": (lambda x: torch.fmax(x, torch.tensor([1.0, 1.0, NAN])), [1.0, NAN, 2.0]),
    "where": (lambda x: torch.where(x > 0, x.log(), 0.0), [-1.0, 0.0, 2.0]),
    "nan_to_num": (torch.nan_to_num, [NAN, INF, -INF, 1.0]),
    "xlogy": (lambda x: torch.xlogy(x, torch.zeros(2)), [0.0, 1.0]),
    "logit": (lambda x: torch.logit(x, eps=0.1), [0.05, 0.5, 0.1]),
    "remainder": (lambda x: torch.remainder(torch.full((3,), 7.0), x), [2.0, -3.0, 7.0]),
    "floor": (torch.floor, [1.5, 2.0]),
    "div": (lambda x: 1.0 / x, [0.0, 2.0]),
    "entr": (torch.special.entr, [0.0, -1.0, 2.0, NAN, INF]),
    "ndtr": (torch.special.ndtr, [0.0, -40.0, 40.0, NAN]),
    "log_ndtr": (torch.special.log_ndtr, [0.0, -40.0, 10.0, -1.0, NAN]),
    "ndtri": (torch.special.ndtri, [0.0, 0.5, 1.0, 2.0]),
    "erfinv": (torch.erfinv, [0.0, 0.5, 1.0, -1.0, 2.0]),
    "erfcx": (torch.special.erfcx, [0.0, -1.0, 30.0, NAN]),
    "i0": (torch.special.i0, [0.0, -3.0, 3.0]),
    "i0e": (torch.special.i0e, [0.0, -3.0, 30.0]),
    "i1": (torch.special.i1, [0.0, 1e-9, -3.0]),
    "i1e": (torch.special.i1e, [0.0, 1e-9, -3.0]),
    "digamma": (torch.digamma, [0.5, 3.0, -0.5]),
    "polygamma": (lambda x: torch.polygamma(2, x), [0.5, 3.0]),
    "logaddexp2": (lambda x: torch.logaddexp2(x, torch.tensor([1.0, -INF, INF, 0.0])), [1.0, 2.0, 3.0, -INF]),
}

ROWS = {
    "amax": (lambda x: x.amax(0), [1.0, 1.0, 0.0]),
    "amax_nan": (lambda x: x.amax(0), [1.0, NAN, NAN]),
    "max": (lambda x: x.max(), [1.0, 1.0, 0.0]),
    "max_nan": (lambda x: x.max(), [1.0, NAN, 0.0]),
    "max_dim": (lambda x: x.max(0).values, [1.0, 1.0, 0.0]),
    "min_dim": (lambda x: x.min(0).values, [0.0, 1.0, 0.0]),
    "prod": (torch.prod, [0.0, 2.0, 3.0]),
    "prod_two_zeros": (torch.prod, [0.0, 0.0, 3.0]),
    "cumprod": (lambda x: torch.cumprod(x, 0), [2.0, 0.0, 3.0, 0.0, 5.0]),
    "cummax": (lambda x: torch.cummax(x, 0).values, [1.0, 1.0, 3.0, 2.0]),
    "norm": (lambda x: x.norm(), [0.0, 0.0]),
    "norm_1": (lambda x: x.norm(p=1), [0.0, -2.0]),
    "norm_3": (lambda x: x.norm(p=3), [0.0, 0.0]),
    "norm_half": (lambda x: x.norm(p=0.5), [0.0, 1.0]),
    "norm_inf": (lambda x: x.norm(p=INF), [1.0, -1.0, 0.0]),
    "std": (lambda x: x.std(), [1.0, 1.0]),
    "var_one": (lambda x: x.var(), [1.0]),
    "logsumexp_none": (lambda x: torch.logsumexp(x, 0), [-INF, -INF]),
    "logsumexp_some": (lambda x: torch.logsumexp(x, 0), [-INF, 1.0, 2.0]),
    "softmax_none": (lambda x: torch.softmax(x, 0), [-INF, -INF]),
    "softmax_some": (lambda x: torch.softmax(x, 0), [-INF, 1.0, 2.0]),
    "log_softmax_some": (lambda x: torch.log_softmax(x, 0), [-INF, 1.0, 2.0]),
    "nansum": (torch.nansum, [NAN, 1.0]),
    "normalize": (lambda x: F.normalize(x, dim=0), [0.0, 0.0]),
    "layer_norm_of_equals": (lambda x: F.layer_norm(x, (4,)), [2.0, 2.0, 2.0, 2.0]),
    "sort": (lambda x: x.sort().values, [2.0, 1.0, 2.0]),
    "topk": (lambda x: x.topk(2).values, [2.0, 1.0, 3.0]),
    "max_pool": (lambda x: F.max_pool1d(x.view(1, 1, -1), 2, 1), [1.0, 1.0, 0.0, 5.0, 5.0, 5.0]),
    "renorm": (lambda x: torch.renorm(x.view(5, 2), 2, 0, 1.0), [NAN, 1.0, INF, 1.0, 3.0, 4.0, 0.0, 0.0, 0.1, 0.2]),
    "renorm_1": (lambda x: torch.renorm(x.view(2, 3), 1, 1, 2.0), [NAN, 1.0, 3.0, 1.0, 0.5, -4.0]),
    "renorm_3": (lambda x: torch.renorm(x.view(2, 3), 3, 1, 2.0), [NAN, 1.0, 3.0, 1.0, 0.0, -4.0]),
    "renorm_inf": (lambda x: torch.renorm(x.view(2, 3), INF, 1, 2.0), [NAN, 1.0, 3.0, 1.0, 0.0, -4.0]),
    "index_twice": (lambda x: x[torch.tensor([0, 0, -1])], [1.0, 2.0, 3.0]),
}


def gradient(function, values, dtype):
    x = torch.tensor(values, dtype=dtype, requires_grad=True)
    y = function(x)
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(y.shape, generator=generator).to(y.dtype)
    (grad,) = torch.autograd.grad(y, x, weight)
    return grad


@pytest.mark.parametrize("name", [*ACTIVATIONS, *SCALARS, *ROWS])
def test_corner(name):
    function, values = (ACTIVATIONS | SCALARS | ROWS)[name]
    expected = gradient(function, values, torch.float32)
    actual = gradient(oxytorch.compile(function), values, torch.float32)
    torch.testing.assert_close(actual, expected, equal_nan=True)


@pytest.mark.parametrize("name", ["relu", "gelu", "silu", "softmax_some", "log_softmax_some", "layer_norm_of_equals", "std", "norm_3"])
def test_half_types_round_as_eager(name):
    function, values = (ACTIVATIONS | SCALARS | ROWS)[name]
    expected = gradient(function, values, torch.bfloat16)
    actual = gradient(oxytorch.compile(function), values, torch.bfloat16)
    exact = lambda: gradient(function, values, torch.float64)
    compare.assert_same([actual], [expected], lambda: [exact()], label=name)


def test_bounds_of_clamp_have_gradients():
    x = torch.tensor([0.0, 1.0, 0.5, 2.0, -1.0, NAN])
    low, high = torch.zeros(6), torch.ones(6)
    high[5] = -1.0

    def run(function):
        leaves = [t.clone().requires_grad_() for t in (x, low, high)]
        return torch.autograd.grad(function(*leaves), leaves, WEIGHTS)

    for actual, expected in zip(run(oxytorch.compile(torch.clamp)), run(torch.clamp)):
        torch.testing.assert_close(actual, expected, equal_nan=True)


def test_a_padding_row_has_no_gradient():
    ids = torch.tensor([[1, 0, 2], [2, 2, 1]])

    def run(function):
        weight = torch.arange(12.0).view(4, 3).requires_grad_()
        return torch.autograd.grad(function(ids, weight).square().sum(), weight)[0]

    embed = lambda ids, weight: F.embedding(ids, weight, padding_idx=2)
    torch.testing.assert_close(run(oxytorch.compile(embed)), run(embed))


@pytest.mark.parametrize("mask", ["bool", "float", "trained"])
@pytest.mark.parametrize("shape", [(2, 4, 8), (2, 2, 4, 8)])
def test_a_row_of_attention_that_sees_nothing_has_no_gradient(shape, mask):
    seen = torch.ones(4, 4, dtype=torch.bool).tril()
    seen[1] = False

    def run(function):
        given = seen if mask == "bool" else torch.zeros(4, 4).masked_fill(~seen, -INF).requires_grad_(mask == "trained")
        generator = torch.Generator().manual_seed(1)
        leaves = [torch.randn(shape, generator=generator).requires_grad_() for _ in range(3)]
        result = function(*leaves, given)
        wanted = [*leaves, given] if mask == "trained" else leaves
        return result.detach(), *torch.autograd.grad(result, wanted, torch.randn(shape, generator=generator))

    attend = lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    for actual, expected in zip(run(oxytorch.compile(attend)), run(attend)):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("divide", [lambda x, y: x // y, lambda x, y: 3.5 // x, lambda x, y: torch.floor_divide(x, 2), lambda x, y: (x * 1).floor_divide_(y)])
def test_whole_quotients_have_no_derivative(divide):
    """They require grad, and raise when a gradient comes to them; what is only detached, or rounded down, is no matter."""
    x, y = torch.tensor([5.0, -3.0], requires_grad=True), torch.tensor([2.0, 2.0])
    function = lambda x, y: (divide(x * 1, y).sum(), divide(x * 1, y).detach() * x, torch.div(x, y, rounding_mode="floor") * x)
    found = []
    for called in (oxytorch.compile(function), function):
        results = called(x, y)
        with pytest.raises(RuntimeError, match="derivative for aten::floor_divide_? is not implemented"):
            results[0].backward()
        found.append([*(r.detach() for r in results), *torch.autograd.grad((results[1] + results[2]).sum(), x)])
        assert results[0].requires_grad
    compare.assert_same(*found)


@pytest.mark.parametrize("name", ["heaviside", "aminmax"])
def test_what_torch_has_no_derivative_of_raises_in_backward(name):
    """Such a node of torch's was taken for one of zeros, or of our own formula."""
    function = {"heaviside": lambda x: torch.heaviside(x * 2, x), "aminmax": lambda x: (x * 2).aminmax(dim=0)[1]}[name]
    compiled = oxytorch.compile(function)
    for called in (function, compiled, compiled):
        x = torch.tensor([1.0, -2.0, 0.0], requires_grad=True)
        with pytest.raises(RuntimeError, match=f"derivative for aten::{name} is not implemented"):
            called(x).sum().backward()
    with torch.no_grad():
        compare.assert_same(compiled(x), function(x))


MARGINS = {
    "margin_ranking": lambda x, y, z: F.margin_ranking_loss(x, y, torch.ones(4, 2)),
    "margin_ranking_apart": lambda x, y, z: F.margin_ranking_loss(x, y, -torch.ones(4, 2), margin=1.0),
    "hinge_embedding": lambda x, y, z: F.hinge_embedding_loss(x, torch.where(y > 1.5, 1.0, -1.0), margin=1.0),
    "triplet": lambda x, y, z: F.triplet_margin_loss(x, y, z, margin=1.0, eps=0.0),
    "triplet_swap": lambda x, y, z: F.triplet_margin_loss(x, y, z, margin=1.0, eps=0.0, swap=True),
    "cosine_embedding": lambda x, y, z: F.cosine_embedding_loss(x.sign(), y, -torch.ones(4), margin=0.0),
    "multi_margin": lambda x, y, z: F.multi_margin_loss(y, torch.tensor([0, 1, 0, 1]), margin=0.0),
    "lp_pool1d": lambda x, y, z: F.lp_pool1d((x - y)[None], 2.0, 2),
    "lp_pool2d": lambda x, y, z: F.lp_pool2d((x - y)[None, None], 3.0, 2),
}


@pytest.mark.parametrize("name", MARGINS)
def test_losses_at_their_margins_and_pools_of_zeros(name):
    """Where a loss begins eager's `clamp_min` lets the gradient pass whole; behind the root of zero there is none."""
    rows = (
        [[1.0, 2.0], [0.0, 0.0], [3.0, 1.0], [-1.0, 1.0]],
        [[1.0, 2.0], [0.0, 0.0], [3.0, 3.0], [-1.0, 2.0]],
        [[1.0, 3.0], [1.0, 0.0], [3.0, 2.0], [-1.0, 1.0]],
    )
    found = []
    for called in (oxytorch.compile(MARGINS[name]), MARGINS[name]):
        args = [torch.tensor(row, requires_grad=True) for row in rows]
        result = called(*args)
        result.sum().backward()
        found.append([result.detach()] + [arg.grad for arg in args])
    compare.assert_same(*found)


@pytest.mark.parametrize("p", [1, 2])
def test_a_margin_loss_leaves_out_what_is_no_number(p):
    x = torch.tensor([[INF, -INF, 0.0, 1.0], [NAN, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]])
    function = lambda x: F.multi_margin_loss(x, torch.tensor([0, 1, 2]), p=p, reduction="none")
    compare.assert_same(oxytorch.compile(function)(x), function(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(40,), (40, 3)])
def test_half_gradients_of_rows_that_are_read_often_are_eager_s(shape, dtype):
    """Of a vector every sum is rounded, of rows the last one alone."""
    torch.manual_seed(0)
    index = torch.randint(0, 40, (300,))
    x, weights = torch.randn(shape).to(dtype), torch.randn(300, *shape[1:]).to(dtype)
    function = lambda x: x.index_select(0, index)
    found = []
    for called in (oxytorch.compile(function), function):
        leaf = x.clone().requires_grad_()
        called(leaf).backward(weights)
        found.append(leaf.grad)
    assert torch.equal(*found)
