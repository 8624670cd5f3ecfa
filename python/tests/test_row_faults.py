"""Rows of the table where they were not eager's: one test for each fault. Values of halves and their gradients are equal to the last bit."""

import itertools
import math

import compare
import oxytorch
import pytest
import torch
import torch.nn.functional as F
from checking import compiled as by_dynamo
from torch import nn
from training import DOORS

NAN, INF = float("nan"), float("inf")


def checked(function, compiled, *args):
    """Result, or error, as eager's."""
    try:
        want = function(*args)
    except RuntimeError as error:
        with pytest.raises(RuntimeError) as raised:
            compiled(*args)
        assert str(raised.value) == str(error)
        return
    compare.assert_same(compiled(*args), want)


# Cross products.


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.filterwarnings("ignore:Using torch.cross without specifying the dim")
def test_a_size_that_becomes_three_is_the_dimension_of_a_cross_product(dynamic):
    function = lambda a, b: torch.cross(a, b)
    compiled = oxytorch.compile(function, dynamic=dynamic)
    for shape in [(5, 4, 3), (5, 3, 3), (3, 4, 3), (6, 7, 3), (2, 3, 9), (4, 3, 9), (3, 3, 3), (2, 2, 2)]:
        checked(function, compiled, torch.randn(shape), torch.randn(shape))


@pytest.mark.parametrize("shapes", [((1, 3), (3, 3)), ((3, 3), (1, 3)), ((1, 3), (3, 1)), ((2, 3, 1), (1, 3, 3))])
@pytest.mark.filterwarnings("ignore:Using torch.cross without specifying the dim")
def test_the_dimension_of_a_cross_product_is_that_of_the_first_tensor(shapes):
    args = [torch.randn(shape) for shape in shapes]
    for function in (lambda a, b: torch.cross(a, b), lambda a, b: torch.cross(a, b, dim=0), lambda a, b: torch.linalg.cross(a, b)):
        checked(function, oxytorch.compile(function), *args)


# Sums of powers of two.


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_logaddexp2_keeps_what_is_far_below_one(dtype):
    x = torch.tensor([-10.0, -20.0, -24.0, -30.0, -60.0, 0.0, INF, -INF, NAN], dtype=dtype)
    zero = torch.zeros_like(x)
    got, want = oxytorch.compile(torch.logaddexp2)(zero, x), torch.logaddexp2(zero, x)
    torch.testing.assert_close(got, want, rtol=2 * torch.finfo(dtype).eps, atol=0.0, equal_nan=True)


# A number divided by a tensor: the reciprocal and a product, each rounded.

NUMBERS_FIRST = {
    "tenth": lambda x: 0.1 / x,
    "whole": lambda x: 3 / x,
    "one": lambda x: 1.0 / x,
    "truth": lambda x: True / x,
    "size": lambda x: x.shape[0] / x,
    "reflected": lambda x: x.__rtruediv__(0.3),
    "reflected_of_a_tensor": lambda x: x.__rtruediv__(x + 1),
    "old_name": lambda x: x.__rdiv__(0.3),
    "chain": lambda x: 2 / (1 + x * x) + 1,
    "function": lambda x: torch.div(0.1, x),
    "tensor": lambda x: torch.tensor(0.1) / x,
    "product": lambda x: 0.1 * x,
    "function_of_product": lambda x: torch.mul(0.1, x),
    "product_with_a_tensor": lambda x: torch.tensor(0.1) * x,
    "behind": lambda x: (x * torch.tensor(0.1), x / torch.tensor(0.3), x / 0.3, torch.mul(x, 0.1)),
}


def bits_of(result):
    parts = result if isinstance(result, tuple) else (result,)
    return [(part.dtype, part.nan_to_num(nan=12345.0, posinf=INF, neginf=-INF)) for part in parts]


def assert_equal_bits(got, want):
    for (dtype, ours), (wanted, theirs) in zip(bits_of(got), bits_of(want), strict=True):
        assert dtype == wanted
        assert torch.equal(ours, theirs), f"{(ours != theirs).sum()} of {ours.numel()} elements differ"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.bool])
