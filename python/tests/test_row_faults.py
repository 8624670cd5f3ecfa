"""Rows of the table where they were not eager's: one test for each fault. Values of halves and their gradients are equal to the last bit."""

import compare
import oxytorch
import pytest
import torch

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