@pytest.mark.parametrize("name", NUMBERS_FIRST)
def test_a_number_in_front_of_a_tensor(name, dtype):
    function = NUMBERS_FIRST[name]
    x = torch.cat([torch.randn(4099, generator=torch.Generator().manual_seed(1)) * 3, torch.tensor([0.0, -0.0, 1e-5, INF, NAN])])
    x = (x if dtype.is_floating_point else x.nan_to_num(posinf=7.0).round()).to(dtype)
    compiled = oxytorch.compile(function)
    assert_equal_bits(compiled(x), function(x))
    assert oxytorch.last_compile()["kernels"] == 1 and not oxytorch.last_compile()["python_calls"]
    assert_equal_bits(oxytorch.compile(function, dynamic=True)(x), function(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["tenth", "whole", "one", "size", "reflected", "chain"])
def test_gradients_of_a_number_divided_by_a_tensor(name, dtype):
    generator = torch.Generator().manual_seed(1)
    x, weight = [(torch.randn(4099, generator=generator) * 3).to(dtype) for _ in range(2)]

    def gradient(function):
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(function(leaf), leaf, weight)

    assert_equal_bits(gradient(oxytorch.compile(NUMBERS_FIRST[name])), gradient(NUMBERS_FIRST[name]))


def test_a_number_that_varies_is_divided_as_a_constant_is():
    function = lambda x, n: n / x
    compiled = oxytorch.compile(function)
    x = torch.tensor([1e-5, 3.0, 0.7, -11.0]).half()
    for n in (0.1, 0.7, 1.3, 2.9, 3):
        assert_equal_bits(compiled(x, n), function(x, n))


# Where torch's kernels for shapes have other results than its real ones.

NORMS = {
    "method": lambda x: x.norm(dim=-1),
    "method_of_an_order": lambda x: x.norm(3, -1),
    "two_dimensions": lambda x: x.norm(dim=(-2, -1)),
    "both_ways": lambda x: x.norm(dim=(0, -1)),
    "kept": lambda x: x.norm(dim=-1, keepdim=True),
    "frobenius": lambda x: torch.norm(x, p="fro", dim=(-1,)),
    "vector_norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "named": lambda x: torch.linalg.vector_norm(x=x, ord=1.5, dim=[-1]),
    "linalg_norm": lambda x: torch.linalg.norm(x, dim=-1),
    "distance": lambda x: torch.nn.functional.pairwise_distance(x, x + 1),
    "used": lambda x: (x.norm(dim=-1) * torch.arange(x.shape[0]), x.norm(dim=-1).shape, x.norm(dim=-1).unsqueeze(0) + 1),
}


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("name", NORMS)
def test_a_norm_over_a_dimension_of_size_one(name, dynamic):
    compiled = oxytorch.compile(NORMS[name], dynamic=dynamic)
    for shape in [(60, 1), (3, 1), (1, 1), (60, 2)]:
        for _ in range(2):
            checked(NORMS[name], compiled, torch.randn(shape))


@pytest.mark.parametrize("dim", [-3, 2])
def test_a_norm_over_a_dimension_that_is_not_there(dim):
    function = lambda x: torch.linalg.vector_norm(x, dim=dim)
    with pytest.raises(IndexError, match="out of range"):
        oxytorch.compile(function)(torch.randn(60, 1))


@pytest.mark.parametrize("other", [(torch.float64, 0), (torch.float64, 1), (torch.float64, 2), (torch.int64, 0), (torch.float32, 0)], ids=str)
@pytest.mark.parametrize("first", [(torch.float32, 1), (torch.int32, 1), (torch.float32, 0), (torch.bool, 2)], ids=str)
def test_blocks_of_two_types(first, other):
    blocks = [torch.ones((2,) * rank, dtype=dtype) for dtype, rank in (first, other)]
    for function in (lambda a, b: torch.block_diag(a, b), lambda a, b: torch.block_diag(b, a, b) * 2 + a.sum()):
        compiled = oxytorch.compile(function)
        for _ in range(2):
            checked(function, compiled, *blocks)


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("name", [name for name in NORMS if name != "used"])
def test_a_norm_over_a_dimension_of_size_one_behind_dynamo(name, dynamic):
    """Dynamo believes the fake kernel: what it says itself of the shape is beyond us, what is computed is not."""
    compiled = by_dynamo(NORMS[name], dynamic=dynamic)
    for shape in [(60, 1), (3, 1), (60, 2)]:
        for _ in range(2):
            checked(NORMS[name], compiled, torch.randn(shape))


def test_blocks_of_two_types_behind_dynamo():
    function = lambda a, b: torch.block_diag(a, b)
    compiled = by_dynamo(function)
    for _ in range(2):
        checked(function, compiled, torch.randn(2), torch.randn((), dtype=torch.float64))
    assert oxytorch.last_compile()["outcome"] == "eager"


# A quotient made whole, and powers: halves are rounded after each step, or once.

WHOLE = {
    "number": lambda x: (torch.div(x, 0.3, rounding_mode="trunc"), torch.div(x, 0.3, rounding_mode="floor"), x // 1.3),
    "zero_dimensions": lambda x: (torch.div(x, torch.tensor(0.3), rounding_mode="trunc"), x // torch.tensor(0.3, dtype=torch.float64)),
    "of_the_same_type": lambda x: (torch.div(x, x[5], rounding_mode="trunc"), x // x[5]),
    "one_element": lambda x: (torch.div(x, x[5:6], rounding_mode="trunc"), x // x[5:6]),
    "number_in_front": lambda x: (torch.div(0.3, x, rounding_mode="trunc"), 0.3 // x),
    "tensors": lambda x: (torch.div(x, x.flip(0), rounding_mode="trunc"), x // x.flip(0)),
}

POWERS = {exponent: (lambda x, exponent=exponent: x**exponent) for exponent in (3, -2, 2, -1, 0.5, 3.0, 1, 0)}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", [*WHOLE, *POWERS])
def test_halves_are_rounded_as_often_as_in_eager(name, dtype):
    function = (WHOLE | POWERS)[name]
    x = (torch.randn(4096, generator=torch.Generator().manual_seed(1)) * 3).to(dtype)
    assert_equal_bits(oxytorch.compile(function)(x), function(x))
    assert not oxytorch.last_compile()["python_calls"]


@pytest.mark.parametrize("exponent", [torch.bfloat16, torch.float16, torch.float32, torch.int32], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64], ids=str)
def test_the_type_in_which_ldexp_raises_two_to_a_power(dtype, exponent):
    x, by = torch.tensor([1.0, -3.0, 0.0, 7.0, 2.0]).to(dtype), torch.tensor([3.3, -1.0, 2.0, 0.5, 9.0]).to(exponent)
    for args in ((x, by), (x, by[0]), (x[0], by), (x[0], by[0])):
        checked(torch.ldexp, oxytorch.compile(torch.ldexp), *args)


def test_ldexp_by_booleans_is_refused_where_eager_refuses_it():
    yes = torch.tensor([True, False])
    with pytest.raises(NotImplementedError):
        oxytorch.compile(torch.ldexp)(torch.ones(2), yes)
    checked(torch.ldexp, oxytorch.compile(torch.ldexp), torch.ones(2, dtype=torch.int64), yes)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("function", [
    lambda x: F.hardtanh(x, -0.7, 0.9),
    lambda x: F.softshrink(x, 0.3),
    lambda x: F.hardshrink(x, 0.3),
    lambda x: F.hardshrink(x, 0.1),
    lambda x: F.threshold(x, 0.3, 7.0),
    lambda x: F.threshold(x, 0.7, 7.0),
    lambda x: x.clamp(-0.7, 0.9),
])
def test_bounds_are_rounded_where_eager_rounds_them(function, dtype):
    def results(function):
        leaf = torch.tensor([-0.7, 0.9, -0.3, 0.3, 0.1, -0.1, 0.7, 2.0, NAN]).to(dtype).requires_grad_()
        value = function(leaf)
        return value.detach(), *torch.autograd.grad(value, leaf, torch.ones_like(value))

    assert_equal_bits(results(oxytorch.compile(function)), results(function))


@pytest.mark.parametrize("function", [lambda x: x.amax(-1, keepdim=True) - x, lambda x: x.amin(0) * x, lambda x: x.max() + x])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_gradients_of_an_extreme_and_of_what_it_is_taken_from(function, dtype):
    def gradient(function):
        leaf = torch.tensor([[1.0, 3.0, 3.0], [2.0, -1.0, 2.0]], dtype=dtype, requires_grad=True)
        return torch.autograd.grad(function(leaf), leaf, torch.tensor([[1.0, 2.0, 3.0], [0.3, 0.7, 4.0]], dtype=dtype))

    compare.assert_same(gradient(oxytorch.compile(function)), gradient(function))


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("function", [lambda x: x**True, lambda x: torch.pow(x, True), lambda x: x.clamp(True), lambda x: x.pow(1)])
def test_a_truth_behind_a_tensor_is_no_order_to_write_it(function, grad):
    x = torch.randn(3, 4, requires_grad=grad)
    result = oxytorch.compile(function)(x)
    assert result is not x and result.data_ptr() != x.data_ptr()
    compare.assert_same(result, function(x))


@pytest.mark.parametrize("reduce", ["amax", "amin"])
@pytest.mark.parametrize("start", [0.0, 1.0])
def test_what_was_there_takes_its_share_of_the_gradient(reduce, start):
    index = torch.tensor([0, 0, 1, 2, 2, 2])

    def gradients(function):
        x, source = torch.full((4,), start, requires_grad=True), torch.tensor([0.0, -1.0, 0.0, 1.0, 1.0, 2.0], requires_grad=True)
        return torch.autograd.grad(function(x, source), (x, source), torch.tensor([1.0, 2.0, 3.0, 4.0]))

    function = lambda x, source: x.scatter_reduce(0, index, source, reduce, include_self=False)
    compare.assert_same(gradients(oxytorch.compile(function)), gradients(function))


# Places in memory.


@pytest.mark.parametrize("make", [lambda x: x.contiguous(), lambda x: x * 1, lambda x: x], ids=["contiguous", "computed", "given"])
@pytest.mark.parametrize("function", [
    lambda x: torch.as_strided_scatter(x, torch.zeros(2), (2,), (1,)),
    lambda x: torch.as_strided_scatter(x, torch.zeros(2), (2,), (2,), 3),
    lambda x: torch.as_strided_copy(x, (2, 2), (1, 2), 1),
], ids=["scatter", "scatter_at", "copy"])
def test_places_are_those_of_eager(function, make):
    whole = lambda x: function(make(x)) + 1
    base = torch.randn(4, 8)
    for x in (base[:, :4].clone(), base.t(), base[:, ::2], base[1:]):
        checked(whole, oxytorch.compile(whole), x)


@pytest.mark.parametrize("function", [lambda x: x[:], lambda x: x[1:] * 1, lambda x: (x.t(), x * 2), lambda x: x.unbind(1)])
def test_gradient_of_a_leaf_that_was_expanded(function):
    def gradient(function):
        leaf = torch.arange(3.0).reshape(3, 1).expand(3, 4).detach().requires_grad_()
        results = function(leaf)
        results = results if isinstance(results, tuple) else (results,)
        weights = [torch.arange(1.0, 1 + result.numel()).reshape(result.shape) for result in results]
        return torch.autograd.grad(results, leaf, weights)

    compare.assert_same(gradient(oxytorch.compile(function)), gradient(function), strides=False)


# Running sums and products.


@pytest.mark.parametrize("dim", [0, 1])
def test_a_long_running_sum_is_as_exact_as_eagers(dim):
    x = torch.rand(4, 50000, generator=torch.Generator().manual_seed(1)) * 2 - 0.3
    x = x if dim else x.t().contiguous()
    got, want, exact = oxytorch.compile(torch.cumsum)(x, dim), torch.cumsum(x, dim), torch.cumsum(x.double(), dim)
    assert (got - exact).abs().max() <= 2 * (want - exact).abs().max()


def test_a_running_product_comes_back_from_beyond_the_type():
    x = torch.tensor([1e30, 1e30, 1e-30, 1e-30, 2.0, 1e-30, 1e-30, 1e30])
    checked(lambda x: x.cumprod(0), oxytorch.compile(lambda x: x.cumprod(0)), x)


def test_the_gradient_of_a_sum_that_is_ignored_is_zero():
    function = lambda bias, a: (torch.addmm(bias, a, a, beta=0), torch.baddbmm(bias, a[None], a[None], beta=0, alpha=2))

    def gradients(function):
        bias, a = torch.full((3,), NAN, requires_grad=True), torch.eye(3, requires_grad=True)
        return torch.autograd.grad(function(bias, a), (bias, a), (torch.ones(3, 3), torch.ones(1, 3, 3)))

    compare.assert_same(gradients(oxytorch.compile(function)), gradients(function))


# Reductions.


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.uint8, torch.bool], ids=str)
def test_all_and_any_over_no_dimension(dtype):
    x = torch.tensor([[0.0, 1.0], [2.0, 0.0]]).to(dtype)
    function = lambda x: (torch.all(x, ()), torch.any(x, dim=(), keepdim=True), x.all(), x.any(0), x.all((0, 1)), x.sum(()))
    checked(function, oxytorch.compile(function), x)
    assert not oxytorch.last_compile()["python_calls"]


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_the_mean_in_a_half_type_is_rounded_once(half, dtype):
    x = (torch.randn(64, 50, generator=torch.Generator().manual_seed(1)) * 3).to(dtype)
    function = lambda x: (x.mean(1, dtype=half), x.mean(dtype=half), x.mean(0))
    assert_equal_bits(oxytorch.compile(function)(x)[0], function(x)[0])
    compare.assert_same(oxytorch.compile(function)(x), function(x))


def test_a_pool_that_eager_refuses():
    function = lambda x: torch.nn.functional.lp_pool3d(x, 2.0, 2)
    with pytest.raises(NotImplementedError, match="avg_pool3d"):
        oxytorch.compile(function)(torch.randn(1, 2, 4, 4, 4).bfloat16())


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_tensor_without_dimensions_is_rounded_before_a_product_is_added(half, place):
    generator = torch.Generator().manual_seed(1)
    args = [torch.randn(4096, generator=generator).to(half) for _ in range(3)]
    args[place] = torch.tensor(0.3)
    for function in (torch.addcmul, torch.addcdiv):
        assert_equal_bits(oxytorch.compile(function)(*args), function(*args))


# Norms and attention of nothing.

BATCH_NORMS = {
    "vectors": (lambda: nn.BatchNorm1d(3), [(4, 3), (0, 3), (5, 3), (0, 3), (1, 3), (6, 3)]),
    "first_nothing": (lambda: nn.BatchNorm1d(3), [(0, 3), (0, 3), (4, 3), (7, 3), (1, 3)]),
    "rows": (lambda: nn.BatchNorm1d(3), [(2, 3, 5), (2, 3, 0), (1, 3, 6), (0, 3, 5), (1, 3, 1), (1, 3, 0)]),
    "images": (lambda: nn.BatchNorm2d(3), [(2, 3, 4, 4), (0, 3, 4, 4), (3, 3, 4, 4), (2, 3, 0, 4)]),
    "volumes": (lambda: nn.BatchNorm3d(3), [(0, 3, 2, 2, 2), (2, 3, 2, 2, 2), (0, 3, 2, 2, 2)]),
    "mean_of_all": (lambda: nn.BatchNorm1d(3, momentum=None), [(0, 3), (4, 3), (0, 3), (5, 3)]),
    "untracked": (lambda: nn.BatchNorm1d(3, track_running_stats=False), [(0, 3), (4, 3), (0, 3)]),
    "plain": (lambda: nn.BatchNorm1d(3, affine=False), [(4, 3), (0, 3), (5, 3), (0, 3)]),
    "doubles": (lambda: nn.BatchNorm1d(3).double(), [(4, 3), (0, 3), (5, 3)]),
    "instances": (lambda: nn.InstanceNorm1d(3, track_running_stats=True, affine=True), [(2, 3, 4), (2, 3, 0), (3, 3, 5), (1, 3, 1)]),
}


def trained(called, x):
    try:
        y = called(x)
    except ValueError as error:
        return str(error)
    y.backward(torch.linspace(0.5, 1.5, y.numel(), dtype=y.dtype).view(y.shape))
    return y.detach(), x.grad


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", BATCH_NORMS)
def test_a_norm_of_nothing_leaves_the_running_statistics_as_they_are(name, door, dynamic):
    make, shapes = BATCH_NORMS[name]
    if door == "dynamo":
        # Of one value for each channel it raises by itself, another exception than eager's.
        shapes = [shape for shape in shapes if math.prod(shape) != 3]
    plain, ours = make(), make()
    compiled = DOORS[door](ours, dynamic=dynamic)
    dtype = next(itertools.chain(plain.parameters(), plain.buffers())).dtype
    for shape in shapes:
        x = torch.randn(shape, dtype=dtype)
        results = [trained(called, x.clone().requires_grad_()) for called in (compiled, plain)]
        compare.assert_same(*results)
        state = lambda module: ([p.grad for p in module.parameters()], [b.clone() for b in module.buffers()])
        compare.assert_same(state(ours), state(plain), label=f"state behind {shape}")


@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_of_nothing_has_no_weights(need_weights):
    attention = nn.MultiheadAttention(4, 2, batch_first=True).eval()
    compiled = oxytorch.compile(attention)
    with torch.no_grad():
        for shape in [(2, 3, 4), (0, 3, 4), (3, 3, 4), (0, 3, 4), (4, 5, 4), (0, 5, 4), (2, 0, 4)]:
            x = torch.randn(shape)
            compare.assert_same(compiled(x, x, x, need_weights=need_weights), attention(x, x, x, need_weights=need_weights))
